package tracing_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/limiter/tracing"
)

const (
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	callerID  = "b7ad6b7169203331"
	sampled   = "00-" + traceID + "-" + callerID + "-01"
	unsampled = "00-" + traceID + "-" + callerID + "-00"
	zeros     = "00-00000000000000000000000000000000-0000000000000000-01" // which are invalid
)

// newTracer returns a Tracer, what it records, and the number of requests that it skipped.
func newTracer(o tracing.Options) (*tracing.Tracer, *tracetest.SpanRecorder, *int) {
	recorder, skipped := tracetest.NewSpanRecorder(), 0
	o.Skipped = func() { skipped++ }
	if o.MaxPerSecond == 0 {
		o.MaxPerSecond = 1000
	}
	return tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder), sdk.WithSampler(sdk.AlwaysSample())), o), recorder, &skipped
}

func request(parent string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/check", http.NoBody)
	if parent != "" {
		r.Header.Set("Traceparent", parent)
		r.Header.Set("Tracestate", "vendor=1")
	}
	return r
}

func TestTracer_TracesWhatTheCallerSamples(t *testing.T) {
	for name, test := range map[string]struct {
		parent string
		oneIn  int64
		trace  string // "": a trace of its own; "-": no trace
	}{
		"sampled":                               {sampled, 0, traceID},
		"sampled, with another flag":            {"00-" + traceID + "-" + callerID + "-03", 0, traceID},
		"not sampled":                           {unsampled, 1, "-"},
		"not sampled, with another flag":        {"00-" + traceID + "-" + callerID + "-02", 1, "-"},
		"no context":                            {"", 0, "-"},
		"no context, sampled here":              {"", 1, ""},
		"cut short":                             {sampled[:54], 0, "-"},
		"cut short, sampled here":               {sampled[:54], 1, ""},
		"a later version with a further field":  {"01-" + traceID + "-" + callerID + "-01-x", 0, traceID},
		"IDs of zeros":                          {zeros, 0, "-"},
		"IDs of zeros, sampled here":            {zeros, 1, ""},
		"no trace context, with a flag":         {strings.Repeat("1", 55), 0, "-"},
		"the same, sampled here":                {strings.Repeat("1", 55), 1, ""},
		"no trace context, and more of it":      {strings.Repeat("x", 54) + "1-and-more", 0, "-"},
		"version 00 with a further field":       {sampled + "-x", 0, "-"},
		"sampled, and the sample here is small": {sampled, 1 << 60, traceID},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, recorder, _ := newTracer(tracing.Options{SampleOneIn: test.oneIn})
			ctx, span := tracer.HTTP(request(test.parent), "/v1/check", "check", time.Now())
			span.EndHTTP(http.StatusOK)
			if (span == nil) != (test.trace == "-") || tracing.From(ctx) != span {
				t.Fatalf("span %v, in the context %v, want %q", span, tracing.From(ctx), test.trace)
			}
			if span == nil {
				if n := len(recorder.Started()); n != 0 || span.TraceID() != "" {
					t.Errorf("%d spans, trace %q, want none", n, span.TraceID())
				}
				return
			}
			ended := recorder.Ended()
			if len(ended) != 1 || test.trace != "" && span.TraceID() != test.trace || len(span.TraceID()) != 32 {
				t.Fatalf("%d spans of trace %q, want 1 of %q", len(ended), span.TraceID(), test.trace)
			}
			parent := ended[0].Parent()
			if test.trace != "" && (parent.SpanID().String() != callerID || parent.TraceState().String() != "vendor=1") || test.trace == "" && parent.IsValid() {
				t.Errorf("the parent is %v", parent)
			}
		})
	}
}

func TestTracer_SamplesOneInSoManyRequestsWithoutAContext(t *testing.T) {
	tracer, recorder, _ := newTracer(tracing.Options{SampleOneIn: 10, MaxPerSecond: 100_000})
	for range 10_000 {
		_, span := tracer.HTTP(request(""), "/v1/check", "check", time.Now())
		span.EndHTTP(http.StatusOK)
	}
	if n := len(recorder.Ended()); n < 800 || n > 1200 { // more than six standard deviations
		t.Errorf("%d of 10 000 requests were traced, want about 1000", n)
	}
}

// Callers decide what is sampled, but not how much a limiter works for it.
func TestTracer_BoundsTheTracesOfASecond(t *testing.T) {
	tracer, recorder, skipped := newTracer(tracing.Options{MaxPerSecond: 3})
	for range 20 {
		_, span := tracer.HTTP(request(sampled), "/v1/check", "check", time.Now())
		span.EndHTTP(http.StatusOK)
	}
	if n := len(recorder.Ended()); n < 3 || n > 10 || n+*skipped != 20 {
		t.Errorf("%d requests were traced and %d skipped, want 3 and 17", n, *skipped)
	}
}

