package otlp

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
)

// accepting is a collector that accepts all spans.
type accepting struct{}

func (accepting) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (accepting) Shutdown(context.Context) error                        { return nil }

// An export that is on its way at the end of the process can still succeed. Its spans are counted as lost already.
func TestAbandon_CountsEachSpanOnce(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	e := &exporter{client: accepting{}, metrics: NewMetrics(registry), log: slog.New(slog.DiscardHandler), sometimes: &rate.Sometimes{First: 1}}
	e.waiting.Store(5)
	export := func(n int) {
		t.Helper()
		if err := e.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, n)); err != nil {
			t.Fatal(err)
		}
	}
	export(2)
	e.abandon()
	export(3)
	exported, lost := value(t, registry, "weir_trace_spans_total", ""), value(t, registry, "weir_trace_dropped_total", "export")
	if exported != 2 || lost != 3 || e.waiting.Load() != 0 {
		t.Errorf("%v spans are exported, %v lost and %d wait, want 2, 3 and 0", exported, lost, e.waiting.Load())
	}
}

// The interceptor changes nothing of calls that are no exports of the exporter.
func TestReadPartialSuccess_ReadsResponsesOfExportsOnly(t *testing.T) {
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	rejected := func() *collectorv1.ExportTraceServiceResponse {
		return &collectorv1.ExportTraceServiceResponse{PartialSuccess: &collectorv1.ExportTracePartialSuccess{RejectedSpans: 7}}
	}
	for name, test := range map[string]struct {
		reply any
		want  int64
	}{"an export": {rejected(), 7}, "another call": {&tracev1.Span{}, 0}} {
		var into partialSuccess
		ctx := context.WithValue(t.Context(), partialKey{}, &into)
		if err := readPartialSuccess(ctx, "Export", nil, test.reply, nil, invoke); err != nil || into.rejected != test.want {
			t.Errorf("%s: %d rejected spans (%v), want %d", name, into.rejected, err, test.want)
		}
	}
	if kept := rejected(); readPartialSuccess(t.Context(), "Export", nil, kept, nil, invoke) != nil || kept.GetPartialSuccess().GetRejectedSpans() != 7 {
		t.Error("the SDK does not see what its own call returns")
	}
}
