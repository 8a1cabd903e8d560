package weir_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/go/weir"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// traced serves requests in spans of a program, with a middleware between that adds a value to the context.
func traced(tracer *sdk.TracerProvider, next http.Handler) http.Handler {
	type key struct{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Tracer("program").Start(r.Context(), "GET /")
		defer span.End()
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, key{}, "request id")))
	})
}

// tree returns the names of spans, with the names of those above them.
func tree(spans tracetest.SpanStubs) []string {
	var paths []string
	for _, s := range spans {
		path := s.Name
		for parent := s.Parent; parent.IsValid(); {
			i := slices.IndexFunc(spans, func(other tracetest.SpanStub) bool { return other.SpanContext.SpanID() == parent.SpanID() })
			if i < 0 || spans[i].SpanContext.TraceID() != s.SpanContext.TraceID() {
				path = "? > " + path
				break
			}
			path, parent = spans[i].Name+" > "+path, spans[i].Parent
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func TestCheck_ItsSpansAreBelowThatOfTheRequest(t *testing.T) {
	policies := parse(t, perTenant("shop", "5", ""))
	memory, err := weir.NewMemory(policies, discard())
	closing(t, memory, err)
	redis, err := weir.NewRedis(fixture.Redis(t).URL(), policies, discard(), weir.Timeout(longTimeout))
	closing(t, redis, err)
	below := "GET / > weir.check"
	for way, test := range map[string]struct {
		limiter *weir.Limiter
		want    []string
	}{
		"memory": {memory, []string{"GET /", below, below + " > match", below + " > spend"}},
		"redis":  {redis, []string{"GET /", below, below + " > match", below + " > spend", below + " > spend > EVALSHA"}},
	} {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
		statuses(traced(provider, test.limiter.Handler(ok())), "acme", 1)
		spans := exporter.GetSpans()
		if got := tree(spans); !slices.Equal(got, test.want) {
			t.Errorf("%s: spans %q, want %q", way, got, test.want)
		}
		for _, s := range spans {
			if s.Name == "weir.check" && !slices.Contains(s.Attributes, attribute.String("weir.policy", "shop/a")) {
				t.Errorf("%s: attributes %v", way, s.Attributes)
			}
		}
		exporter.Reset()
		unsampled := sdk.NewTracerProvider(sdk.WithSyncer(exporter), sdk.WithSampler(sdk.NeverSample()))
		statuses(traced(unsampled, test.limiter.Handler(ok())), "acme", 1)
		statuses(test.limiter.Handler(ok()), "acme", 1)
		if spans := exporter.GetSpans(); len(spans) > 0 {
			t.Errorf("%s: an unsampled request has the spans %q", way, tree(spans))
		}
	}
}

// A round trip that requests share is in the trace of one of them, and has links with the others, in both directions.
func TestCheck_ASharedRoundTripIsLinked(t *testing.T) {
	redis, err := weir.NewRedis(fixture.Redis(t).URL(), parse(t, perTenant("shop", "1000000", "")), discard(), weir.Timeout(longTimeout))
	closing(t, redis, err)
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	fixture.Await(t, "a shared round trip", func() bool {
		exporter.Reset()
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				ctx, span := provider.Tracer("program").Start(t.Context(), "job")
				defer span.End()
				check := engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"x-tenant-id": "acme"}}}
				if _, err := redis.Check(ctx, &check); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		spans, shared := exporter.GetSpans(), 0
		for _, trip := range spans {
			for _, link := range trip.Links {
				i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.SpanContext.SpanID() == link.SpanContext.SpanID() })
				if i < 0 {
					t.Fatalf("%s is linked with a span that does not exist", trip.Name)
				}
				back := slices.ContainsFunc(spans[i].Links, func(l sdk.Link) bool { return l.SpanContext.SpanID() == trip.SpanContext.SpanID() })
				if trip.Name == "EVALSHA" && (spans[i].Name != "spend" || !back) {
					t.Errorf("EVALSHA is linked with %s, and back: %t", spans[i].Name, back)
				}
				shared++
			}
		}
		return shared > 0
	})
}
