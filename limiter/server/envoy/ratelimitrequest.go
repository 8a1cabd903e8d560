package envoy

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/limiter/rules"
)

// Bounds of a request, equal to those of the HTTP check.
const (
	maxDescriptors = 64
	maxEntries     = 64 // in one descriptor
)

// rateLimitRequest has the fields of an envoy.service.ratelimit.v3.RateLimitRequest that the endpoint reads. Decoding it takes a fraction
// of the time that the generated code takes, because that works by reflection.
type rateLimitRequest struct {
	domain      string
	descriptors []requestDescriptor
	hits        uint32
	defects     defects
}

// requestDescriptor is an envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.
type requestDescriptor struct {
	entries  rules.Descriptor
	limit    requestLimit
	hasLimit bool
	hits     uint64
	hasHits  bool
	negative bool
}

// requestLimit is the limit that a descriptor contains.
type requestLimit struct {
	requests      uint32
	unit          int32 // a typev3.RateLimitUnit
	multiplier    uint32
	hasMultiplier bool
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

// reset empties r and keeps its memory.
func (r *rateLimitRequest) reset() {
	for i := range r.descriptors {
		entries := r.descriptors[i].entries
		clear(entries)
		r.descriptors[i] = requestDescriptor{entries: entries[:0]}
	}
	*r = rateLimitRequest{descriptors: r.descriptors[:0]}
}

// decode reads a message into r, which must be empty. As in generated code, the last value of a field applies, a message that occurs
// again is merged, and a field with an unexpected type is unknown. Descriptors and entries over the bounds are skipped, so that they take no memory.
func (r *rateLimitRequest) decode(message []byte) error {
	for m := wire(message); m != ""; {
		number, kind, err := m.next()
		switch {
		case err != nil:
		case number == requestDomain && kind == protowire.BytesType:
			r.domain, err = m.text(&r.defects)
		case number == requestDescriptors && kind == protowire.BytesType:
			err = r.decodeDescriptor(&m)
		case number == requestHits && kind == protowire.VarintType:
			r.hits, err = m.uint32()
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
func (r *rateLimitRequest) decodeDescriptor(m *wire) error {
	sub, err := m.message()
	switch {
	case err != nil:
		return err
	case len(r.descriptors) == maxDescriptors:
		r.defects.add(defectDescriptors)
		return nil
	}
	r.descriptors = extended(r.descriptors)
	return r.descriptors[len(r.descriptors)-1].decode(sub, &r.defects)
}

// extended returns list with one more element: the one that reset has left there, or an empty one.
func extended[T any](list []T) []T {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	var empty T
	return append(list, empty)
}

func (d *requestDescriptor) decode(m wire, found *defects) error {
	for m != "" {
		number, kind, err := m.next()
		var sub wire
		if err == nil && kind == protowire.BytesType && number <= descriptorHits {
			sub, err = m.message()
		}
		switch {
		case err != nil:
		case number == descriptorEntries && kind == protowire.BytesType && len(d.entries) == maxEntries:
			found.add(defectEntries)
		case number == descriptorEntries && kind == protowire.BytesType:
			d.entries = append(d.entries, rules.Entry{})
			err = decodeEntry(sub, &d.entries[len(d.entries)-1], found)
		case number == descriptorLimit && kind == protowire.BytesType:
			d.hasLimit = true
			err = d.limit.decode(sub)
		case number == descriptorHits && kind == protowire.BytesType:
			d.hasHits = true
			d.hits, err = decodeWrapper(sub, d.hits)
		case number == descriptorNegative && kind == protowire.VarintType:
			var v uint64
			v, err = m.varint()
			d.negative = protowire.DecodeBool(v)
		default:
			err = m.skip(number, kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decodeEntry(m wire, e *rules.Entry, found *defects) error {
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

func (l *requestLimit) decode(m wire) error {
	for m != "" {
		number, kind, err := m.next()
		switch {
		case err != nil:
		case number == limitRequests && kind == protowire.VarintType:
			l.requests, err = m.uint32()
		case number == limitUnit && kind == protowire.VarintType:
			var v uint32
			v, err = m.uint32()
			l.unit = int32(v)
		case number == limitMultiplier && kind == protowire.BytesType:
			var sub wire
			if sub, err = m.message(); err == nil {
				l.hasMultiplier = true
				var v uint64
				v, err = decodeWrapper(sub, uint64(l.multiplier))
				l.multiplier = uint32(v)
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
func decodeWrapper(m wire, v uint64) (uint64, error) {
	for m != "" {
		number, kind, err := m.next()
		switch {
		case err != nil:
		case number == wrapperValue && kind == protowire.VarintType:
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
