package rules

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/weir-dev/weir/limiter/rules/gzipped"
)

// MaxSequence is the highest sequence. In milliseconds since 1970, it is the end of the year 9999.
const MaxSequence = 253_402_300_799_999

// The extra field of the gzip header contains the sequence as a subfield (RFC 1952, section 2.3.1.1): two bytes of ID, the length, the sequence
// in 8 bytes, and a checksum of revision and sequence in 4 bytes. The length is little-endian, the rest big-endian. Readers of older versions
// ignore the extra field.
const (
	gzipHeader     = 10 // bytes before the extra field
	gzipFlags      = 3  // offset of the flags
	gzipExtra      = 4  // the flag of the extra field
	sequenceID     = "WS"
	sequenceLength = 8 + 4
)

var errSequence = errors.New("the sequence in the data is damaged")

// WithSequence returns a copy of data, the result of Encode, with a sequence: an order among the rule sets of a limiter, from 1 to MaxSequence.
// It replaces the sequence that data has. The revision stays, because it identifies the content. Data that Encode has not returned has no
// sequence; WithSequence returns it unchanged.
func WithSequence(data []byte, sequence int64) []byte {
	header, err := gzipped.Header(data)
	if err != nil {
		return data
	}
	rest := data[gzipHeader:]
	if data[gzipFlags]&gzipExtra != 0 {
		rest = rest[2+len(header.Extra):]
	}
	field := append([]byte(sequenceID), sequenceLength, 0)
	field = binary.BigEndian.AppendUint64(field, uint64(sequence))
	field = binary.BigEndian.AppendUint32(field, sequenceSum(header.Comment, field[4:]))
	ordered := append(make([]byte, 0, len(data)+2+len(field)), data[:gzipHeader]...)
	ordered[gzipFlags] |= gzipExtra
	ordered = binary.LittleEndian.AppendUint16(ordered, uint16(len(field)))
	return append(append(ordered, field...), rest...)
}

// Sequence returns the sequence in data, or 0 if data has no sequence, as from an older operator. It reads the header of data only, and returns
// an error if that is damaged.
func Sequence(data []byte) (int64, error) {
	header, err := gzipped.Header(data)
	if err != nil {
		return 0, fmt.Errorf("decode rules: %w", err)
	}
	sequence, err := sequenceOf(header)
	if err != nil {
		return 0, fmt.Errorf("decode rules: %w", err)
	}
	return sequence, nil
}

func sequenceOf(header gzip.Header) (int64, error) {
	extra := header.Extra
	if len(extra) == 0 {
		return 0, nil
	}
	if len(extra) != 4+sequenceLength || string(extra[:4]) != sequenceID+"\x0c\x00" {
		return 0, errSequence
	}
	value, sum := extra[4:12], binary.BigEndian.Uint32(extra[12:])
	sequence := binary.BigEndian.Uint64(value)
	if sum != sequenceSum(header.Comment, value) || sequence < 1 || sequence > MaxSequence {
		return 0, errSequence
	}
	return int64(sequence), nil
}

// sequenceSum is the checksum of the sequence of a revision: the checksum of gzip excludes its header.
func sequenceSum(revision string, sequence []byte) uint32 {
	return crc32.ChecksumIEEE(append([]byte(revision), sequence...))
}
