package envoy

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-dev/weir/limiter/engine"
)

// The field numbers of google.protobuf.Struct, Value and ListValue. A map entry is a message too.
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

// metadataField returns the number of the field dynamic_metadata of a response.
func metadataField(response proto.Message) protowire.Number {
	return response.ProtoReflect().Descriptor().Fields().ByName("dynamic_metadata").Number()
}

// setMetadata sets the field to the metadata of a decision, for later filters and access logs:
//
//	{"descriptors": [{"result": "OK", "policies": [{"policy": "shop/a", "result": "OVER_LIMIT", "shadow": true}]}],
//	 "source": "redis", "revision": "sha256:…"}
//
// It contains no identifiers, because it is written to logs. If no policy matched, the field is not set.
//
// The value is in wire format and stored as an unknown field, which protobuf sends unchanged. Marshaling a structpb.Struct would take
// several times as long as the decision.
func setMetadata(response proto.Message, field protowire.Number, answers []engine.Answer) {
	if !slices.ContainsFunc(answers, func(a engine.Answer) bool { return len(a.Results) > 0 }) {
		return
	}
	b := make([]byte, 0, 256) // enough for one or two policies
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

// appendDescriptor appends the metadata of a descriptor to a list.
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

// appendPolicy appends the metadata of a policy to a list.
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

// result returns the name of a result code.
func result(allowed bool) string {
	if allowed {
		return "OK"
	}
	return "OVER_LIMIT"
}

// structInList appends a struct with the entries to a list.
func structInList(b []byte, entries func([]byte) []byte) []byte {
	return message(b, listValues, func(b []byte) []byte { return message(b, valueStruct, entries) })
}

// entry appends an entry to a struct.
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

// message appends a message with the fields.
func message(b []byte, number protowire.Number, fields func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	begin := len(b)
	b = fields(append(b, 0)) // one byte for a length below 128
	length := len(b) - begin - 1
	if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
		b = slices.Insert(b, begin, make([]byte, more)...)
	}
	protowire.AppendVarint(b[:begin], uint64(length))
	return b
}

// sourceOf returns the source of the counters of all answers: local if any answer is local, otherwise the source of the answers that
// have counters.
func sourceOf(answers []engine.Answer) engine.Source {
	source := engine.SourceNone
	for i := range answers {
		if s := answers[i].Source; s == engine.SourceLocal || source == engine.SourceNone {
			source = s
		}
	}
	return source
}
