package envoy

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/test/fixture"
)

// counter counts.
type counter struct{ atomic.Int64 }

func (c *counter) Inc() { c.Add(1) }

// fullGate returns a Gate that admits no request, of any connection, until release is called.
func fullGate(t *testing.T) (g *overload.Gate, release func()) {
	g = overload.NewGate(1, slog.New(slog.DiscardHandler))
	var all []overload.Announcement
	for {
		a, admitted := g.AnnounceOf(g.Share())
		if !admitted {
			break
		}
		if !g.BeginHeavy(&a, 1) {
			t.Fatal("the gate rejects a request that it has admitted")
		}
		all = append(all, a)
	}
	return g, func() {
		for _, a := range all {
			g.End(a)
		}
	}
}

func TestServer_RejectsCallsWhileTheProcessIsOverloaded(t *testing.T) {
	gate, release := fullGate(t)
	var rls, auth counter
	w := serve(t, Options{
		Engine: newEngine(t, noon(), per("a", 5, time.Minute, "tenant")), Style: reply.RateLimitHeaders,
		RateLimitGate: gate.Endpoint(&rls), ExtAuthzGate: gate.Endpoint(&auth),
	})
	const message = "this limiter is overloaded; the request was not counted"
	for range 3 {
		_, err := w.rls.ShouldRateLimit(t.Context(), request(describe("tenant=acme")))
		wantError(t, err, codes.Unavailable, message)
	}
	_, err := w.auth.Check(t.Context(), &authv3.CheckRequest{})
	wantError(t, err, codes.Unavailable, message)
	if rls.Load() != 3 || auth.Load() != 1 {
		t.Errorf("%d calls of RLS and %d of ext_authz counted, want 3 and 1", rls.Load(), auth.Load())
	}
	if _, err := w.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	release()
	for i, want := range []string{"OK: OK 4", "OK: OK 3"} { // nothing was counted before
		wantSummary(t, w.ask(t, describe("tenant=acme")), want)
		if _, err := w.rls.ShouldRateLimit(t.Context(), request()); err == nil {
			t.Errorf("call %d without descriptors: no error", i)
		}
	}
	for i := range 100 { // more than the gate admits at the same time
		wantError(t, second(w.rls.ShouldRateLimit(t.Context(), request())), codes.InvalidArgument, "descriptors is empty")
		if rls.Load() != 3 {
			t.Fatalf("call %d was rejected, because those before it did not leave the gate", i)
		}
	}
}

// A client can open streams and send no message.
func TestServer_AdmitsCallsWhileStreamsAreSilent(t *testing.T) {
	const streams = maxStreams - 1 // of one connection; the last one is for the call
	gate := overload.NewGate(1, slog.New(slog.DiscardHandler))
	for range 1024 - streams {
		gate.Enter()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		gate.Run(ctx, func() time.Duration { return 0 })
	}()
	defer func() { cancel(); <-ended }()
	var rls counter
	w := serve(t, Options{Engine: newEngine(t, noon(), per("a", 5, time.Minute, "tenant")), RateLimitGate: gate.Endpoint(&rls)})
	for range streams {
		stream, err := w.conn.NewStream(ctx, &grpc.StreamDesc{}, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.CloseSend()
	}
	fixture.Await(t, "a call is admitted", func() bool {
		_, err := w.rls.ShouldRateLimit(t.Context(), request(describe("tenant=acme")))
		return err == nil
	})
}

// Otherwise a client could make the endpoints reject the calls of others.
func TestServer_MessagesThatCannotBeDecodedLeaveTheGate(t *testing.T) {
	gate := overload.NewGate(1, slog.New(slog.DiscardHandler))
	admitted := 0
	for gate.Enter() {
		admitted++
	}
	gate.Leave() // room for one call
	var rls, auth counter
	w := serve(t, Options{Engine: newEngine(t, noon()), RateLimitGate: gate.Endpoint(&rls), ExtAuthzGate: gate.Endpoint(&auth)})
	for _, method := range []string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, authv3.Authorization_Check_FullMethodName} {
		for range 3 {
			// the client can have its response before the call has left
			fixture.Await(t, "the gate has room for a call", gate.Enter)
			gate.Leave()
			err := w.conn.Invoke(t.Context(), method, raw("\xff\xff\xff"), &emptypb.Empty{}, grpc.ForceCodec(rawCodec{}))
			wantError(t, err, codes.Internal, "unmarshal")
		}
	}
	if admitted == 0 || rls.Load()+auth.Load() > 0 {
		t.Errorf("the gate admitted %d calls, and then rejected %d of RLS and %d of ext_authz", admitted, rls.Load(), auth.Load())
	}
}

func second[T any](_ T, err error) error { return err }
