package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/limiter/rules"
)

// Bounds of a request, equal to those of the HTTP check.
const (
	maxDescriptors = 64
	MaxEntries     = 64 // in one descriptor
)

// rateLimitRequest has the fields of an envoy.service.ratelimit.v3.RateLimitRequest that the endpoint reads. Decoding it takes a fraction
// of the time that the generated code takes, because that works by reflection.
type RateLimitRequest struct {
	Domain      string
	Descriptors []RequestDescriptor
	Hits        uint32
	Defects     Defects
}

// requestDescriptor is an envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.
type RequestDescriptor struct {
	Entries  rules.Descriptor
	Limit    requestLimit
	HasLimit bool
	Hits     uint64
	HasHits  bool
	Negative bool
}

// requestLimit is the limit that a descriptor contains.
type requestLimit struct {
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

// reset empties r and keeps its memory.
func (r *RateLimitRequest) Reset() {
	for i := range r.Descriptors {
		entries := r.Descriptors[i].Entries
		clear(entries)
		r.Descriptors[i] = RequestDescriptor{Entries: entries[:0]}
	}
	*r = RateLimitRequest{Descriptors: r.Descriptors[:0]}
}

// decode reads a message into r, which must be empty. As in generated code, the last value of a field applies, a message that occurs
// again is merged, and a field with an unexpected type is unknown. Descriptors and entries over the bounds are skipped, so that they take no memory.
func (r *RateLimitRequest) Decode(message []byte) error {
	for m := wire(message); m != ""; {
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
func (r *RateLimitRequest) decodeDescriptor(m *wire) error {
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

// extended returns list with one more element: the one that reset has left there, or an empty one.
func extended[T any](list []T) []T {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	var empty T
	return append(list, empty)
}

func (d *RequestDescriptor) decode(m wire, found *Defects) error {
	for m != "" {
		number, kind, err := m.next()
		var sub wire
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

func decodeEntry(m wire, e *rules.Entry, found *Defects) error {
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
			l.Requests, err = m.uint32()
		case number == limitUnit && kind == protowire.VarintType:
			var v uint32
			v, err = m.uint32()
			l.Unit = int32(v)
		case number == limitMultiplier && kind == protowire.BytesType:
			var sub wire
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
func decodeWrapper(m wire, v uint64) (uint64, error) {
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
