package rlsload_test

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/hack/bench/rlsload"
)

// service answers by the domain of the request.
type service struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	calls, inFlight, mostInFlight atomic.Int64
}

func (s *service) ShouldRateLimit(ctx context.Context, request *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	s.calls.Add(1)
	n := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	for most := s.mostInFlight.Load(); n > most && !s.mostInFlight.CompareAndSwap(most, n); {
		most = s.mostInFlight.Load()
	}
	answer := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}
	switch request.GetDomain() {
	case "slow":
		time.Sleep(10 * time.Millisecond)
	case "denied":
		answer.OverallCode = ratelimitv3.RateLimitResponse_OVER_LIMIT
	case "shed":
		return nil, status.Error(codes.Unavailable, "busy")
	case "failed":
		return nil, status.Error(codes.Internal, "broken")
	case "silent":
		<-ctx.Done()
	}
	return answer, nil
}

// lateSettings is a listener whose server needs 50 ms for the first bytes that it sends: its settings.
type lateSettings struct{ net.Listener }

func (l lateSettings) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &lateConn{Conn: conn}, err
}

type lateConn struct {
	net.Conn
	first sync.Once
}

func (c *lateConn) Write(data []byte) (int, error) {
	c.first.Do(func() { time.Sleep(50 * time.Millisecond) })
	return c.Conn.Write(data)
}

// serve starts a service that permits that many streams for each connection, and returns it and a client with two connections.
func serve(t *testing.T, streams uint32) (*service, *rlsload.Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, listener, streams)
}

func serveOn(t *testing.T, listener net.Listener, streams uint32) (*service, *rlsload.Client) {
	t.Helper()
	s, server := &service{}, grpc.NewServer(grpc.MaxConcurrentStreams(streams))
	ratelimitv3.RegisterRateLimitServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client, err := rlsload.Dial(t.Context(), listener.Addr().String(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return s, client
}

func message(t *testing.T, domain string) func(*rand.Rand) []byte {
	t.Helper()
	text, err := proto.Marshal(&ratelimitv3.RateLimitRequest{Domain: domain})
	if err != nil {
		t.Fatal(err)
	}
	return func(*rand.Rand) []byte { return text }
}

func TestRun_CountsEachAnswerOfAClosedLoop(t *testing.T) {
	for domain, of := range map[string]func(*rlsload.Result) int{
		"allowed": func(r *rlsload.Result) int { return r.Allowed },
		"denied":  func(r *rlsload.Result) int { return r.Denied },
		"shed":    func(r *rlsload.Result) int { return r.Shed },
		"failed":  func(r *rlsload.Result) int { return r.Failed },
	} {
		t.Run(domain, func(t *testing.T) {
			s, client := serve(t, 100)
			for range 2 { // the connections stay usable
				before := s.calls.Load()
				got, err := client.Run(t.Context(), rlsload.Load{Callers: 7, Message: message(t, domain)}, 100*time.Millisecond)
				if err != nil {
					t.Fatal(err)
				}
				calls := int(s.calls.Load() - before)
				if of(got) != calls || got.Allowed+got.Denied+got.Shed+got.Failed != calls || calls < 7 {
					t.Errorf("%d calls, counted %+v", calls, got)
				}
				if len(got.Latencies) != got.Decided() || !slices.IsSorted(got.Latencies) {
					t.Errorf("%d latencies of %d decisions, sorted: %v", len(got.Latencies), got.Decided(), slices.IsSorted(got.Latencies))
				}
			}
		})
	}
}

func TestRun_KeepsTheCallersInFlight(t *testing.T) {
	s, client := serve(t, 100)
	if _, err := client.Run(t.Context(), rlsload.Load{Callers: 7, Message: message(t, "slow")}, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := s.mostInFlight.Load(); got != 7 {
		t.Errorf("at most %d in flight, want 7", got)
	}
}

func TestRun_SendsAnOpenLoopOnSchedule(t *testing.T) {
	s, client := serve(t, 100)
	got, err := client.Run(t.Context(), rlsload.Load{Rate: 500, Message: message(t, "slow")}, 400*time.Millisecond)
	if err != nil || got.Allowed != 200 || s.calls.Load() != 200 {
		t.Fatalf("%+v, %v; %d calls; want 200", got, err, s.calls.Load())
	}
	if fastest := got.Latencies[0]; fastest < 10*time.Millisecond || got.Quantile(0.5) < fastest || got.Quantile(1) != got.Latencies[199] {
		t.Errorf("latencies %v", got.Latencies)
	}
}

// A late answer includes the time in which the request could not be sent.
func TestRun_CountsLatencyFromTheSchedule(t *testing.T) {
	s, client := serve(t, 1) // one stream for each of two connections: 200 requests of 10 ms take a second
	got, err := client.Run(t.Context(), rlsload.Load{Rate: 1000, Message: message(t, "slow")}, 200*time.Millisecond)
	if err != nil || got.Allowed != 200 {
		t.Fatalf("%+v, %v; want 200 allowed", got, err)
	}
	if most := s.mostInFlight.Load(); most > 2 {
		t.Errorf("%d in flight, the server permits 2", most)
	}
	if last := got.Quantile(1); last < 700*time.Millisecond {
		t.Errorf("the last answer came %v after its schedule, want about 800 ms", last)
	}
}

func TestRun_WaitsForTheSettingsOfTheServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, client := serveOn(t, lateSettings{listener}, 1)
	got, err := client.Run(t.Context(), rlsload.Load{Callers: 8, Message: message(t, "slow")}, 100*time.Millisecond)
	if err != nil || got.Failed != 0 || got.Allowed == 0 {
		t.Errorf("%+v, %v; want no failed request", got, err)
	}
	if most := s.mostInFlight.Load(); most > 2 {
		t.Errorf("%d in flight, the server permits 2", most)
	}
}

func TestRun_CountsRequestsWithoutAnAnswerAsFailed(t *testing.T) {
	_, client := serve(t, 100)
	got, err := client.Run(t.Context(), rlsload.Load{Callers: 3, Message: message(t, "silent")}, 50*time.Millisecond)
	if err != nil || got.Failed != 3 || got.Decided() != 0 || got.Quantile(0.99) != 0 {
		t.Errorf("%+v, %v; want 3 failed", got, err)
	}
}

func TestRun_ReturnsTheErrorOfAConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
		}
	}()
	client, err := rlsload.Dial(t.Context(), listener.Addr().String(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Run(t.Context(), rlsload.Load{Callers: 1, Message: message(t, "allowed")}, time.Second); err == nil {
		t.Error("no error, although the server closed the connection")
	}
}

func TestRun_MeasuresAfterAPeriodWithoutAnswers(t *testing.T) {
	_, client := serve(t, 10)
	got, err := client.Run(t.Context(), rlsload.Load{Rate: 1000, Message: message(t, "silent")}, 50*time.Millisecond)
	if err != nil || got.Failed != 50 {
		t.Fatalf("Run = %+v, %v, want 50 requests that failed", got, err)
	}
	got, err = client.Run(t.Context(), rlsload.Load{Rate: 1000, Message: message(t, "allowed")}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if got.Allowed != 50 || got.Failed != 0 {
		t.Errorf("Run = %+v, want 50 requests that are allowed", got)
	}
}
