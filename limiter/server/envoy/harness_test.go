package envoy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
	"github.com/weir-dev/weir/limiter/store"
)

// clock changes only when a test advances it.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *clock) pass(d time.Duration) { c.nanos.Add(int64(d)) }

func noon() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

// world is a limiter with a client in the role of Envoy.
type world struct {
	clock  *clock
	engine *engine.Engine
	conn   *grpc.ClientConn
	rls    ratelimitv3.RateLimitServiceClient
	auth   authv3.AuthorizationClient
	health grpc_health_v1.HealthClient
	dials  atomic.Int32 // of serveInMemory
	// stop stops the server and returns the error of Run.
	stop func() error
}

// newEngine returns an Engine with counters in memory and the clock c.
func newEngine(t testing.TB, c *clock, list ...rules.Rule) *engine.Engine {
	t.Helper()
	e := engine.New(store.New(memstore.New(c.now), store.Layers{}, prometheus.NewRegistry()), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	swap(t, e, list...)
	return e
}

func swap(t testing.TB, e *engine.Engine, list ...rules.Rule) {
	t.Helper()
	index, err := matching.NewIndex(rules.Set{Rules: list, HashKey: testHashKey().ID()}, "sha256:1", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(index)
}

// limiterOf starts a server with rules.
func limiterOf(t testing.TB, list ...rules.Rule) *world {
	t.Helper()
	c := noon()
	w := serve(t, Options{Engine: newEngine(t, c, list...), Style: reply.RateLimitHeaders, Refunds: true})
	w.clock = c
	return w
}

// serve runs a server with o on a loopback address until the test ends.
func serve(t testing.TB, o Options, dial ...grpc.DialOption) *world {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.serve(t, listener, listener.Addr().String(), o, dial)
	return w
}

// serveInMemory runs a server with o without sockets, for tests with a fake clock.
func serveInMemory(t testing.TB, o Options) *world {
	t.Helper()
	listener, w := bufconn.Listen(64<<10), &world{}
	w.serve(t, listener, "passthrough:///memory", o, []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			w.dials.Add(1)
			return listener.DialContext(ctx)
		}),
	})
	return w
}

func (w *world) serve(t testing.TB, listener net.Listener, target string, o Options, dial []grpc.DialOption) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	if o.Transport == "" {
		o.Transport = transportOfTests
	}
	server := NewServer(o)
	go func() { ended <- server.Run(ctx, listener) }()
	w.stop = func() error {
		cancel()
		err := <-ended
		ended <- nil
		return err
	}
	if len(dial) == 0 {
		dial = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), w.stop()); err != nil {
			t.Error(err)
		}
	})
	w.engine, w.conn = o.Engine, conn
	w.rls, w.auth = ratelimitv3.NewRateLimitServiceClient(conn), authv3.NewAuthorizationClient(conn)
	w.health = grpc_health_v1.NewHealthClient(conn)
}

// watch calls Watch for the rate limit service and returns a function that compares the next status.
func (w *world) watch(t *testing.T) func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	stream, err := w.health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "envoy.service.ratelimit.v3.RateLimitService"})
	if err != nil {
		t.Fatal(err)
	}
	return func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := stream.Recv(); err != nil || got.GetStatus() != want {
			t.Fatalf("%v, %v, want %v", got.GetStatus(), err, want)
		}
	}
}

// ask calls ShouldRateLimit with the descriptors in the domain shop.
func (w *world) ask(t testing.TB, descriptors ...*descriptorv3.RateLimitDescriptor) *ratelimitv3.RateLimitResponse {
	t.Helper()
	answer, err := w.rls.ShouldRateLimit(t.Context(), request(descriptors...))
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.GetStatuses()) != len(descriptors) {
		t.Fatalf("%d statuses of %d descriptors", len(answer.GetStatuses()), len(descriptors))
	}
	return answer
}

func request(descriptors ...*descriptorv3.RateLimitDescriptor) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: "shop", Descriptors: descriptors}
}

