package envoy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/test/fixture"
)

// responses counts calls by the code of their response.
type responses struct {
	mu     sync.Mutex
	counts map[string]int
}

func (r *responses) Count(code uint32) { r.count(codes.Code(code).String()) }
func (r *responses) CountOverLimit()   { r.count("OVER_LIMIT") }

func (r *responses) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[name]++
}

// want waits until the calls are counted: a caller that gives up does not wait for that.
func (r *responses) want(t *testing.T, endpoint, want string) {
	t.Helper()
	text := func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		var lines []string
		for name, n := range r.counts {
			lines = append(lines, fmt.Sprint(name, " ", n))
		}
		slices.Sort(lines)
		return strings.Join(lines, ", ")
	}
	fixture.Await(t, endpoint+" counts "+want, func() bool { return text() == want })
}

func TestRequests_AreCountedByTheCodeOfTheResponse(t *testing.T) {
	var rls, auth responses
	w := serve(t, Options{Engine: newEngine(t, noon(), per("a", 1, time.Minute, "a"), search()), RateLimitRequests: &rls, ExtAuthzRequests: &auth})
	for range 3 {
		w.ask(t, describe("a=x"))
		w.check(t, attributes("GET", "/v1/search"))
	}
	_, _ = w.rls.ShouldRateLimit(t.Context(), request())
	_, _ = w.rls.ShouldRateLimit(t.Context(), request(refunding(1, "a=x")))
	long := attributes("GET", "/")
	long.ContextExtensions["domain"] = strings.Repeat("x", 254)
	_, _ = w.auth.Check(t.Context(), &authv3.CheckRequest{Attributes: long})
	for _, method := range []string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, authv3.Authorization_Check_FullMethodName} {
		_ = w.conn.Invoke(t.Context(), method, raw("\xff\xff\xff"), &emptypb.Empty{}, grpc.ForceCodec(rawCodec{}))
	}
	rls.want(t, "rls", "Internal 1, InvalidArgument 1, OK 1, OVER_LIMIT 2, PermissionDenied 1")
	auth.want(t, "ext_authz", "Internal 1, InvalidArgument 1, OK 2, ResourceExhausted 1")
}

// The reference has responses of its own.
func TestRequests_OfTheReferenceAreCounted(t *testing.T) {
	var rls responses
	reference := &Reference{Limit: func(string) *ReferenceLimit { return nil }}
	w := serve(t, Options{Engine: newEngine(t, noon(), per("a", 1, time.Minute, "a")), Reference: reference, RateLimitRequests: &rls})
	for range 3 {
		w.ask(t, describe("a=x"))
	}
	rls.want(t, "rls", "OK 1, OVER_LIMIT 2")
}

func TestRequests_WithoutADecisionAreCounted(t *testing.T) {
	for _, inBody := range []bool{false, true} {
		var rls, auth responses
		w := serve(t, Options{
			Engine:            engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry())), // without rules
			RateLimitRequests: &rls, ExtAuthzRequests: &auth, ErrorResponse: inBody,
		})
		_, _ = w.rls.ShouldRateLimit(t.Context(), request(describe("a=b")))
		_, _ = w.auth.Check(t.Context(), &authv3.CheckRequest{Attributes: attributes("GET", "/")})
		rls.want(t, "rls", "Unavailable 1")
		auth.want(t, "ext_authz", "Unavailable 1")
	}
}

func TestRequests_ShedByTheGateAreCounted(t *testing.T) {
	gate, _ := fullGate(t)
	var rls, auth responses
	var shed counter
	w := serve(t, Options{
		Engine: newEngine(t, noon()), RateLimitGate: gate.Endpoint(&shed), ExtAuthzGate: gate.Endpoint(&shed), RateLimitRequests: &rls, ExtAuthzRequests: &auth,
	})
	_, _ = w.rls.ShouldRateLimit(t.Context(), request(describe("a=b")))
	_, _ = w.auth.Check(t.Context(), &authv3.CheckRequest{})
	rls.want(t, "rls", "Unavailable 1")
	auth.want(t, "ext_authz", "Unavailable 1")
}

func TestRequests_ThatEndEarlyAreCounted(t *testing.T) {
	var rls responses
	store := &brittle{Store: memstore.New(noon().now), holding: make(chan struct{})}
	held := engine.New(store, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	swap(t, held, per("a", 5, time.Minute, "a"))
	w := serve(t, Options{Engine: held, RateLimitRequests: &rls})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-store.holding
		cancel()
	}()
	_, _ = w.rls.ShouldRateLimit(ctx, request(describe("a=x")))
	rls.want(t, "rls", "Canceled 1")
}

// A panic fails one call, which is counted too.
func TestRequests_ThatPanicAreCounted(t *testing.T) {
	var rls, auth responses
	e := engine.New(panicking{memstore.New(noon().now)}, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	swap(t, e, per("a", 5, time.Minute, "a"), search())
	w := serve(t, Options{Engine: e, RateLimitRequests: &rls, ExtAuthzRequests: &auth})
	_, _ = w.rls.ShouldRateLimit(t.Context(), request(describe("a=x")))
	_, _ = w.auth.Check(t.Context(), &authv3.CheckRequest{Attributes: attributes("GET", "/v1/search")})
	rls.want(t, "rls", "Internal 1")
	auth.want(t, "ext_authz", "Internal 1")
}
