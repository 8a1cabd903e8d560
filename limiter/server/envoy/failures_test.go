package envoy

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

var errRefused = errors.New("dial tcp 10.0.0.7:6379: connection refused")

// brittle is a store that fails while broken is set, and blocks callers while held is set.
type brittle struct {
	limiter.Store

	broken  atomic.Bool
	holding chan struct{} // unless nil, receives a value for each call that blocks
}

func (s *brittle) ask(ctx context.Context) error {
	if s.holding != nil {
		s.holding <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	if s.broken.Load() {
		return errRefused
	}
	return nil
}

func (s *brittle) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	return s.Store.Spend(ctx, charges)
}

func (s *brittle) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	return s.Store.Peek(ctx, charges)
}

func (*brittle) Unavailable(string) bool { return false }

func (*brittle) ReportUsage(context.Context, limiter.Charge) (uncounted bool, err error) {
	return true, nil
}

// wantError compares the code and a part of the message of an error.
func wantError(t testing.TB, err error, code codes.Code, message string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), message) {
		t.Errorf("error %v, want %v: %s", err, code, message)
	}
}

func TestRateLimit_RejectsInvalidRequests(t *testing.T) {
	w := limiterOf(t, per("a", 5, time.Minute, "tenant"))
	many := func(n int) []*descriptorv3.RateLimitDescriptor {
		list := make([]*descriptorv3.RateLimitDescriptor, n)
		for i := range list {
			list[i] = describe("tenant=acme")
		}
		return list
	}
	tests := map[string]struct {
		asked *ratelimitv3.RateLimitRequest
		want  string
	}{
		"nothing":                    {&ratelimitv3.RateLimitRequest{}, "domain is empty"},
		"no domain":                  {&ratelimitv3.RateLimitRequest{Descriptors: many(1)}, "domain is empty: set it to the domain"},
		"a domain too long":          {&ratelimitv3.RateLimitRequest{Domain: strings.Repeat("x", 254), Descriptors: many(1)}, "domain is longer than 253 bytes"},
		"no descriptors":             {request(), "descriptors is empty"},
		"a domain of 127 characters": {&ratelimitv3.RateLimitRequest{Domain: strings.Repeat("é", 127), Descriptors: many(64)}, "domain is longer than 253 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := w.rls.ShouldRateLimit(t.Context(), test.asked)
			wantError(t, err, codes.InvalidArgument, test.want)
		})
	}
	wantSummary(t, w.ask(t, describe("tenant=acme")), "OK: OK 4")
	largest := &ratelimitv3.RateLimitRequest{Domain: strings.Repeat("x", 253), Descriptors: make([]*descriptorv3.RateLimitDescriptor, 64)}
	for i := range largest.GetDescriptors() {
		largest.Descriptors[i] = describe(strings.Repeat("a=b ", 64))
	}
	if _, err := w.rls.ShouldRateLimit(t.Context(), largest); err != nil {
		t.Errorf("the largest request: %v", err)
	}
}

func TestServer_RejectsAMessageOver1MiB(t *testing.T) {
	w := limiterOf(t, per("a", 5, time.Minute, "tenant"))
	_, err := w.rls.ShouldRateLimit(t.Context(), request(describe("tenant="+strings.Repeat("x", 1<<20))))
	wantError(t, err, codes.ResourceExhausted, "larger than max (")
	wantSummary(t, w.ask(t, describe("tenant="+strings.Repeat("x", 1023<<10))), "OK: OK 4")
}

// With failure_mode_allow, an error would let the client pass uncounted.
func TestExtAuthz_DeniesTheLargestRequestsThatEnvoyAccepts(t *testing.T) {
	const most = 60 << 10 // Envoy's default for all headers of a request, of which the path is one
	w := limiterOf(t, search())
	a := attributes("GET", "/v1/search?x="+strings.Repeat("x", most))
	a.GetRequest().GetHttp().GetHeaders()["x-pad"] = strings.Repeat("x", most)
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		if got := w.check(t, a); codes.Code(got.GetStatus().GetCode()) != want {
			t.Errorf("request %d: %v, want %v", i, got.GetStatus(), want)
		}
	}
}

// raw is a message in wire format.
type raw []byte

// rawCodec writes raw messages.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.(raw)
	if !ok {
		return nil, errors.New("not raw")
	}
	return b, nil
}
func (rawCodec) Unmarshal([]byte, any) error { return nil }
func (rawCodec) Name() string                { return "proto" }

