package tracing

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// RoundTrip is a round trip to Redis that several requests share.
type RoundTrip struct {
	Began, Ended time.Time
	// Node is the Redis node.
	Node string
	// Calls is the number of calls in the round trip.
	Calls int
	// ErrorKind is empty for a reply.
	ErrorKind string
}

// Record adds the span of the round trip to the first of the requests. It is linked with the spans of the others in both directions. It has
// no keys: these contain identifiers.
func (r *RoundTrip) Record(requests []*Span) {
	if len(requests) == 0 {
		return
	}
	attributes := []attribute.KeyValue{
		attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", "EVALSHA"), attribute.String("server.address", r.Node),
	}
	if r.Calls > 1 {
		attributes = append(attributes, attribute.Int("db.operation.batch.size", r.Calls))
	}
	first, others := requests[0], requests[1:]
	links := make([]trace.Link, len(others))
	for i, s := range others {
		links[i] = trace.Link{SpanContext: s.span.SpanContext()}
	}
	_, span := first.tracer.Start(first.under(), "EVALSHA", trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(r.Began),
		trace.WithAttributes(attributes...), trace.WithLinks(links...))
	for _, s := range others {
		s.span.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	fail(span, r.ErrorKind)
	span.End(trace.WithTimestamp(r.Ended))
}
