package tracing

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Span is the span of a sampled request, or of a step of it. A nil Span is that of a request that is not sampled: its methods do nothing.
// Attributes cost something to build, so that callers test for nil first.
type Span struct {
	span   trace.Span
	tracer trace.Tracer
}

// spanContext is the context of a Span. To find the Span takes no search.
type spanContext struct {
	context.Context //nolint:containedctx // it is one

	span *Span
}

func wrap(ctx context.Context, s *Span) (context.Context, *Span) { return &spanContext{ctx, s}, s }

// From returns the Span to which ctx belongs, nil without one. It does not find the Span in a context that was derived from it: for
// requests that are not sampled, it takes a nanosecond.
func From(ctx context.Context) *Span {
	if c, ok := ctx.(*spanContext); ok {
		return c.span
	}
	return nil
}

// Under starts a span below the OpenTelemetry span of ctx, which a program has started, for example with otelhttp, also if ctx was derived from its
// context. It returns ctx and nil if there is no such span, or if it is not sampled. If ctx belongs to a Span already, the result is a step of it.
func Under(ctx context.Context, name string) (context.Context, *Span) {
	if From(ctx) != nil {
		return Step(ctx, name)
	}
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() || !parent.SpanContext().IsSampled() {
		return ctx, nil
	}
	tracer := parent.TracerProvider().Tracer(scope)
	under, span := tracer.Start(ctx, name)                //nolint:spancheck // the Span ends it
	return wrap(under, &Span{span: span, tracer: tracer}) //nolint:spancheck // the Span ends it
}

// Step starts the span of a step of the request of ctx. It returns ctx and nil if the request is not sampled.
func Step(ctx context.Context, name string) (context.Context, *Span) {
	parent := From(ctx)
	if parent == nil {
		return ctx, nil
	}
	under, span := parent.tracer.Start(ctx, name)                //nolint:spancheck // the Span ends it
	return wrap(under, &Span{span: span, tracer: parent.tracer}) //nolint:spancheck // the Span ends it
}

// Set adds attributes.
func (s *Span) Set(attributes ...attribute.KeyValue) {
	if s != nil {
		s.span.SetAttributes(attributes...)
	}
}

// Record adds the span of a step that has ended.
func (s *Span) Record(name string, began, ended time.Time, attributes ...attribute.KeyValue) {
	if s == nil {
		return
	}
	_, span := s.tracer.Start(s.under(), name, trace.WithTimestamp(began), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(ended))
}

// End ends the span. An error has a kind: its text can contain addresses and keys.
func (s *Span) End(kind string) {
	if s == nil {
		return
	}
	fail(s.span, kind)
	s.span.End()
}

// EndHTTP ends the span of a request with the status of its response. As the semantic conventions require, only a status from 500 on is an error.
func (s *Span) EndHTTP(status int) {
	if s == nil {
		return
	}
	s.Set(attribute.Int("http.response.status_code", status))
	if status >= 500 {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// EndGRPC ends the span of a call with the name of its status code.
func (s *Span) EndGRPC(code string) {
	if s == nil {
		return
	}
	s.Set(attribute.String("rpc.response.status_code", code))
	switch code { // as the semantic conventions list them for servers
	case "UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS":
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// TraceID returns the ID of the trace in hexadecimal, "" without one.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Observer records a duration, in seconds.
type Observer interface{ Observe(seconds float64) }

// Observe records a duration, with the trace as exemplar if there is one.
func (s *Span) Observe(o Observer, seconds float64) {
	if s != nil {
		if exemplars, can := o.(prometheus.ExemplarObserver); can {
			exemplars.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": s.TraceID()})
			return
		}
	}
	o.Observe(seconds)
}

// under returns a context with which a span of the Span starts.
func (s *Span) under() context.Context { return trace.ContextWithSpan(context.Background(), s.span) }

func fail(span trace.Span, kind string) {
	if kind != "" {
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, "")
	}
}
