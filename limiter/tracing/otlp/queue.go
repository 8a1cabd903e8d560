package otlp

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

// queue is the batch processor of the SDK, which drops spans without counting them, behind a bound that counts them: a span that does not fit
// reaches neither the queue of the SDK nor the caller, who never waits.
type queue struct {
	sdk.SpanProcessor

	exporter *exporter
}

func newQueue(to *exporter) *queue {
	return &queue{sdk.NewBatchSpanProcessor(to, sdk.WithMaxQueueSize(maxSpans)), to}
}

// OnEnd implements sdk.SpanProcessor.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if q.exporter.waiting.Add(1) > maxSpans {
		q.exporter.waiting.Add(-1)
		q.exporter.metrics.queue.Inc()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// exporter counts spans, and logs failures.
type exporter struct {
	to        sdk.SpanExporter
	metrics   *Metrics
	log       *slog.Logger
	sometimes *rate.Sometimes
	waiting   atomic.Int64 // spans in the queue or on their way
}

// ExportSpans implements sdk.SpanExporter. It reports no error: the SDK would write it to the standard error.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.to.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	if err == nil {
		e.metrics.exported.Add(float64(len(spans)))
		return nil
	}
	e.metrics.failures.Add(float64(len(spans)))
	e.sometimes.Do(func() {
		e.log.Warn("spans were not exported; check the OpenTelemetry collector, and --tracing-endpoint", "spans", len(spans), "error", err)
	})
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error { return e.to.Shutdown(ctx) }
