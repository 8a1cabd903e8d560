package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-dev/weir/go/grpclimit"
	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout bounds every wait of the tests.
const timeout = 10 * time.Second

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func tenantRule(name string, units int64) rules.Rule {
	return rules.Rule{
		Policy: "shop/" + name, Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.SlidingWindowLog, Units: units, WindowSeconds: 60,
	}
}

func newEngine(t testing.TB, clock func() time.Time, list ...rules.Rule) *engine.Engine {
	t.Helper()
	index, err := matching.NewIndex(rules.Set{Rules: list}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(memstore.New(clock), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(index)
	return e
}

// deciders are the ways to let e decide calls.
func deciders() map[string]func(t *testing.T, e *engine.Engine) httplimit.Decider {
	return map[string]func(t *testing.T, e *engine.Engine) httplimit.Decider{
		"in this process": func(_ *testing.T, e *engine.Engine) httplimit.Decider { return e },
		"over HTTP": func(t *testing.T, e *engine.Engine) httplimit.Decider {
			s := httptest.NewServer(server.NewHandler(server.Options{Engine: e, Style: reply.NoHeaders, Metrics: server.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)}))
			t.Cleanup(s.Close)
			remote, err := httplimit.NewRemote(s.URL, httplimit.Timeout(timeout))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(remote.Close)
			return remote
		},
	}
}

// service counts the calls that it receives.
type service struct {
	grpc_testing.UnimplementedTestServiceServer
	mu    sync.Mutex
	calls int
	// charge is called with the context of each call, unless it is nil.
	charge func(context.Context)
}

func (s *service) called() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *service) EmptyCall(ctx context.Context, _ *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	s.called()
	if s.charge != nil {
		s.charge(ctx)
	}
	return &grpc_testing.Empty{}, nil
}

// FullDuplexCall sends one message for each that it receives.
func (s *service) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	s.called()
	if s.charge != nil {
		s.charge(stream.Context())
	}
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// start starts a server that gate limits, and returns a client of it.
func start(t testing.TB, gate *httplimit.Gate, options ...grpclimit.Option) (*service, grpc_testing.TestServiceClient) {
	t.Helper()
	implementation, address := serve(t, gate, options...)
	return implementation, dial(t, address)
}

// serve starts a server that gate limits, and returns its address.
func serve(t testing.TB, gate *httplimit.Gate, options ...grpclimit.Option) (*service, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(gate, options...)),
		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(gate, options...)))
	implementation := &service{}
	grpc_testing.RegisterTestServiceServer(s, implementation)
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(listener) })
	t.Cleanup(func() { s.Stop(); served.Wait() })
	return implementation, listener.Addr().String()
}

func dial(t testing.TB, address string, options ...grpc.DialOption) grpc_testing.TestServiceClient {
	t.Helper()
	connection, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("API.shop.example:443"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return grpc_testing.NewTestServiceClient(connection)
}

// callOf returns the context of a call of a tenant.
func callOf(t testing.TB, tenant string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "x-tenant-id", tenant)
}

// limits are the rate-limit fields of md.
func limits(md metadata.MD) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"ratelimit", "ratelimit-policy", "retry-after"} {
		if values := md.Get(name); len(values) > 0 {
			out[name] = strings.Join(values, "|")
		}
	}
	return out
}

// overA are the details of a denial after the first unit of policy shop/a.
func overA(retry time.Duration) []proto.Message {
	return []proto.Message{
		&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: "tenant:acme", Description: "over the limit of shop/a: 1 per 1m0s", QuotaId: "shop/a", QuotaValue: 1,
		}}},
	}
}

