package envoy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/limiter/tracing"
)

// The trace context of a sampled request.
const (
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + callerTrace + "-b7ad6b7169203331-01"
)

type brokenStore struct{ limiter.Store }

func (brokenStore) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, errors.New("at 10.0.0.1")
}

func TestExtAuthz_TracesSampledCalls(t *testing.T) {
	broken := engine.New(store.New(brokenStore{}, store.Layers{}, prometheus.NewRegistry()), engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	swap(t, broken, search())
	for name, test := range map[string]struct {
		engine *engine.Engine
		o      Options
		want   string
	}{
		"allowed":                      {newEngine(t, noon(), search()), Options{}, "Unset rpc.response.status_code=OK weir.result=allowed"},
		"unavailable":                  {broken, Options{}, "Error rpc.response.status_code=UNAVAILABLE"},
		"unavailable, as the response": {broken, Options{ErrorResponse: true}, "Error rpc.response.status_code=UNAVAILABLE"},
	} {
		recorder := tracetest.NewSpanRecorder()
		test.o.Engine, test.o.Style = test.engine, reply.RateLimitHeaders
		test.o.Tracer = tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)), tracing.Options{MaxPerSecond: 10})
		w := serve(t, test.o)
		in := &authv3.CheckRequest{Attributes: attributes("GET", "/v1/search")}
		for _, parent := range []string{strings.TrimSuffix(traceparent, "1") + "0", traceparent} {
			_, _ = w.auth.Check(metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent), in)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range recorder.Ended() {
			names = append(names, s.Name())
		}
		const method = "envoy.service.auth.v3.Authorization/Check"
		if want := []string{"match", "spend", method}; !slices.Equal(names, want) {
			t.Errorf("%s: spans %v, want %v", name, names, want)
			continue
		}
		span := recorder.Ended()[2]
		got := []string{span.Status().Code.String()}
		for _, a := range span.Attributes() {
			if a.Key == "rpc.response.status_code" || a.Key == "weir.result" {
				got = append(got, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
			}
		}
		slices.Sort(got)
		if trace := span.SpanContext().TraceID().String(); trace != callerTrace || strings.Join(got, " ") != test.want {
			t.Errorf("%s: %s in trace %s, want %s", name, got, trace, test.want)
		}
	}
}
