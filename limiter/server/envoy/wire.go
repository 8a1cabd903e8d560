package envoy

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

var errTruncated = errors.New("the message is truncated or malformed")

// wire reads the fields of a message in wire format. It is a string so that the texts in it are not copied again.
type wire string

// next reads the tag of the next field.
func (w *wire) next() (protowire.Number, protowire.Type, error) {
	tag, err := w.varint()
	if err != nil {
		return 0, 0, err
	}
	number := tag >> 3
	if number < uint64(protowire.MinValidNumber) || number > uint64(protowire.MaxValidNumber) {
		return 0, 0, fmt.Errorf("field number %d is invalid", number)
	}
	return protowire.Number(number), protowire.Type(tag & 7), nil
}

func (w *wire) varint() (uint64, error) {
	var v uint64
	for i := range len(*w) {
		b := (*w)[i]
		if i == 9 && b > 1 { // more than 64 bits
			break
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			*w = (*w)[i+1:]
			return v, nil
		}
	}
	return 0, errTruncated
}

// uint32 reads a varint and drops its higher bits, as generated code does.
func (w *wire) uint32() (uint32, error) {
	v, err := w.varint()
	return uint32(v), err
}

// message reads a field of another message.
func (w *wire) message() (wire, error) {
	n, err := w.varint()
	if err != nil {
		return "", err
	}
	if n > uint64(len(*w)) {
		return "", errTruncated
	}
	m := (*w)[:n]
	*w = (*w)[n:]
	return m, nil
}

func (w *wire) text() (string, error) {
	m, err := w.message()
	if err == nil && !utf8.ValidString(string(m)) {
		err = errors.New("a text is not valid UTF-8")
	}
	return string(m), err
}

// skip skips the value of an unknown field.
func (w *wire) skip(number protowire.Number, kind protowire.Type) error {
	n := protowire.ConsumeFieldValue(number, kind, []byte(*w))
	if n < 0 {
		return errTruncated
	}
	*w = (*w)[n:]
	return nil
}
