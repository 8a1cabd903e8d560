package envoy

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
)

// metadataField returns the number of the field dynamic_metadata of a response.
func metadataField(response proto.Message) protowire.Number {
	return response.ProtoReflect().Descriptor().Fields().ByName("dynamic_metadata").Number()
}

// setMetadata sets the field to the metadata of a decision. The value is in wire format and stored as an unknown field, which protobuf
// sends unchanged. Marshaling a structpb.Struct would take several times as long as the decision.
func setMetadata(response proto.Message, field protowire.Number, answers []engine.Answer, found wire.Defects) {
	if b := appendMetadata(nil, field, answers, found); b != nil {
		response.ProtoReflect().SetUnknown(protoreflect.RawFields(b))
	}
}

// appendMetadata appends the field with the metadata of a decision, for later filters and access logs:
//
//	{"descriptors": [{"result": "OK", "policies": [{"policy": "shop/a", "result": "OVER_LIMIT", "shadow": true}]}],
//	 "source": "redis", "revision": "sha256:…", "defects": ["not_utf8"]}
//
// It contains no identifiers, because it is written to logs. If no policy matched and the call has no defects, it appends nothing.
func appendMetadata(b []byte, field protowire.Number, answers []engine.Answer, found wire.Defects) []byte {
	if found == 0 && !slices.ContainsFunc(answers, func(a engine.Answer) bool { return len(a.Results) > 0 }) {
		return b
	}
	b, metadata := beginMessage(slices.Grow(b, 256), field) // enough for one or two policies
	b, descriptors := beginEntry(b, "descriptors")
	b, list := beginMessage(b, wire.ValueList)
	for i := range answers {
		b = appendDescriptor(b, &answers[i])
	}
	b = descriptors.end(endMessage(b, list))
	b = appendStringEntry(b, "source", string(sourceOf(answers)))
	b = appendStringEntry(b, "revision", answers[0].Revision)
	if found != 0 {
		b = appendDefects(b, found)
	}
	return endMessage(b, metadata)
}

func appendDefects(b []byte, found wire.Defects) []byte {
	b, entry := beginEntry(b, "defects")
	b, list := beginMessage(b, wire.ValueList)
	found.Each(func(name string) {
		var value int
		b, value = beginMessage(b, wire.ListValues)
		b = protowire.AppendString(protowire.AppendTag(b, wire.ValueString, protowire.BytesType), name)
		b = endMessage(b, value)
	})
	return entry.end(endMessage(b, list))
}

// appendDescriptor appends the metadata of a descriptor to a list.
func appendDescriptor(b []byte, a *engine.Answer) []byte {
	b, descriptor := beginStructInList(b)
	b = appendStringEntry(b, "result", result(a.Allowed))
	if len(a.Results) > 0 {
		var policies nested
		b, policies = beginEntry(b, "policies")
		var list int
		b, list = beginMessage(b, wire.ValueList)
		for i := range a.Results {
			b = appendPolicy(b, &a.Results[i])
		}
		b = policies.end(endMessage(b, list))
	}
	return descriptor.end(b)
}

// appendPolicy appends the metadata of a policy to a list.
func appendPolicy(b []byte, r *engine.Result) []byte {
	b, policy := beginStructInList(b)
	b = appendStringEntry(b, "policy", r.Rule.Policy)
	b = appendStringEntry(b, "result", result(r.Allowed))
	if r.Rule.Shadow {
		var shadow nested
		b, shadow = beginEntry(b, "shadow")
		b = protowire.AppendVarint(protowire.AppendTag(b, wire.ValueBool, protowire.VarintType), protowire.EncodeBool(true))
		b = shadow.end(b)
	}
	if r.Tier != "" {
		b = appendStringEntry(b, "tier", r.Tier)
	}
	return policy.end(b)
}

// result returns the name of a result code.
func result(allowed bool) string {
	if allowed {
		return "OK"
	}
	return "OVER_LIMIT"
}

// nested has the begins of a message and of a message in it.
type nested struct{ outer, inner int }

func (n nested) end(b []byte) []byte { return endMessage(endMessage(b, n.inner), n.outer) }

// beginStructInList begins a struct in a list.
func beginStructInList(b []byte) ([]byte, nested) {
	var n nested
	b, n.outer = beginMessage(b, wire.ListValues)
	b, n.inner = beginMessage(b, wire.ValueStruct)
	return b, n
}

// beginEntry begins the value of an entry of a struct.
func beginEntry(b []byte, key string) ([]byte, nested) {
	var n nested
	b, n.outer = beginMessage(b, wire.StructFields)
	b = protowire.AppendString(protowire.AppendTag(b, wire.MapKey, protowire.BytesType), key)
	b, n.inner = beginMessage(b, wire.MapValue)
	return b, n
}

func appendStringEntry(b []byte, key, value string) []byte {
	b, entry := beginEntry(b, key)
	b = protowire.AppendString(protowire.AppendTag(b, wire.ValueString, protowire.BytesType), value)
	return entry.end(b)
}

// beginMessage appends the tag of a message. The caller appends its fields, and then calls endMessage with the int.
func beginMessage(b []byte, number protowire.Number) ([]byte, int) {
	b = append(protowire.AppendTag(b, number, protowire.BytesType), 0) // one byte for a length below 128
	return b, len(b)
}

// endMessage completes the message whose fields begin at the given index.
func endMessage(b []byte, begin int) []byte {
	length := len(b) - begin
	if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
		b = slices.Insert(b, begin, make([]byte, more)...)
	}
	protowire.AppendVarint(b[:begin-1], uint64(length))
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