func TestServer_RejectsAnInvalidMessage(t *testing.T) {
	w := limiterOf(t, per("a", 5, time.Minute, "tenant"))
	for name, message := range map[string]raw{
		"invalid bytes": raw("\xff\xff\xff"), "a length beyond the end": raw("\x0a\x7fx"),
	} {
		t.Run(name, func(t *testing.T) {
			err := w.conn.Invoke(t.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, message, &emptypb.Empty{}, grpc.ForceCodec(rawCodec{}))
			wantError(t, err, codes.Internal, "unmarshal")
		})
	}
	wantSummary(t, w.ask(t, describe("tenant=acme")), "OK: OK 4")
}

func TestRateLimit_FailsWithoutRules(t *testing.T) {
	w := serve(t, Options{Refunds: true, Engine: engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))})
	for _, d := range []*descriptorv3.RateLimitDescriptor{describe("a=b"), refunding(1, "a=b"), counting(0, "a=b")} {
		_, err := w.rls.ShouldRateLimit(t.Context(), request(d))
		wantError(t, err, codes.Unavailable, "no rules are loaded yet")
	}
}

func TestRateLimit_AppliesOnStoreFailureOfThePolicy(t *testing.T) {
	store := &brittle{Store: memstore.New(noon().now)}
	store.broken.Store(true)
	e := engine.New(failover.New(store, local.New(1<<20, noon().now), time.Now, slog.New(slog.DiscardHandler)),
		engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	deny, allow, share := per("deny", 5, time.Minute, "a"), per("allow", 5, time.Minute, "b"), per("local", 5, time.Minute, "c")
	deny.OnStoreFailure, allow.OnStoreFailure = rules.DenyOnFailure, rules.AllowOnFailure
	swap(t, e, allow, deny, share)
	w := serve(t, Options{Engine: e})
	for _, d := range []*descriptorv3.RateLimitDescriptor{describe("a=x"), counting(0, "a=x")} {
		_, err := w.rls.ShouldRateLimit(t.Context(), request(describe("c=x"), d))
		wantError(t, err, codes.Unavailable, "policy shop/deny denies requests while its counters are unavailable")
	}
	for _, want := range []string{"OK: OK 5, OK 4", "OK: OK 5, OK 3"} {
		answer := w.ask(t, describe("b=x"), describe("c=x"))
		wantSummary(t, answer, want)
		if got := answer.GetDynamicMetadata().GetFields()["source"].GetStringValue(); got != "local" {
			t.Errorf("source %q", got)
		}
	}
}

func TestRateLimit_StoreErrorContainsNoAddress(t *testing.T) {
	store := &brittle{Store: memstore.New(noon().now)}
	store.broken.Store(true)
	e := engine.New(store, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	swap(t, e, per("a", 5, time.Minute, "a"))
	w := serve(t, Options{Refunds: true, Engine: e})
	for name, asked := range map[string]*ratelimitv3.RateLimitRequest{
		"hits": request(describe("a=x")), "a peek": request(counting(0, "a=x")), "a refund": request(refunding(1, "a=x")),
		"a peek and hits": request(counting(0, "z=x"), describe("a=x")),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.rls.ShouldRateLimit(t.Context(), asked)
			wantError(t, err, codes.Unavailable, "the counters are unavailable; the request may or may not have been counted")
			if strings.Contains(err.Error(), "10.0.0.7") {
				t.Error(err)
			}
		})
	}
	store.broken.Store(false)
	wantSummary(t, w.ask(t, describe("a=x")), "OK: OK 4")
}

func TestRateLimit_EndsWithTheContextOfTheCall(t *testing.T) {
	store := &brittle{Store: memstore.New(noon().now), holding: make(chan struct{})}
	e := engine.New(store, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	swap(t, e, per("a", 5, time.Minute, "a"))
	w := serve(t, Options{Engine: e})
	t.Run("by cancelling", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-store.holding
			cancel()
		}()
		_, err := w.rls.ShouldRateLimit(ctx, request(describe("a=x")))
		wantError(t, err, codes.Canceled, "")
	})
	t.Run("by its deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // Envoy's default
		defer cancel()
		go func() { <-store.holding }()
		_, err := w.rls.ShouldRateLimit(ctx, request(describe("a=x")))
		wantError(t, err, codes.DeadlineExceeded, "")
	})
}

func TestUnavailable_ReturnsTheErrorOfTheContext(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, unavailable(gone, errRefused), codes.Canceled, "")
	wantError(t, unavailable(t.Context(), errRefused), codes.Unavailable, "the counters are unavailable")
}

