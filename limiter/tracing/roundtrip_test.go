package tracing_test

import (
	"maps"
	"net/http"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weir-dev/weir/limiter/tracing"
)

// A batch has one span, in the trace of one of its requests. The others are linked with it.
func TestRoundTrip_IsLinkedWithAllRequestsOfItsBatch(t *testing.T) {
	tracer, recorder, _ := newTracer(tracing.Options{SampleOneIn: 1})
	var spans []*tracing.Span
	for range 3 {
		_, span := tracer.HTTP(request(""), "/v1/check", "check", time.Now())
		spans = append(spans, span)
	}
	began := time.Now()
	trip := tracing.RoundTrip{Began: began, Ended: began.Add(time.Millisecond), Node: "redis:6379", Calls: 5, ErrorKind: "timeout"}
	trip.Record(spans)
	for _, span := range spans {
		span.EndHTTP(http.StatusOK)
	}
	ended := recorder.Ended()
	batch, requests := ended[0], ended[1:]
	if batch.Name() != "EVALSHA" || batch.Parent().SpanID() != requests[0].SpanContext().SpanID() || batch.EndTime().Sub(batch.StartTime()) != time.Millisecond {
		t.Errorf("%s under %v, took %v", batch.Name(), batch.Parent(), batch.EndTime().Sub(batch.StartTime()))
	}
	want := map[string]string{
		"db.system.name": "redis", "db.operation.name": "EVALSHA", "server.address": "redis:6379", "db.operation.batch.size": "5", "error.type": "timeout",
	}
	got := map[string]string{}
	for _, a := range batch.Attributes() {
		got[string(a.Key)] = a.Value.String()
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
	}
	if len(got) != len(want) || batch.Status().Code.String() != "Error" {
		t.Errorf("attributes %v, status %v", got, batch.Status())
	}
	linked := func(from, to sdk.ReadOnlySpan) bool {
		for _, link := range from.Links() {
			if link.SpanContext.SpanID() == to.SpanContext().SpanID() {
				return true
			}
		}
		return false
	}
	for i, r := range requests[1:] {
		if !linked(batch, r) || !linked(r, batch) {
			t.Errorf("request %d is linked %v, and the batch with it %v", i+1, linked(r, batch), linked(batch, r))
		}
	}
}

func TestRoundTrip_OfOneCallIsNoBatch(t *testing.T) {
	tracer, recorder, _ := newTracer(tracing.Options{SampleOneIn: 1})
	_, span := tracer.HTTP(request(""), "/v1/check", "check", time.Now())
	(&tracing.RoundTrip{Node: "redis:6379", Calls: 1}).Record([]*tracing.Span{span})
	want := map[string]string{"db.system.name": "redis", "db.operation.name": "EVALSHA", "server.address": "redis:6379"}
	if s := recorder.Ended()[0]; !maps.Equal(attributesOf(s), want) || s.Status().Code.String() != "Unset" {
		t.Errorf("%v with status %v, want %v", attributesOf(s), s.Status(), want)
	}
}

func TestRoundTrip_WithoutATracedRequestHasNoSpan(*testing.T) {
	(&tracing.RoundTrip{}).Record(nil)
}