func compareStatus(t *testing.T, err error, code codes.Code, message string, want []proto.Message) {
	t.Helper()
	got := status.Convert(err)
	if got.Code() != code || got.Message() != message {
		t.Errorf("status %v %q, want %v %q", got.Code(), got.Message(), code, message)
	}
	var details []proto.Message
	for _, d := range got.Details() {
		m, ok := d.(proto.Message)
		if !ok {
			t.Fatalf("detail %v", d)
		}
		details = append(details, m)
	}
	if diff := cmp.Diff(want, details, protocmp.Transform()); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

func TestUnaryServerInterceptor_LimitsCalls(t *testing.T) {
	for way, decider := range deciders() {
		t.Run(way, func(t *testing.T) {
			gate := httplimit.NewGate(decider(t, newEngine(t, func() time.Time { return noon }, tenantRule("a", 1))), "shop")
			implementation, client := start(t, gate)
			var header metadata.MD
			if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}, grpc.Header(&header)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"ratelimit": `"shop/a";r=0;t=60`, "ratelimit-policy": `"shop/a";q=1;w=60`}, limits(header)); diff != "" {
				t.Errorf("header metadata (-want +got):\n%s", diff)
			}
			_, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}, grpc.Header(&header))
			compareStatus(t, err, codes.ResourceExhausted, "over the limit of shop/a; retry in 60 s", overA(time.Minute))
			if diff := cmp.Diff(map[string]string{
				"ratelimit": `"shop/a";r=0;t=60`, "ratelimit-policy": `"shop/a";q=1;w=60`, "retry-after": "60",
			}, limits(header)); diff != "" {
				t.Errorf("header metadata of a denial (-want +got):\n%s", diff)
			}
			if _, err := client.EmptyCall(callOf(t, "globex"), &grpc_testing.Empty{}); err != nil {
				t.Error(err)
			}
			if n := implementation.count(); n != 2 {
				t.Errorf("%d calls were served, want 2", n)
			}
		})
	}
}

// The status of a policy is for HTTP: a call that is denied is always RESOURCE_EXHAUSTED.
func TestUnaryServerInterceptor_DeniesWithTheMessageOfThePolicy(t *testing.T) {
	for way, decider := range deciders() {
		t.Run(way, func(t *testing.T) {
			rule := tenantRule("a", 1)
			rule.Denial = &rules.Denial{Status: 403, Message: "buy more"}
			gate := httplimit.NewGate(decider(t, newEngine(t, func() time.Time { return noon }, rule)), "shop")
			_, client := start(t, gate)
			if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); err != nil {
				t.Fatal(err)
			}
			_, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{})
			compareStatus(t, err, codes.ResourceExhausted, "buy more", overA(time.Minute))
		})
	}
}

func TestUnaryServerInterceptor_CostAboveTheLimitHasNoRetryInfo(t *testing.T) {
	gate := httplimit.NewGate(newEngine(t, time.Now, tenantRule("a", 1)), "shop")
	_, client := start(t, gate, grpclimit.Cost(func(context.Context, string, any) int64 { return 2 }))
	_, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{})
	compareStatus(t, err, codes.ResourceExhausted, "over the limit of shop/a; the request costs more than the limit, so a retry cannot succeed", overA(0)[1:])
}

func TestStreamServerInterceptor_ChargesAStreamAtItsStart(t *testing.T) {
	for way, decider := range deciders() {
		t.Run(way, func(t *testing.T) {
			gate := httplimit.NewGate(decider(t, newEngine(t, func() time.Time { return noon }, tenantRule("a", 1))), "shop")
			implementation, client := start(t, gate)
			stream := open(t, client)
			for range 3 {
				if err := echo(stream); err != nil {
					t.Fatal(err)
				}
			}
			finish(t, stream)
			second := open(t, client)
			_, err := second.Recv()
			compareStatus(t, err, codes.ResourceExhausted, "over the limit of shop/a; retry in 60 s", overA(time.Minute))
			header, _ := second.Header()
			if header.Get("retry-after") == nil {
				t.Errorf("header metadata %v", header)
			}
			if n := implementation.count(); n != 1 {
				t.Errorf("%d streams were served, want 1", n)
			}
		})
	}
}

// The charge at the start covers the first message, and the first message over the limit ends the stream.
func TestEachMessage_ChargesEveryMessage(t *testing.T) {
	rule := tenantRule("a", 1)
	rule.Units = 3
	gate := httplimit.NewGate(newEngine(t, func() time.Time { return noon }, rule), "shop")
	var messages []bool // whether Cost received one
	_, client := start(t, gate, grpclimit.EachMessage(), grpclimit.Cost(func(_ context.Context, method string, message any) int64 {
		if method != grpc_testing.TestService_FullDuplexCall_FullMethodName {
			t.Errorf("Cost called for method %s", method)
		}
		messages = append(messages, message != nil)
		return 1
	}))
	stream := open(t, client)
	for range 3 {
		if err := echo(stream); err != nil {
			t.Fatal(err)
		}
	}
	err := echo(stream)
	if status.Code(err) != codes.ResourceExhausted || limits(stream.Trailer())["retry-after"] != "60" {
		t.Errorf("the fourth message: %v, trailer %v", err, stream.Trailer())
	}
	if diff := cmp.Diff([]bool{false, true, true, true}, messages); diff != "" {
		t.Errorf("messages that Cost received (-want +got):\n%s", diff)
	}
}

