package redisstore

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/tracing"
)

// The traces of requests show the round trip that decides them, also one that fails.
func TestBatcher_AddsTheRoundTripToTracesOfItsCalls(t *testing.T) {
	for kind, reply := range map[string]error{"": nil, redisclient.KindUnavailable: redisclient.ErrUnavailable} {
		recorder := tracetest.NewSpanRecorder()
		tracer := tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)), tracing.Options{SampleOneIn: 1, MaxPerSecond: 10})
		_, request := tracer.HTTP(httptest.NewRequest(http.MethodPost, "/", http.NoBody), "/", "check", time.Now())
		b := &batcher{node: "redis:6379", send: func(batch []*call) { batch[0].reply.err = reply }}
		deadline := time.Now().Add(patience)
		for _, span := range []*tracing.Span{nil, request} {
			_, _ = b.do(&call{began: time.Now(), deadline: deadline, span: span})
		}
		ended := recorder.Ended()
		if len(ended) != 1 || ended[0].Name() != "EVALSHA" || ended[0].EndTime().Before(ended[0].StartTime()) {
			t.Fatalf("spans %+v, want the round trip of the traced call", ended)
		}
		got := map[string]string{}
		for _, a := range ended[0].Attributes() {
			got[string(a.Key)] = a.Value.String()
		}
		if got["server.address"] != "redis:6379" || got["error.type"] != kind {
			t.Errorf("attributes %v, want the error %q", got, kind)
		}
	}
}