// describe parses a descriptor such as "generic_key=login tenant=acme".
func describe(text string) *descriptorv3.RateLimitDescriptor {
	d := &descriptorv3.RateLimitDescriptor{}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// counting returns a descriptor with a number of hits.
func counting(hits uint64, text string) *descriptorv3.RateLimitDescriptor {
	d := describe(text)
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

// refunding returns a descriptor that refunds a number of hits.
func refunding(hits uint64, text string) *descriptorv3.RateLimitDescriptor {
	d := counting(hits, text)
	d.IsNegativeHits = true
	return d
}

// per returns a policy shop/name for descriptors like the given one, in which an absent value matches any value. The identifier is the
// value of the last entry.
func per(name string, units int64, window time.Duration, like string) rules.Rule {
	r := rules.Rule{
		Policy: "shop/" + name, Domain: "shop", Axis: "Custom",
		Algorithm: limiter.FixedWindow, Units: units, WindowSeconds: int64(window / time.Second),
	}
	for word := range strings.FieldsSeq(like) {
		key, value, _ := strings.Cut(word, "=")
		r.Match.Descriptors = append(r.Match.Descriptors, rules.DescriptorMatch{Key: key, Value: value})
		r.Identifier = rules.Identifier{From: rules.FromDescriptor, Name: key}
	}
	return r
}

// wantJSON compares a message with its JSON.
func wantJSON(t testing.TB, got proto.Message, want string) {
	t.Helper()
	wanted := got.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal([]byte(want), wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// summary formats a response as "OVER_LIMIT: OK 3, OVER_LIMIT 0": the overall code, then each status with the remaining units, or "-"
// if no policy matched.
func summary(r *ratelimitv3.RateLimitResponse) string {
	words := make([]string, len(r.GetStatuses()))
	for i, s := range r.GetStatuses() {
		words[i] = s.GetCode().String() + " -"
		if s.GetCurrentLimit() != nil {
			words[i] = s.GetCode().String() + " " + decimal(s.GetLimitRemaining())
		}
	}
	return r.GetOverallCode().String() + ": " + strings.Join(words, ", ")
}

func decimal(n uint32) string { return protojson.Format(wrapperspb.UInt32(n)) }

func wantSummary(t testing.TB, got *ratelimitv3.RateLimitResponse, want string) {
	t.Helper()
	if told := summary(got); told != want {
		t.Errorf("told %q, want %q", told, want)
	}
}

// decideMessage lets d decide a request in wire format, and returns the response in wire format, which it appends to out.
func decideMessage(ctx context.Context, d *rateLimitEndpoint, message, out []byte) ([]byte, error) {
	response, _, err := d.serve(ctx, message, out)
	return response, err
}

// decoded returns the request with attributes.
func decoded(t testing.TB, a *authv3.AttributeContext) *wire.AuthRequest {
	t.Helper()
	r := &wire.AuthRequest{}
	if err := r.Decode(marshal(t, &authv3.CheckRequest{Attributes: a})); err != nil {
		t.Fatal(err)
	}
	return r
}

// answerTo is decideMessage with a decoded response. The response must have no fields that Envoy does not know.
func answerTo(ctx context.Context, d *rateLimitEndpoint, message []byte) (*ratelimitv3.RateLimitResponse, error) {
	sent, err := decideMessage(ctx, d, message, nil)
	if err != nil {
		return nil, err
	}
	out, known := &ratelimitv3.RateLimitResponse{}, &ratelimitv3.RateLimitResponse{}
	err = errors.Join(proto.Unmarshal(sent, out), proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(sent, known))
	if err == nil && proto.Size(out) != proto.Size(known) {
		err = fmt.Errorf("the response %x has unknown fields", sent)
	}
	return out, err
}

// testHashKey returns the key with which the tests of this package hash secrets.
func testHashKey() *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		panic(err)
	}
	return key
}
