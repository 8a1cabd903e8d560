package envoy

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-dev/weir/limiter/engine"
)

// Numbers of the fields of google.protobuf.Struct, Value and ListValue. An entry of a map is a message too.
const (
	structFields protowire.Number = 1
	mapKey       protowire.Number = 1
	mapValue     protowire.Number = 2
	valueString  protowire.Number = 3
	valueBool    protowire.Number = 4
	valueStruct  protowire.Number = 5
	valueList    protowire.Number = 6
	listValues   protowire.Number = 1
)

// metadataField is the number of a response's field dynamic_metadata.
func metadataField(response proto.Message) protowire.Number {
	return response.ProtoReflect().Descriptor().Fields().ByName("dynamic_metadata").Number()
}

// setMetadata puts into the field of that number what the filters behind, and access logs, can know of a decision:
//
//	{"descriptors": [{"result": "OK", "policies": [{"policy": "shop/a", "result": "OVER_LIMIT", "shadow": true}]}],
//	 "source": "redis", "revision": "sha256:…"}
//
// Identifiers are not in it: it ends up in logs. Nothing is if no policy matched.
//
// It is written as it goes out, and stands in the message among the fields that Go does not know, which go out as they are:
// to marshal a structpb.Struct takes several times as long as to decide.
func setMetadata(response proto.Message, field protowire.Number, answers []engine.Answer) {
	if !slices.ContainsFunc(answers, func(a engine.Answer) bool { return len(a.Results) > 0 }) {
		return
	}
	b := make([]byte, 0, 256) // holds that of a policy or two
	b = message(b, field, func(b []byte) []byte {
		b = entry(b, "descriptors", func(b []byte) []byte {
			return message(b, valueList, func(b []byte) []byte {
				for i := range answers {
					b = appendDescriptor(b, &answers[i])
				}
				return b
			})
		})
		b = stringEntry(b, "source", string(sourceOf(answers)))
		return stringEntry(b, "revision", answers[0].Revision)
	})
	response.ProtoReflect().SetUnknown(protoreflect.RawFields(b))
}

// appendDescriptor appends what is told of a descriptor to a list.
func appendDescriptor(b []byte, a *engine.Answer) []byte {
	return structInList(b, func(b []byte) []byte {
		b = stringEntry(b, "result", result(a.Allowed))
		if len(a.Results) == 0 {
			return b
		}
		return entry(b, "policies", func(b []byte) []byte {
			return message(b, valueList, func(b []byte) []byte {
				for i := range a.Results {
					b = appendPolicy(b, &a.Results[i])
				}
				return b
			})
		})
	})
}

// appendPolicy appends what is told of a policy to a list.
func appendPolicy(b []byte, r *engine.Result) []byte {
	return structInList(b, func(b []byte) []byte {
		b = stringEntry(b, "policy", r.Rule.Policy)
		b = stringEntry(b, "result", result(r.Allowed))
		if r.Rule.Shadow {
			b = entry(b, "shadow", func(b []byte) []byte {
				return protowire.AppendVarint(protowire.AppendTag(b, valueBool, protowire.VarintType), protowire.EncodeBool(true))
			})
		}
		if r.Tier != "" {
			b = stringEntry(b, "tier", r.Tier)
		}
		return b
	})
}

// result is the name of a code.
func result(allowed bool) string {
	if allowed {
		return "OK"
	}
	return "OVER_LIMIT"
}

// structInList appends a struct of these entries to a list.
func structInList(b []byte, entries func([]byte) []byte) []byte {
	return message(b, listValues, func(b []byte) []byte { return message(b, valueStruct, entries) })
}

// entry appends an entry of a struct.
func entry(b []byte, key string, value func([]byte) []byte) []byte {
	return message(b, structFields, func(b []byte) []byte {
		b = protowire.AppendString(protowire.AppendTag(b, mapKey, protowire.BytesType), key)
		return message(b, mapValue, value)
	})
}

func stringEntry(b []byte, key, value string) []byte {
	return entry(b, key, func(b []byte) []byte {
		return protowire.AppendString(protowire.AppendTag(b, valueString, protowire.BytesType), value)
	})
}

// message appends a message with these fields.
func message(b []byte, number protowire.Number, fields func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	begin := len(b)
	b = fields(append(b, 0)) // room for the length if it is below 128
	length := len(b) - begin - 1
	if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
		b = slices.Insert(b, begin, make([]byte, more)...)
	}
	protowire.AppendVarint(b[:begin], uint64(length))
	return b
}

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