// panicking is a store that panics.
type panicking struct{ limiter.Store }

func (panicking) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) { panic("a bug") }

func TestServer_APanicFailsOneCallAndIsLogged(t *testing.T) {
	e := engine.New(panicking{memstore.New(noon().now)}, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	swap(t, e, per("a", 5, time.Minute, "a"))
	var log bytes.Buffer
	w := serve(t, Options{Engine: e, Log: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := w.rls.ShouldRateLimit(t.Context(), request(describe("a=x")))
	wantError(t, err, codes.Internal, "internal error")
	wantSummary(t, w.ask(t, describe("b=x")), "OK: OK -")
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "a bug") || !strings.Contains(log.String(), "failures_test.go") {
		t.Errorf("log %s", &log)
	}
}

// slow is a store that blocks a spend until the test releases it.
type slow struct {
	limiter.Store

	entered, leave chan struct{}
}

func (s *slow) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.entered <- struct{}{}
	<-s.leave
	return s.Store.Spend(ctx, charges)
}

// tally counts failures.
type tally struct {
	invalid, unavailable atomic.Int64
	defectsFound
}

func (f *tally) Invalid()          { f.invalid.Add(1) }
func (f *tally) Unavailable(error) { f.unavailable.Add(1) }

func (f *tally) want(t *testing.T, endpoint string, invalid, unavailable int64) {
	t.Helper()
	if f.invalid.Load() != invalid || f.unavailable.Load() != unavailable {
		t.Errorf("%s: %d invalid and %d unavailable, want %d and %d", endpoint, f.invalid.Load(), f.unavailable.Load(), invalid, unavailable)
	}
}

func TestFailures_CountCallsWithoutADecision(t *testing.T) {
	var rls, auth tally
	w := serve(t, Options{Engine: newEngine(t, noon(), per("a", 1, time.Minute, "a")), RateLimitFailures: &rls, ExtAuthzFailures: &auth})
	w.ask(t, describe("a=x"))
	w.ask(t, describe("a=x")) // a denial is a decision
	w.check(t, attributes("GET", "/"))
	rls.want(t, "rls", 0, 0)
	_, err := w.rls.ShouldRateLimit(t.Context(), request())
	wantError(t, err, codes.InvalidArgument, "")
	_, err = w.rls.ShouldRateLimit(t.Context(), request(refunding(1, "a=x")))
	wantError(t, err, codes.PermissionDenied, "")
	long := attributes("GET", "/")
	long.ContextExtensions["domain"] = strings.Repeat("x", 254)
	_, err = w.auth.Check(t.Context(), &authv3.CheckRequest{Attributes: long})
	wantError(t, err, codes.InvalidArgument, "")
	rls.want(t, "rls", 2, 0)
	auth.want(t, "ext_authz", 1, 0)
}

func TestFailures_CountMessagesThatCannotBeDecoded(t *testing.T) {
	var rls, auth tally
	w := serve(t, Options{Engine: newEngine(t, noon()), RateLimitFailures: &rls, ExtAuthzFailures: &auth})
	for _, method := range []string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, authv3.Authorization_Check_FullMethodName} {
		err := w.conn.Invoke(t.Context(), method, raw("\xff\xff\xff"), &emptypb.Empty{}, grpc.ForceCodec(rawCodec{}))
		wantError(t, err, codes.Internal, "unmarshal")
	}
	rls.want(t, "rls", 1, 0)
	auth.want(t, "ext_authz", 1, 0)
}

func TestFailures_CountCallsWithoutRules(t *testing.T) {
	for _, inBody := range []bool{false, true} {
		var rls, auth tally
		w := serve(t, Options{
			Engine:            engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry())),
			RateLimitFailures: &rls, ExtAuthzFailures: &auth, ErrorResponse: inBody,
		})
		_, err := w.rls.ShouldRateLimit(t.Context(), request(describe("a=b")))
		wantError(t, err, codes.Unavailable, "")
		_, _ = w.auth.Check(t.Context(), &authv3.CheckRequest{Attributes: attributes("GET", "/")}) // an error, or a response that reports one
		rls.want(t, "rls", 0, 1)
		auth.want(t, "ext_authz", 0, 1)
	}
}

// ResetOnce implements failover.Remote.
func (s *brittle) ResetOnce(ctx context.Context, key, _ string) error {
	return s.Reset(ctx, []string{key}, "")
}
