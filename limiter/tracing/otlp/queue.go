package otlp

import (
	"context"
	"log/slog"
	"sync"
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

func newQueue(exporter *exporter) *queue {
	return &queue{sdk.NewBatchSpanProcessor(exporter, sdk.WithMaxQueueSize(maxSpans)), exporter}
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
	client    sdk.SpanExporter
	metrics   *Metrics
	log       *slog.Logger
	sometimes *rate.Sometimes
	waiting   atomic.Int64 // spans in the queue or on their way

	mu    sync.Mutex // guards what follows, and the counts of a batch
	ended bool
}

// ExportSpans implements sdk.SpanExporter. It reports no error: the SDK would write it to the standard error.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	var partial partialSuccess
	err := e.client.ExportSpans(context.WithValue(ctx, partialKey{}, &partial), spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return nil // abandon has counted them
	}
	e.waiting.Add(-int64(len(spans)))
	failed := len(spans)
	if err == nil {
		failed = int(min(max(partial.rejected, 0), int64(len(spans))))
	}
	e.metrics.exported.Add(float64(len(spans) - failed))
	e.metrics.failures.Add(float64(failed))
	switch {
	case err != nil:
		e.sometimes.Do(func() {
			e.log.Warn("spans were not exported; check the OpenTelemetry collector, and --tracing-endpoint", "spans", failed, "error", err)
		})
	case failed > 0 || partial.message != "":
		e.sometimes.Do(func() {
			e.log.Warn("the OpenTelemetry collector rejected spans, or has a warning", "rejected", failed, "spans", len(spans), "message", partial.message)
		})
	}
	return nil
}

// abandon counts and logs the spans that still wait. Later calls of ExportSpans count nothing.
func (e *exporter) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	if n := e.waiting.Swap(0); n > 0 {
		e.metrics.failures.Add(float64(n))
		e.log.Warn("spans were not exported before the process ended; check the OpenTelemetry collector, and --tracing-endpoint", "spans", n)
	}
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error { return e.client.Shutdown(ctx) }
