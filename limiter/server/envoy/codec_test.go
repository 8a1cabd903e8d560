package envoy

import (
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// generatedResponse is the message for answers, without metadata.
func generatedResponse(answers []engine.Answer, multiplier bool) *ratelimitv3.RateLimitResponse {
	out := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}
	for i := range answers {
		s := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: ratelimitv3.RateLimitResponse_OK}
		if !answers[i].Allowed {
			s.Code, out.OverallCode = ratelimitv3.RateLimitResponse_OVER_LIMIT, ratelimitv3.RateLimitResponse_OVER_LIMIT
		}
		if strictest := answers[i].Strictest(); strictest != nil {
			unit, times := unitOf(strictest.Window, multiplier)
			s.CurrentLimit = &ratelimitv3.RateLimitResponse_RateLimit{
				Name: strictest.Rule.Policy, RequestsPerUnit: clampUint32(strictest.Decision.Limit), Unit: unit,
			}
			if times != 1 {
				s.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(times)
			}
			s.LimitRemaining = clampUint32(strictest.Remaining)
			s.DurationUntilReset = durationpb.New(untilReset(answers[i].Allowed, strictest.Decision))
		}
		out.Statuses = append(out.Statuses, s)
	}
	return out
}

func TestAppendResponse_EncodesTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answers := rapid.SliceOfN(rapid.Custom(answerOf), 1, 4).Draw(t, "answers")
		for i := range answers {
			for j := range answers[i].Results {
				r := &answers[i].Results[j]
				r.Rule.Policy = rapid.StringMatching(`[a-z/-]{1,150}`).Draw(t, "policy")
				r.Window = time.Duration(rapid.Int64Range(1, int64(limiter.MaxWindow/time.Second)).Draw(t, "window")) * time.Second
				r.Decision.Limit = rapid.Int64Range(0, math.MaxInt64).Draw(t, "limit")
				r.Remaining = rapid.Int64Range(0, math.MaxInt64).Draw(t, "remaining")
				r.ResetAfter = time.Duration(rapid.Int64Range(0, int64(limiter.MaxWindow)).Draw(t, "reset"))
				r.RetryAfter = time.Duration(rapid.Int64Range(0, int64(limiter.MaxWindow)).Draw(t, "retry"))
			}
			slices.SortStableFunc(answers[i].Results, engine.CompareResults)
		}
		d := &rateLimitEndpoint{style: reply.RateLimitHeaders, log: slog.New(slog.DiscardHandler), multiplier: rapid.Bool().Draw(t, "multiplier")}
		c := &call{batch: batch{intents: make([]intent, len(answers))}}
		d.respond(c, answers, time.Time{})
		got := &ratelimitv3.RateLimitResponse{}
		if err := protobuf.Unmarshal(c.response, got); err != nil {
			t.Fatal(err)
		}
		want := generatedResponse(answers, d.multiplier)
		merged := mergeAnswers(answers, c.batch.intents)
		var fields []reply.Field
		if !merged.Allowed {
			fields = append(fields, problemType())
			want.RawBody = reply.Denied(&merged).JSON()
		}
		fields, err := d.style.AppendFields(fields, &merged, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fields {
			want.ResponseHeadersToAdd = append(want.ResponseHeadersToAdd, &corev3.HeaderValue{Key: f.Lower, Value: f.Value})
		}
		want.DynamicMetadata = got.GetDynamicMetadata() // TestSetMetadata_EncodesAStruct compares it
		if !protobuf.Equal(want, got) {
			t.Errorf("(-want +got):\n%s", cmp.Diff(want, got, protocmp.Transform()))
		}
	})
}

func TestWireCodec_IsTheOneOfProtobufForOtherMessages(t *testing.T) {
	c, sent := wireCodec{encoding.GetCodecV2(proto.Name)}, request(describe("a=b"))
	if got := c.Name(); got != proto.Name {
		t.Errorf("named %q", got)
	}
	wire, err := c.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	got, passed := &ratelimitv3.RateLimitRequest{}, encoded(nil)
	if err := c.Unmarshal(wire, got); err != nil || !protobuf.Equal(sent, got) {
		t.Fatal(got, err)
	}
	if err := c.Unmarshal(wire, &passed); err != nil || string(passed) != string(wire.Materialize()) {
		t.Fatal(passed, err)
	}
	if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer("\x0a")}, got); err == nil {
		t.Error("no error for a truncated message")
	}
}
