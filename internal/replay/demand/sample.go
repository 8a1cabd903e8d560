// Package demand has what identifiers asked for, so that other limits can be tried after a log was read. It decides with the algorithms of package
// limiter.
package demand

import (
	"cmp"
	"slices"

	"github.com/weir-dev/weir/limiter"
)

// Sample has the requests of some identifiers. If they exceed its bound, it keeps those of half of the identifiers, by their hashes: each of them is
// kept with all of its requests, or not at all.
type Sample struct {
	most   int
	mask   uint64 // the identifiers whose hashes have none of these bits
	events []event
}

// event is a request. The identifiers of a policy have numbers below 2³² and costs below 2³².
type event struct {
	hash uint64
	at   limiter.Instant
	cost uint32
}

// DefaultMost is the number of requests of a sample, with 24 bytes each.
const DefaultMost = 1 << 20

// NewSample returns an empty Sample with at most so many requests, or DefaultMost if most is 0.
func NewSample(most int) *Sample {
	if most == 0 {
		most = DefaultMost
	}
	return &Sample{most: most}
}

// sampleShift is the lowest bit of a hash that chooses identifiers. The bits below and above it choose the place in a table.
const sampleShift = 40

// Add adds a request of an identifier. The times must not decrease.
func (s *Sample) Add(hash uint64, at limiter.Instant, cost int64) {
	if hash>>sampleShift&s.mask != 0 {
		return
	}
	if len(s.events) >= s.most {
		s.Shrink(s.most - 1)
	}
	if hash>>sampleShift&s.mask == 0 && len(s.events) < s.most {
		s.events = append(s.events, event{hash, at, uint32(min(cost, 1<<32-1))})
	}
}

// Shrink leaves identifiers out until the sample has at most so many requests. One identifier can have more, and remains.
func (s *Sample) Shrink(most int) {
	for len(s.events) > most && s.mask < 1<<(64-sampleShift)-1 {
		s.mask = s.mask<<1 | 1
		s.events = slices.DeleteFunc(s.events, func(e event) bool { return e.hash>>sampleShift&s.mask != 0 })
	}
}

// Demand is what the identifiers of a sample asked for.
type Demand struct {
	// SampledOneIn is 1 if it has all identifiers.
	SampledOneIn int64
	// Requests and Identifiers are those of the sample.
	Requests, Identifiers int64

	clients []client // those with the largest sums first
	all     []int32  // their numbers
	events  []event  // of one client after another, by time
}

// client is an identifier.
type client struct {
	events []event
	sum    int64 // units
}

// Demand returns the demand of the sample. The sample must not be used any more.
func (s *Sample) Demand() *Demand {
	d := &Demand{SampledOneIn: int64(s.mask) + 1, Requests: int64(len(s.events)), events: grouped(s.events)}
	s.events = nil
	clients := 0
	for i := range d.events {
		if i == 0 || d.events[i].hash != d.events[i-1].hash {
			clients++
		}
	}
	d.clients = make([]client, 0, clients)
	for rest := d.events; len(rest) > 0; {
		n, sum := 0, int64(0)
		for n < len(rest) && rest[n].hash == rest[0].hash {
			sum += int64(rest[n].cost)
			n++
		}
		d.clients = append(d.clients, client{rest[:n:n], sum})
		rest = rest[n:]
	}
	d.Identifiers = int64(len(d.clients))
	d.all = make([]int32, len(d.clients))
	for i := range d.all {
		d.all[i] = int32(i)
	}
	slices.SortStableFunc(d.clients, func(a, b client) int {
		switch {
		case a.sum > b.sum:
			return -1
		case a.sum < b.sum:
			return 1
		default:
			return 0
		}
	})
	return d
}

// groupBits is the number of bits of a hash that choose a group. They are not those that choose the identifiers of a sample.
const groupBits = 14

// grouped returns events with those of each identifier together, in their order. It divides them into small groups first: that is several times faster
// than a stable sort of all of them.
func grouped(events []event) []event {
	const groups = 1 << groupBits
	var ends [groups + 1]int // the begin of each group, until its events are added
	for i := range events {
		ends[events[i].hash%groups+1]++
	}
	for i := range groups {
		ends[i+1] += ends[i]
	}
	sorted := make([]event, len(events))
	for i := range events {
		end := &ends[events[i].hash%groups]
		sorted[*end] = events[i]
		*end++
	}
	begin := 0
	for _, end := range ends[:groups] {
		slices.SortStableFunc(sorted[begin:end], func(a, b event) int { return cmp.Compare(a.hash, b.hash) })
		begin = end
	}
	return sorted
}
