package envoy

import (
	"slices"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestSetMetadata_EncodesAStruct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answers := rapid.SliceOfN(rapid.Custom(answerOf), 1, 4).Draw(t, "answers")
		var want *structpb.Struct
		for i := range answers {
			if len(answers[i].Results) > 0 {
				want = structOf(t, answers)
			}
		}
		rls, auth := &ratelimitv3.RateLimitResponse{}, &authv3.CheckResponse{}
		setMetadata(rls, metadataField(rls), answers, 0)
		setMetadata(auth, metadataField(auth), answers, 0)
		gotRLS, gotAuth := &ratelimitv3.RateLimitResponse{}, &authv3.CheckResponse{}
		send(t, rls, gotRLS)
		send(t, auth, gotAuth)
		for _, got := range []*structpb.Struct{gotRLS.GetDynamicMetadata(), gotAuth.GetDynamicMetadata()} {
			if !proto.Equal(want, got) { // faster than the difference
				t.Errorf("metadata (-want +got):\n%s", cmp.Diff(want, got, protocmp.Transform()))
			}
		}
		for _, got := range []proto.Message{gotRLS, gotAuth} {
			if rest := got.ProtoReflect().GetUnknown(); len(rest) > 0 {
				t.Errorf("%T: unknown fields %x", got, rest)
			}
		}
	})
}

func send(t *rapid.T, message, arrived proto.Message) {
	onTheWire, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(onTheWire, arrived); err != nil {
		t.Fatal(err)
	}
}

// answerOf generates an answer with names of all lengths, so that the length of a message takes one, two or three bytes.
func answerOf(t *rapid.T) engine.Answer {
	long := func(least, most int) *rapid.Generator[string] {
		return rapid.Map(rapid.IntRange(least, most), func(n int) string { return strings.Repeat("n", n) })
	}
	name := rapid.OneOf(rapid.String(), long(100, 140), long(16_300, 16_400))
	answer := engine.Answer{
		Allowed: rapid.Bool().Draw(t, "allowed"), Revision: name.Draw(t, "revision"),
		Source: rapid.SampledFrom([]engine.Source{engine.SourceNone, engine.SourceCache, engine.SourceRedis, engine.SourceLocal}).Draw(t, "source"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "results") {
		answer.Results = append(answer.Results, engine.Result{
			Rule: &matching.Compiled{Rule: rules.Rule{Policy: name.Draw(t, "policy"), Shadow: rapid.Bool().Draw(t, "shadow")}},
			Tier: rapid.StringN(0, 3, -1).Draw(t, "tier"), Decision: limiter.Decision{Allowed: rapid.Bool().Draw(t, "allowed by it")},
		})
	}
	return answer
}

func structOf(t *rapid.T, answers []engine.Answer) *structpb.Struct {
	var descriptors []any
	for i := range answers {
		descriptor := map[string]any{"result": code(answers[i].Allowed).String()}
		var policies []any
		for _, r := range answers[i].Results {
			policy := map[string]any{"policy": r.Rule.Policy, "result": code(r.Allowed).String()}
			if r.Rule.Shadow {
				policy["shadow"] = true
			}
			if r.Tier != "" {
				policy["tier"] = r.Tier
			}
			policies = append(policies, policy)
		}
		if policies != nil {
			descriptor["policies"] = policies
		}
		descriptors = append(descriptors, descriptor)
	}
	source := string(engine.SourceNone)
	for i := range slices.Backward(answers) { // the first with counters, unless any is local
		if s := answers[i].Source; s != engine.SourceNone {
			source = string(s)
		}
	}
	if slices.ContainsFunc(answers, func(a engine.Answer) bool { return a.Source == engine.SourceLocal }) {
		source = string(engine.SourceLocal)
	}
	s, err := structpb.NewStruct(map[string]any{
		"descriptors": descriptors, "source": source, "revision": answers[0].Revision,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
