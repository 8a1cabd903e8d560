package envoy

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/limiter/engine"
)

// metadata is what the filters behind, and access logs, can know of a decision:
//
//	{"descriptors": [{"result": "OK", "policies": [{"policy": "shop/a", "result": "OVER_LIMIT", "shadow": true}]}],
//	 "source": "redis", "revision": "sha256:…"}
//
// Identifiers are not in it: it ends up in logs. Nil if no policy matched.
func metadata(answers []engine.Answer) *structpb.Struct {
	matched := false
	descriptors := make([]*structpb.Value, len(answers))
	for i := range answers {
		matched = matched || len(answers[i].Results) > 0
		descriptors[i] = structpb.NewStructValue(descriptorMetadata(&answers[i]))
	}
	if !matched {
		return nil
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
		"source":      structpb.NewStringValue(string(sourceOf(answers))),
		"revision":    structpb.NewStringValue(answers[0].Revision),
	}}
}

func descriptorMetadata(a *engine.Answer) *structpb.Struct {
	fields := map[string]*structpb.Value{"result": result(a.Allowed)}
	if len(a.Results) > 0 {
		policies := make([]*structpb.Value, len(a.Results))
		for i := range a.Results {
			policies[i] = structpb.NewStructValue(policyMetadata(&a.Results[i]))
		}
		fields["policies"] = structpb.NewListValue(&structpb.ListValue{Values: policies})
	}
	return &structpb.Struct{Fields: fields}
}

func policyMetadata(r *engine.Result) *structpb.Struct {
	fields := map[string]*structpb.Value{
		"policy": structpb.NewStringValue(r.Rule.Policy),
		"result": result(r.Allowed),
	}
	if r.Rule.Shadow {
		fields["shadow"] = structpb.NewBoolValue(true)
	}
	if r.Tier != "" {
		fields["tier"] = structpb.NewStringValue(r.Tier)
	}
	return &structpb.Struct{Fields: fields}
}

func result(allowed bool) *structpb.Value { return structpb.NewStringValue(code(allowed).String()) }

// sourceOf is where the counters were: local if that is so of any, else where those were that there are.
func sourceOf(answers []engine.Answer) engine.Source {
	source := engine.SourceNone
	for i := range answers {
		if s := answers[i].Source; s == engine.SourceLocal || source == engine.SourceNone {
			source = s
		}
	}
	return source
}
