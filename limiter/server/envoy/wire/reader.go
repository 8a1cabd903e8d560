// Package wire reads requests of Envoy in the wire format of protobuf: those of the rate limit service and of external authorization.
//
// It reads only the fields that the endpoints use. It is faster than the generated code, takes memory only within bounds, and accepts texts that are not
// valid UTF-8. What it cannot use of a request is one of the Defects, so that the rest of the request can be decided.
package wire

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The field numbers of the messages that are part of requests and of responses. A map entry is a message too.
const (
	HeaderKey   protowire.Number = 1 // of envoy.config.core.v3.HeaderValue
	HeaderValue protowire.Number = 2

	WrapperValue protowire.Number = 1 // of google.protobuf.UInt32Value and UInt64Value

	StructFields protowire.Number = 1 // of google.protobuf.Struct, Value and ListValue
	MapKey       protowire.Number = 1
	MapValue     protowire.Number = 2
	ValueString  protowire.Number = 3
	ValueBool    protowire.Number = 4
	ValueStruct  protowire.Number = 5
	ValueList    protowire.Number = 6
	ListValues   protowire.Number = 1
)

var errTruncated = errors.New("the message is truncated or malformed")

// reader reads the fields of a message in wire format. It is a string so that the texts in it are not copied again.
type reader string

// next reads the tag of the next field.
func (r *reader) next() (protowire.Number, protowire.Type, error) {
	tag, err := r.varint()
	if err != nil {
		return 0, 0, err
	}
	number := tag >> 3
	if number < uint64(protowire.MinValidNumber) || number > uint64(protowire.MaxValidNumber) {
		return 0, 0, fmt.Errorf("field number %d is invalid", number)
	}
	return protowire.Number(number), protowire.Type(tag & 7), nil
}

func (r *reader) varint() (uint64, error) {
	var v uint64
	for i := range len(*r) {
		b := (*r)[i]
		if i == 9 && b > 1 { // more than 64 bits
			break
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			*r = (*r)[i+1:]
			return v, nil
		}
	}
	return 0, errTruncated
}

// uint32 reads a varint and drops its higher bits, as generated code does.
func (r *reader) uint32() (uint32, error) {
	v, err := r.varint()
	return uint32(v), err
}

// message reads a field of another message.
func (r *reader) message() (reader, error) {
	n, err := r.varint()
	if err != nil {
		return "", err
	}
	if n > uint64(len(*r)) {
		return "", errTruncated
	}
	m := (*r)[:n]
	*r = (*r)[n:]
	return m, nil
}

// text reads a text.
func (r *reader) text(found *Defects) (string, error) {
	m, err := r.message()
	return textOf(m, found), err
}

// textOf returns a text as a client has sent it, if its bytes are not valid UTF-8 too: the generated code rejects the whole message then, so that one
// header of a client would lift all limits of its request.
func textOf(m reader, found *Defects) string {
	if !utf8.ValidString(string(m)) {
		found.Add(defectNotUTF8)
	}
	return string(m)
}

// fields calls f for each field of a message. f reads the value from rest.
func (r *reader) fields(f func(number protowire.Number, kind protowire.Type, rest *reader) error) error {
	for *r != "" {
		number, kind, err := r.next()
		if err == nil {
			err = f(number, kind, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls f for each field with a message or a text. It skips the others.
func (r *reader) each(f func(number protowire.Number, m reader) error) error {
	for *r != "" {
		number, kind, err := r.next()
		switch {
		case err != nil:
		case kind != protowire.BytesType:
			err = r.skip(number, kind)
		default:
			var m reader
			if m, err = r.message(); err == nil {
				err = f(number, m)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// skip skips the value of an unknown field.
func (r *reader) skip(number protowire.Number, kind protowire.Type) error {
	n := protowire.ConsumeFieldValue(number, kind, []byte(*r))
	if n < 0 {
		return errTruncated
	}
	*r = (*r)[n:]
	return nil
}
