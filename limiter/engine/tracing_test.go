package engine_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/limiter/tracing"
)

// traced runs f with the context of a traced request, and returns its spans.
func traced(t *testing.T, f func(context.Context)) []sdk.ReadOnlySpan {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	tracer := tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)), tracing.Options{SampleOneIn: 1, MaxPerSecond: 10})
	ctx, span := tracer.HTTP(httptest.NewRequest(http.MethodPost, "/v1/check", http.NoBody), "/v1/check", "check", time.Now())
	f(ctx)
	span.EndHTTP(http.StatusOK)
	return recorder.Ended()
}

// describeSpans returns the names of spans with those of their attributes that begin with a prefix.
func describeSpans(spans []sdk.ReadOnlySpan, prefix string) string {
	var lines []string
	for _, s := range spans {
		words := []string{s.Name()}
		for _, a := range s.Attributes() {
			if strings.HasPrefix(string(a.Key), prefix) {
				words = append(words, strings.TrimPrefix(string(a.Key), "weir.")+"="+a.Value.String())
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

func TestCheck_ATraceShowsTheDecisionAndNoIdentifier(t *testing.T) {
	e, _ := newEngine(t, tiered("shop/a"))
	checkTimes(t, e, 9, request(1, of("gold")))
	for _, want := range []string{"allowed source=memory policy=shop/a axis=Tenant limit=10 remaining=0", "denied source=memory policy=shop/a axis=Tenant limit=10 remaining=0"} {
		spans := traced(t, func(ctx context.Context) {
			if _, err := e.Check(ctx, request(1, of("gold"))); err != nil {
				t.Fatal(err)
			}
		})
		revision := e.Index().Revision()
		want = "match domain=shop policies=1 revision=" + revision + "\nspend\n/v1/check endpoint=check result=" + want + " tier=gold"
		if got := describeSpans(spans, "weir."); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	spans := traced(t, func(ctx context.Context) { _, _ = e.Check(ctx, request(1, of("acme"))) })
	if got := describeSpans(spans, ""); strings.Contains(got, "acme") {
		t.Errorf("a span contains the identifier:\n%s", got)
	}
}

// A policy in shadow mode decides nothing: the response has no policy either.
func TestCheck_ATraceDoesNotShowAShadowPolicyAsTheDecidingOne(t *testing.T) {
	shadow := tiered("shop/a")
	shadow.Shadow = true
	e, _ := newEngine(t, shadow)
	checkTimes(t, e, 12, request(1, of("gold")))
	spans := traced(t, func(ctx context.Context) {
		answer, err := e.Check(ctx, request(1, of("gold")))
		if err != nil || answer.Strictest() != nil || !answer.Allowed {
			t.Fatalf("%+v %v", answer, err)
		}
	})
	if got, want := describeSpans(spans[len(spans)-1:], "weir."), "/v1/check endpoint=check result=allowed source=memory"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// A span with other bytes cannot be encoded, and the others of its batch are lost with it.
func TestCheck_ATraceShowsTextOnly(t *testing.T) {
	e, _ := newEngine(t, tiered("shop/a"))
	spans := traced(t, func(ctx context.Context) {
		c := request(1, of("acme"))
		c.Request.Domain = "shop\xff"
		if _, err := e.Check(ctx, c); err != nil {
			t.Fatal(err)
		}
	})
	if got := describeSpans(spans[:1], "weir.domain"); got != "match domain=shop?" {
		t.Error(got)
	}
}

func TestCheckAll_ATraceShowsTheFirstDenial(t *testing.T) {
	e, _ := newEngine(t, rule("shop/a", 1))
	checkTimes(t, e, 1, request(1, of("acme")))
	spans := traced(t, func(ctx context.Context) {
		unknown := request(1, of("b"))
		unknown.Request.Domain = "unknown"
		checks := []engine.Check{*unknown, *request(1, of("free")), *request(1, of("acme"))}
		if _, err := e.CheckAll(ctx, checks); err != nil {
			t.Fatal(err)
		}
	})
	got := describeSpans(spans, "weir.")
	if strings.Count(got, "match ") != 3 || !strings.HasSuffix(got, "/v1/check endpoint=check result=denied source=memory policy=shop/a axis=Tenant limit=1 remaining=0") {
		t.Errorf("%s", got)
	}
}

func TestCheck_ATraceShowsWithoutTextWhyTheStoreFailed(t *testing.T) {
	e, _ := newLayered(failingStore{}, engine.SourceRedis, prometheus.NewPedanticRegistry(), store.Layers{})
	e.Swap(index(t, rule("shop/a", 1)))
	spans := traced(t, func(ctx context.Context) {
		if _, err := e.Check(ctx, request(1, of("acme"))); err == nil {
			t.Fatal("no error")
		}
	})
	if got := describeSpans(spans[1:2], ""); got != "spend error.type=other" || spans[1].Status().Description != "" {
		t.Errorf("%s, status %v", got, spans[1].Status())
	}
}

type failingStore struct{ limiter.Store }

func (failingStore) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, errors.New("at 10.0.0.1, key weir:acme")
}