// A limiter that samples a request without a trace context counts it, too, if there is no room.
func TestTracer_CountsWhatItSkips(t *testing.T) {
	for name, parent := range map[string]string{"sampled by the caller": sampled, "sampled here": ""} {
		synctest.Test(t, func(t *testing.T) { // so that no time passes
			tracer, recorder, skipped := newTracer(tracing.Options{SampleOneIn: 1, MaxPerSecond: 1})
			for n := range 3 {
				ctx, span := tracer.HTTP(request(parent), "/v1/check", "check", time.Now())
				if first := n == 0; (span != nil) != first || tracing.From(ctx) != span {
					t.Errorf("%s: request %d is traced: %v", name, n, span != nil)
				}
				span.EndHTTP(http.StatusOK)
			}
			if len(recorder.Ended()) != 1 || *skipped != 2 {
				t.Errorf("%s: %d traced and %d skipped, want 1 and 2", name, len(recorder.Ended()), *skipped)
			}
		})
	}
}

// The flag costs a caller nothing, so that it must cost a limiter next to nothing.
func TestTracer_RequestsAboveTheBoundAllocateNothing(t *testing.T) {
	tracer, _, skipped := newTracer(tracing.Options{MaxPerSecond: 1})
	r, now := request(sampled), time.Now()
	_, span := tracer.HTTP(r, "/v1/check", "check", now)
	span.EndHTTP(http.StatusOK)
	allocated := testing.AllocsPerRun(1000, func() { // a few of them are traced
		_, span := tracer.HTTP(r, "/v1/check", "check", now)
		span.EndHTTP(http.StatusOK)
	})
	if allocated != 0 || *skipped < 900 {
		t.Errorf("%v allocations, and %d requests skipped, want 0 and about 1000", allocated, *skipped)
	}
}

func TestTracer_RequestsThatAreNotSampledAllocateNothing(t *testing.T) {
	tracer, _, _ := newTracer(tracing.Options{SampleOneIn: 1 << 60})
	var off *tracing.Tracer
	for name, test := range map[string]struct {
		tracer *tracing.Tracer
		parent string
	}{"tracing is off": {off, sampled}, "not sampled": {tracer, unsampled}, "no context": {tracer, ""}} {
		r, now, observer := request(test.parent), time.Now(), seconds{}
		allocated := testing.AllocsPerRun(100, func() {
			ctx, span := test.tracer.HTTP(r, "/v1/check", "check", now)
			ctx, step := tracing.Step(ctx, "spend")
			step.End("")
			tracing.From(ctx).Record("match", now, now)
			span.Observe(observer, 1)
			span.EndHTTP(http.StatusOK)
			_, span = test.tracer.GRPC(ctx, "a.B/C", "rls", now, func(string) string { return test.parent })
			span.EndGRPC("OK")
		})
		if allocated != 0 {
			t.Errorf("%s: %v allocations, want 0", name, allocated)
		}
	}
}

type seconds struct{}

func (seconds) Observe(float64) {}

func TestTracer_GRPCReadsTheContextFromTheMetadata(t *testing.T) {
	tracer, recorder, _ := newTracer(tracing.Options{})
	fields := map[string]string{"traceparent": sampled}
	_, span := tracer.GRPC(context.Background(), "a.B/C", "rls", time.Now(), func(field string) string { return fields[field] })
	span.EndGRPC("UNAVAILABLE")
	ended := recorder.Ended()
	if len(ended) != 1 || ended[0].Name() != "a.B/C" || ended[0].SpanContext().TraceID().String() != traceID || ended[0].Status().Code.String() != "Error" {
		t.Errorf("%v", ended)
	}
	if _, span := tracer.GRPC(context.Background(), "a.B/C", "rls", time.Now(), func(string) string { return unsampled }); span != nil {
		t.Error("a call that is not sampled is traced")
	}
}

// A state is repeated in each span: long ones would make batches that a collector rejects, with the spans of other callers.
func TestTracer_IgnoresALongState(t *testing.T) {
	for length, want := range map[int]int{512: 512, 513: 0} {
		tracer, recorder, _ := newTracer(tracing.Options{})
		r := request(sampled)
		r.Header.Set("Tracestate", "a="+strings.Repeat("x", 200)+",b="+strings.Repeat("x", 200)+",c="+strings.Repeat("x", length-408))
		_, span := tracer.HTTP(r, "/v1/check", "check", time.Now())
		span.EndHTTP(http.StatusOK)
		ended := recorder.Ended()
		if len(ended) != 1 || ended[0].SpanContext().TraceID().String() != traceID || len(ended[0].SpanContext().TraceState().String()) != want {
			t.Errorf("a state of %d bytes: %v, want the trace with a state of %d bytes", length, ended, want)
		}
	}
}

// Names of methods come from clients.
func TestTracer_UnknownMethodsShareOneName(t *testing.T) {
	tracer, recorder, _ := newTracer(tracing.Options{})
	for _, method := range []string{"PURGE", "GET"} {
		r := request(sampled)
		r.Method = method
		_, span := tracer.HTTP(r, "/v1/auth/{domain}", "auth", time.Now())
		span.EndHTTP(http.StatusTooManyRequests)
	}
	var got []string
	for _, s := range recorder.Ended() {
		for _, a := range s.Attributes() {
			if a.Key == "http.request.method" {
				got = append(got, a.Value.AsString())
			}
		}
		if s.Status().Code.String() != "Unset" {
			t.Errorf("a denial is an error: %v", s.Status())
		}
	}
	if len(got) != 2 || got[0] != "_OTHER" || got[1] != "GET" {
		t.Errorf("methods %v, want _OTHER and GET", got)
	}
}
