package wire

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The other field numbers of google.protobuf.Value.
const (
	valueNull   protowire.Number = 1
	valueNumber protowire.Number = 2
)

// metadata reads the namespace of an envoy.config.core.v3.Metadata into to, and counts its values in read.
func (r *AuthRequest) metadata(to *map[string]any, read *int, namespace string, m reader) error {
	return m.each(func(number protowire.Number, entry reader) error {
		if number != filterMetadata {
			return nil
		}
		key, fields := "", reader("")
		err := entry.each(func(number protowire.Number, m reader) error {
			switch number {
			case MapKey:
				key = string(m)
			case MapValue:
				fields = m
			}
			return nil
		})
		if err != nil || key != namespace {
			return err
		}
		*to = map[string]any{}
		return r.structOf(read, *to, fields, 0)
	})
}

// structOf adds the fields of a google.protobuf.Struct to fields.
func (r *AuthRequest) structOf(read *int, fields map[string]any, m reader, depth int) error {
	return m.each(func(number protowire.Number, entry reader) error {
		if number != StructFields || !r.hasRoom(read, depth) {
			return nil
		}
		key, value := "", reader("")
		err := entry.each(func(number protowire.Number, m reader) error {
			switch number {
			case MapKey:
				key = r.text(m)
			case MapValue:
				value = m
			}
			return nil
		})
		if err != nil {
			return err
		}
		fields[key], err = r.value(read, value, depth+1)
		return err
	})
}

// hasRoom reports whether the metadata can have one more value.
func (r *AuthRequest) hasRoom(read *int, depth int) bool {
	if *read == maxMetadataValues || depth >= maxMetadataDepth {
		r.Defects.Add(DefectMetadata)
		return false
	}
	*read++
	return true
}

// value returns the value of a google.protobuf.Value, as its method AsInterface does.
func (r *AuthRequest) value(read *int, m reader, depth int) (v any, err error) {
	err = m.fields(func(number protowire.Number, kind protowire.Type, rest *reader) error {
		var sub reader
		var err error
		if kind == protowire.BytesType {
			if sub, err = rest.message(); err != nil {
				return err
			}
		}
		switch {
		case number == ValueString && kind == protowire.BytesType:
			v = r.text(sub)
		case number == ValueStruct && kind == protowire.BytesType:
			fields, again := v.(map[string]any)
			if !again {
				fields = map[string]any{}
			}
			v = fields
			err = r.structOf(read, fields, sub, depth)
		case number == ValueList && kind == protowire.BytesType:
			list, again := v.([]any)
			if !again {
				list = []any{}
			}
			v, err = r.list(read, list, sub, depth)
		case kind == protowire.BytesType:
		case number == valueNull && kind == protowire.VarintType:
			v = nil
			_, err = rest.varint()
		case number == ValueBool && kind == protowire.VarintType:
			var n uint64
			n, err = rest.varint()
			v = protowire.DecodeBool(n)
		case number == valueNumber && kind == protowire.Fixed64Type:
			v, err = rest.number()
		default:
			err = rest.skip(number, kind)
		}
		return err
	})
	return v, err
}

// list adds the values of a google.protobuf.ListValue to list.
func (r *AuthRequest) list(read *int, list []any, m reader, depth int) ([]any, error) {
	err := m.each(func(number protowire.Number, value reader) error {
		if number != ListValues || !r.hasRoom(read, depth) {
			return nil
		}
		v, err := r.value(read, value, depth+1)
		list = append(list, v)
		return err
	})
	return list, err
}

// number reads a number. Those that JSON does not have are texts.
func (r *reader) number() (any, error) {
	if len(*r) < 8 {
		return nil, errTruncated
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64([]byte((*r)[:8])))
	*r = (*r)[8:]
	switch {
	case math.IsNaN(f):
		return "NaN", nil
	case math.IsInf(f, 1):
		return "Infinity", nil
	case math.IsInf(f, -1):
		return "-Infinity", nil
	}
	return f, nil
}
