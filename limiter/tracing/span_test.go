package tracing_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-dev/weir/limiter/tracing"
)

// attributesOf returns the attributes of a span as text.
func attributesOf(s sdk.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func TestSpan_DescribesTheRequestAndItsSteps(t *testing.T) {
	tracer, recorder, _ := newTracer(tracing.Options{})
	began := time.Now().Add(-time.Second)
	ctx, span := tracer.HTTP(request(sampled), "/v1/check", "check", began)
	under, step := tracing.Step(ctx, "spend")
	if step == nil || tracing.From(under) != step {
		t.Fatalf("the context of the step has %v, want %v", tracing.From(under), step)
	}
	step.Record("evalsha", began, began.Add(time.Millisecond), attribute.Int("calls", 3))
	step.End("timeout")
	_, other := tracing.Step(ctx, "match")
	other.End("")
	span.Set(attribute.String("weir.result", "denied"))
	span.EndHTTP(http.StatusTooManyRequests)
	want := []struct {
		name, parent string
		kind         trace.SpanKind
		attributes   map[string]string
		status       codes.Code
	}{
		{"evalsha", "spend", trace.SpanKindInternal, map[string]string{"calls": "3"}, codes.Unset},
		{"spend", "/v1/check", trace.SpanKindInternal, map[string]string{"error.type": "timeout"}, codes.Error},
		{"match", "/v1/check", trace.SpanKindInternal, map[string]string{}, codes.Unset},
		{"/v1/check", "", trace.SpanKindServer, map[string]string{
			"http.request.method": "POST", "http.route": "/v1/check", "weir.endpoint": "check", "weir.result": "denied", "http.response.status_code": "429",
		}, codes.Unset},
	}
	ended, ids := recorder.Ended(), map[string]string{}
	if len(ended) != len(want) {
		t.Fatalf("%d spans, want %d", len(ended), len(want))
	}
	for _, s := range ended {
		ids[s.SpanContext().SpanID().String()] = s.Name()
	}
	for i, s := range ended {
		w := want[i]
		if s.Name() != w.name || ids[s.Parent().SpanID().String()] != w.parent || s.SpanKind() != w.kind || s.Status().Code != w.status {
			t.Errorf("%s under %q: %v, %v, want %+v", s.Name(), ids[s.Parent().SpanID().String()], s.SpanKind(), s.Status(), w)
		}
		if diff := cmp.Diff(w.attributes, attributesOf(s)); diff != "" {
			t.Errorf("%s: %s", s.Name(), diff)
		}
	}
	if first, last := ended[0], ended[3]; last.StartTime() != began || first.StartTime() != began || first.EndTime() != began.Add(time.Millisecond) {
		t.Errorf("the request began %v, the round trip %v and ended %v", last.StartTime(), first.StartTime(), first.EndTime())
	}
}

func TestEndHTTP_AStatusFrom500OnIsAnError(t *testing.T) {
	for status, want := range map[int]codes.Code{200: codes.Unset, 429: codes.Unset, 499: codes.Unset, 500: codes.Error, 503: codes.Error} {
		tracer, recorder, _ := newTracer(tracing.Options{})
		_, span := tracer.HTTP(request(sampled), "/v1/check", "check", time.Now())
		if span.EndHTTP(status); recorder.Ended()[0].Status().Code != want {
			t.Errorf("%d: %v, want %v", status, recorder.Ended()[0].Status(), want)
		}
	}
}

func TestEndGRPC_ErrorsOfTheServerAreErrors(t *testing.T) {
	for code, want := range map[string]codes.Code{
		"OK": codes.Unset, "CANCELLED": codes.Unset, "INVALID_ARGUMENT": codes.Unset, "RESOURCE_EXHAUSTED": codes.Unset, "PERMISSION_DENIED": codes.Unset,
		"UNKNOWN": codes.Error, "DEADLINE_EXCEEDED": codes.Error, "UNIMPLEMENTED": codes.Error, "INTERNAL": codes.Error, "UNAVAILABLE": codes.Error,
		"DATA_LOSS": codes.Error,
	} {
		tracer, recorder, _ := newTracer(tracing.Options{})
		_, span := tracer.GRPC(context.Background(), "a.B/C", "rls", time.Now(), func(string) string { return sampled })
		span.EndGRPC(code)
		got := recorder.Ended()[0]
		wanted := map[string]string{"rpc.system.name": "grpc", "rpc.method": "a.B/C", "weir.endpoint": "rls", "rpc.response.status_code": code}
		if all := attributesOf(got); got.Status().Code != want || !maps.Equal(all, wanted) {
			t.Errorf("%s: %v with %v, want %v with %v", code, got.Status(), all, want, wanted)
		}
	}
}

// recorded is an Observer without exemplars.
type recorded []float64

func (r *recorded) Observe(seconds float64) { *r = append(*r, seconds) }

func TestObserve_RecordsEachDurationOnceWithTheTrace(t *testing.T) {
	tracer, _, _ := newTracer(tracing.Options{})
	_, span := tracer.HTTP(request(sampled), "/v1/check", "check", time.Now())
	var notTraced *tracing.Span
	for name, test := range map[string]struct {
		span *tracing.Span
		want string
	}{"traced": {span, "trace_id=" + traceID}, "not traced": {notTraced, ""}} {
		histogram, plain := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds", Help: "x", Buckets: []float64{1}}), recorded{}
		test.span.Observe(histogram, 0.5)
		test.span.Observe(&plain, 0.5)
		var m dto.Metric
		if err := histogram.Write(&m); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, label := range m.GetHistogram().GetBucket()[0].GetExemplar().GetLabel() {
			got = append(got, label.GetName()+"="+label.GetValue())
		}
		if m.GetHistogram().GetSampleCount() != 1 || strings.Join(got, " ") != test.want || len(plain) != 1 || plain[0] != 0.5 {
			t.Errorf("%s: %v and %v, want one duration each with trace %q", name, &m, plain, test.want)
		}
	}
}
