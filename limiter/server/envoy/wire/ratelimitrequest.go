package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/limiter/rules"
)

// MaxEntries is the number of entries that are read of a descriptor. The bounds are those of the HTTP check.
const MaxEntries = 64

const maxDescriptors = 64

// RateLimitRequest has the fields of an envoy.service.ratelimit.v3.RateLimitRequest that the endpoint reads. Decoding it takes a fraction
// of the time that the generated code takes, because that works by reflection.
type RateLimitRequest struct {
	Domain      string
	Descriptors []Descriptor
	Hits        uint32 // of each descriptor without hits of its own; 0 if the request does not have them
	Defects     Defects
}

// Descriptor is an envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.
type Descriptor struct {
	Entries  rules.Descriptor
	Limit    Limit
	HasLimit bool
	Hits     uint64
	HasHits  bool
	Negative bool // the hits are refunded
}

// Limit is the limit that a descriptor contains: Requests in Multiplier units of time, or in one if HasMultiplier is false.
type Limit struct {
	Requests      uint32
	Unit          int32 // a typev3.RateLimitUnit
	Multiplier    uint32
	HasMultiplier bool
}

// The field numbers of the messages of a request.
const (
	requestDomain      protowire.Number = 1
	requestDescriptors protowire.Number = 2
	requestHits        protowire.Number = 3

	descriptorEntries  protowire.Number = 1
	descriptorLimit    protowire.Number = 2
	descriptorHits     protowire.Number = 3
	descriptorNegative protowire.Number = 4

	entryKey   protowire.Number = 1
	entryValue protowire.Number = 2

	limitRequests   protowire.Number = 1
	limitUnit       protowire.Number = 2
	limitMultiplier protowire.Number = 3
)

// Reset empties r and keeps its memory.
func (r *RateLimitRequest) Reset() {
	for i := range r.Descriptors {
		entries := r.Descriptors[i].Entries
		clear(entries)
		r.Descriptors[i] = Descriptor{Entries: entries[:0]}
	}
	*r = RateLimitRequest{Descriptors: r.Descriptors[:0]}
}

// Decode reads a message into r, which must be empty. As in generated code, the last value of a field applies, a message that occurs
// again is merged, and a field with an unexpected type is unknown. Descriptors and entries over the bounds are skipped, so that they take no memory.
// The error is that of a truncated or malformed message.
func (r *RateLimitRequest) Decode(message []byte) error {
	for m := reader(message); m != ""; {
		number, kind, err := m.next()
		switch {
		case err != nil:
		case number == requestDomain && kind == protowire.BytesType:
			r.Domain, err = m.text(&r.Defects)
		case number == requestDescriptors && kind == protowire.BytesType:
			err = r.decodeDescriptor(&m)
		case number == requestHits && kind == protowire.VarintType:
			r.Hits, err = m.uint32()
		default:
			err = m.skip(number, kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeDescriptor adds a descriptor.
func (r *RateLimitRequest) decodeDescriptor(m *reader) error {
	sub, err := m.message()
	switch {
	case err != nil:
		return err
	case len(r.Descriptors) == maxDescriptors:
		r.Defects.Add(defectDescriptors)
		return nil
	}
	r.Descriptors = extended(r.Descriptors)
	return r.Descriptors[len(r.Descriptors)-1].decode(sub, &r.Defects)
}

// extended returns list with one more element: the one that Reset has left there, or an empty one.
func extended[T any](list []T) []T {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	var empty T
	return append(list, empty)
}

func (d *Descriptor) decode(m reader, found *Defects) error {
	for m != "" {
		number, kind, err := m.next()
		var sub reader
		if err == nil && kind == protowire.BytesType && number <= descriptorHits {
			sub, err = m.message()
		}
		switch {
		case err != nil:
		case number == descriptorEntries && kind == protowire.BytesType && len(d.Entries) == MaxEntries:
			found.Add(defectEntries)
		case number == descriptorEntries && kind == protowire.BytesType:
			d.Entries = append(d.Entries, rules.Entry{})
			err = decodeEntry(sub, &d.Entries[len(d.Entries)-1], found)
		case number == descriptorLimit && kind == protowire.BytesType:
			d.HasLimit = true
			err = d.Limit.decode(sub)
		case number == descriptorHits && kind == protowire.BytesType:
			d.HasHits = true
			d.Hits, err = decodeWrapper(sub, d.Hits)
		case number == descriptorNegative && kind == protowire.VarintType:
			var v uint64
			v, err = m.varint()
			d.Negative = protowire.DecodeBool(v)
		default:
			err = m.skip(number, kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decodeEntry(m reader, e *rules.Entry, found *Defects) error {
	for m != "" {
		number, kind, err := m.next()
		switch {
		case err != nil:
		case number == entryKey && kind == protowire.BytesType:
			e.Key, err = m.text(found)
		case number == entryValue && kind == protowire.BytesType:
			e.Value, err = m.text(found)
		default:
			err = m.skip(number, kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Limit) decode(m reader) error {
	for m != "" {
		number, kind, err := m.next()
		switch {
		case err != nil:
		case number == limitRequests && kind == protowire.VarintType:
			l.Requests, err = m.uint32()
		case number == limitUnit && kind == protowire.VarintType:
			var v uint32
			v, err = m.uint32()
			l.Unit = int32(v)
		case number == limitMultiplier && kind == protowire.BytesType:
			var sub reader
			if sub, err = m.message(); err == nil {
				l.HasMultiplier = true
				var v uint64
				v, err = decodeWrapper(sub, uint64(l.Multiplier))
				l.Multiplier = uint32(v)
			}
		default:
			err = m.skip(number, kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeWrapper merges a google.protobuf.UInt64Value into v.
func decodeWrapper(m reader, v uint64) (uint64, error) {
	for m != "" {
		number, kind, err := m.next()
		switch {
		case err != nil:
		case number == WrapperValue && kind == protowire.VarintType:
			v, err = m.varint()
		default:
			err = m.skip(number, kind)
		}
		if err != nil {
			return 0, err
		}
	}
	return v, nil
}