type duplex = grpc.BidiStreamingClient[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]

func open(t *testing.T, client grpc_testing.TestServiceClient) duplex {
	t.Helper()
	stream, err := client.FullDuplexCall(callOf(t, "acme"))
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// echo sends a message and waits for the response.
func echo(stream duplex) error {
	if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := stream.Recv()
	return err
}

func finish(t *testing.T, stream duplex) {
	t.Helper()
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestUnaryServerInterceptor_PassesTheCallToTheDecider(t *testing.T) {
	var observed engine.Check
	gate := httplimit.NewGate(newEngine(t, time.Now), "shop",
		httplimit.Observe(func(_ context.Context, c *engine.Check, _ engine.Answer, _ error) { observed = *c }))
	_, client := start(t, gate, grpclimit.Claims(func(context.Context) map[string]any { return map[string]any{"sub": "u1"} }))
	ctx := metadata.AppendToOutgoingContext(callOf(t, "acme"), "x-list", "a", "X-List", "b", "trace-bin", "\xff", "x-forwarded-for", "203.0.113.7")
	if _, err := client.EmptyCall(ctx, &grpc_testing.Empty{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"user-agent", "grpc-accept-encoding"} { // these depend on the version of gRPC
		delete(observed.Request.Headers, name)
	}
	want := rules.Request{
		Domain: "shop", Method: "POST", Host: "api.shop.example", Path: "/grpc.testing.TestService/EmptyCall",
		Headers: map[string]string{
			"x-tenant-id": "acme", "x-list": "a,b", "x-forwarded-for": "203.0.113.7", "content-type": "application/grpc",
		},
		RepeatedHeaders: []string{"x-list"},
		ClientIP:        netip.MustParseAddr("127.0.0.1"), Claims: map[string]any{"sub": "u1"},
	}
	if diff := cmp.Diff(want, observed.Request, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestOnlyHeaders_PassesOnlyNamedMetadata(t *testing.T) {
	var observed engine.Check
	gate := httplimit.NewGate(newEngine(t, time.Now), "shop")
	_, client := start(t, gate, grpclimit.OnlyHeaders("X-Tenant-ID", "absent"),
		grpclimit.ClientIP(func(context.Context) netip.Addr { return netip.MustParseAddr("203.0.113.7") }),
		grpclimit.Describe(func(_ context.Context, c *engine.Check) { observed = *c }))
	if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"x-tenant-id": "acme"}, observed.Request.Headers); diff != "" || observed.Request.ClientIP.String() != "203.0.113.7" {
		t.Errorf("client %v; headers (-want +got):\n%s", observed.Request.ClientIP, diff)
	}
}

// The third of three calls is served 100 ms after the first, in this process and over HTTP.
func TestUnaryServerInterceptor_WaitsForTheTurnOfACall(t *testing.T) {
	for way, decider := range deciders() {
		t.Run(way, func(t *testing.T) {
			drip := tenantRule("drip", 20)
			drip.Algorithm, drip.WindowSeconds, drip.Burst = limiter.LeakyBucket, 1, 5
			gate := httplimit.NewGate(decider(t, newEngine(t, time.Now, drip)), "shop")
			_, client := start(t, gate)
			began := time.Now()
			for range 3 {
				if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took < 100*time.Millisecond {
				t.Errorf("three calls at one per 50 ms took %v, want at least 100 ms", took)
			}
		})
	}
}

func TestUnaryServerInterceptor_DoesNotServeACanceledCall(t *testing.T) {
	slow := tenantRule("slow", 1)
	slow.Algorithm, slow.WindowSeconds, slow.Burst = limiter.LeakyBucket, 3600, 1 // the second waits for an hour
	decided := make(chan struct{}, 2)
	gate := httplimit.NewGate(newEngine(t, time.Now, slow), "shop",
		httplimit.Observe(func(context.Context, *engine.Check, engine.Answer, error) { decided <- struct{}{} }))
	implementation, client := start(t, gate)
	// With a deadline, the gate would deny the call immediately, because the wait is longer. So these calls have no deadline.
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "x-tenant-id", "acme"))
	defer cancel()
	if _, err := client.EmptyCall(ctx, &grpc_testing.Empty{}); err != nil {
		t.Fatal(err)
	}
	<-decided
	ended := make(chan error, 1)
	go func() {
		_, err := client.EmptyCall(ctx, &grpc_testing.Empty{})
		ended <- err
	}()
	select {
	case <-decided:
	case <-time.After(timeout):
		t.Fatalf("the second call was not decided within %v", timeout)
	}
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the second call ended with %v, want Canceled", err)
	}
	if n := implementation.count(); n != 1 {
		t.Errorf("%d calls were served, want 1", n)
	}
}

func TestUnaryServerInterceptor_DeniesACallWhoseDeadlineIsTooShort(t *testing.T) {
	slow := tenantRule("a", 1)
	slow.Algorithm, slow.WindowSeconds, slow.Burst = limiter.LeakyBucket, 60, 1
	_, client := start(t, httplimit.NewGate(newEngine(t, func() time.Time { return noon }, slow), "shop"))
	if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); err != nil {
		t.Fatal(err)
	}
	_, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{})
	if status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("status %v, want ResourceExhausted", err)
	}
	// The turn is in 60 s. The call can wait until its deadline, which is timeout later.
	retry, is := status.Convert(err).Details()[0].(*errdetails.RetryInfo)
	if wait := retry.GetRetryDelay().AsDuration(); !is || wait < time.Minute-timeout || wait > time.Minute {
		t.Errorf("retry after %v, want from %v to 1m0s", wait, time.Minute-timeout)
	}
}

