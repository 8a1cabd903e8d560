package tracing

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// scope is the name of the instrumentation scope of all spans.
const scope = "github.com/weir-dev/weir/limiter"

// The names of the fields of W3C Trace Context, as in http.Header and in the metadata of gRPC.
const (
	parentHeader, stateHeader = "Traceparent", "Tracestate"
	parentField, stateField   = "traceparent", "tracestate"
)

// Options of a Tracer.
type Options struct {
	// SampleOneIn traces one in so many of the requests without a trace context. 0 traces nothing of these.
	SampleOneIn int64
	// MaxPerSecond bounds the traces of a process, including those that callers sample. 0 traces nothing.
	MaxPerSecond int
	// Skipped is called for each sampled request that is not traced because of MaxPerSecond.
	Skipped func()
}

// Tracer traces sampled requests. The caller of a request decides whether it is sampled. If it has sent no valid trace context, the Tracer
// decides. A nil Tracer traces nothing.
type Tracer struct {
	tracer  trace.Tracer
	options Options
	bound   *rate.Limiter
}

// New returns a Tracer whose spans are made by provider, which must sample all of them.
func New(provider trace.TracerProvider, o Options) *Tracer {
	return &Tracer{tracer: provider.Tracer(scope), options: o, bound: rate.NewLimiter(rate.Limit(o.MaxPerSecond), o.MaxPerSecond)}
}

// HTTP starts the span of a request to an endpoint over HTTP, whose route is a constant. The returned context belongs to the span.
func (t *Tracer) HTTP(r *http.Request, route, endpoint string, began time.Time) (context.Context, *Span) {
	if t == nil {
		return r.Context(), nil
	}
	parent := ""
	if values := r.Header[parentHeader]; len(values) == 1 { // several are invalid
		parent = values[0]
	}
	under := t.sampled(r.Context(), parent, func() string { return r.Header.Get(stateHeader) })
	if under == nil {
		return r.Context(), nil
	}
	return t.start(under, route, endpoint, began, attribute.String("http.request.method", method(r.Method)), attribute.String("http.route", route))
}

// Fields returns the names of the fields of metadata that GRPC reads.
func Fields() []string { return []string{parentField, stateField} }

// GRPC starts the span of a call of a method. The function value returns a field of its metadata, or "".
func (t *Tracer) GRPC(ctx context.Context, name, endpoint string, began time.Time, value func(field string) string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	under := t.sampled(ctx, value(parentField), func() string { return value(stateField) })
	if under == nil {
		return ctx, nil
	}
	return t.start(under, name, endpoint, began, attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", name))
}

// Places in a traceparent: version-trace-parent-flags, for example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01. Later versions
// can be longer.
const (
	parentLength = 55
	flagAt       = parentLength - 1
)

// maxState bounds a tracestate, in bytes: it is a part of each span of the trace, and a collector rejects the spans of all callers if they are
// too large together. W3C Trace Context requires that 512 can be passed on.
const maxState = 512

// sampled returns the context under which the span of a request starts, or nil if the request is not sampled. A trace context that is invalid is
// ignored, as if it was absent.
func (t *Tracer) sampled(ctx context.Context, parent string, state func() string) (under context.Context) {
	switch {
	case len(parent) < parentLength:
	case !hasSampledFlag(parent[flagAt]): // of almost all requests; nothing else is read
		return nil
	case t.bound.Tokens() < 1: // what a caller sends in vain is not parsed
		t.options.Skipped()
		return nil
	default:
		carrier := propagation.MapCarrier{parentField: parent}
		if s := state(); len(s) <= maxState {
			carrier[stateField] = s
		}
		if under = (propagation.TraceContext{}).Extract(ctx, carrier); trace.SpanContextFromContext(under).IsSampled() {
			return under
		}
	}
	if t.options.SampleOneIn > 0 && rand.Int64N(t.options.SampleOneIn) == 0 {
		return ctx
	}
	return nil
}

// hasSampledFlag reports whether the lowest bit of a hexadecimal digit is set.
func hasSampledFlag(digit byte) bool {
	switch digit {
	case '1', '3', '5', '7', '9', 'b', 'd', 'f':
		return true
	default:
		return false
	}
}

// start starts the span of a sampled request. It returns ctx and nil if there are too many of them.
func (t *Tracer) start(ctx context.Context, name, endpoint string, began time.Time, protocol ...attribute.KeyValue) (context.Context, *Span) {
	if !t.bound.Allow() {
		t.options.Skipped()
		return ctx, nil
	}
	attributes := slices.Concat(protocol, []attribute.KeyValue{attribute.String("weir.endpoint", endpoint)})
	under, span := t.tracer.Start( //nolint:spancheck // the Span ends it
		ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began), trace.WithAttributes(attributes...))
	return wrap(under, &Span{span: span, tracer: t.tracer}) //nolint:spancheck // the Span ends it
}

// method returns a method of HTTP as the semantic conventions require: unknown ones would be values without a bound.
func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect,
		http.MethodOptions, http.MethodTrace:
		return name
	default:
		return "_OTHER"
	}
}