func TestUnaryServerInterceptor_WithoutADecision(t *testing.T) {
	retry := []proto.Message{&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}}
	unreachable := &httplimit.UnreachableError{Cause: errors.New("dial 10.0.0.7")}
	const unknown = "the counters are unavailable; the request may or may not have been counted"
	tests := map[string]struct {
		err     error
		options []httplimit.Option
		code    codes.Code
		message string
		details []proto.Message
	}{
		"the limiter is unreachable":              {unreachable, nil, codes.OK, "", nil},
		"the limiter is unreachable, fail closed": {unreachable, []httplimit.Option{httplimit.FailClosed()}, codes.Unavailable, unknown, retry},
		"a policy with onStoreFailure Deny": {
			&engine.RefusedError{Policy: "shop/a"}, nil, codes.Unavailable, "policy shop/a denies requests while its counters are unavailable", retry,
		},
		"a check that is too large": {
			&httplimit.ProblemError{Problem: reply.NewProblem(431, "", "too large")}, nil, codes.InvalidArgument, "too large", nil,
		},
		"the limiter rejects the check": {
			&httplimit.ProblemError{Problem: reply.NewProblem(400, "", "domain")}, nil, codes.Internal, "the limits of this request could not be checked", nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			gate := httplimit.NewGate(failing{test.err}, "shop", append(test.options, httplimit.Log(slog.New(slog.DiscardHandler)))...)
			_, client := start(t, gate)
			_, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{})
			compareStatus(t, err, test.code, test.message, test.details)
		})
	}
}

// failing is a Decider that always returns an error.
type failing struct{ err error }

func (f failing) Check(context.Context, *engine.Check) (engine.Answer, error) {
	return engine.Answer{}, f.err
}

// What a server sends is known only while it sends it.
func TestInterceptors_ChargeLaterLetsHandlersCharge(t *testing.T) {
	implementation, client := start(t, httplimit.NewGate(newEngine(t, func() time.Time { return noon }, tenantRule("a", 10)), "shop"), grpclimit.ChargeLater())
	var errs []error
	implementation.charge = func(ctx context.Context) { errs = append(errs, httplimit.Charge(ctx, 4)) }
	if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); err != nil { // 1 + 4
		t.Fatal(err)
	}
	stream, err := client.FullDuplexCall(callOf(t, "acme")) // 1 + 4
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("after 10 units of 10: %v", err)
	}
	if err := errors.Join(errs...); err != nil || len(errs) != 2 {
		t.Errorf("%d charges: %v", len(errs), err)
	}
}
