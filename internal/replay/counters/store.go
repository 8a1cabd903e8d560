package counters

import (
	"context"
	"errors"
	"hash/maphash"

	"github.com/weir-dev/weir/limiter"
)

// Store is a [limiter.Store] at the time of recorded requests. The caller sets the time, and finds the entries of a request before it decides it. It is
// not safe for concurrent use.
type Store struct {
	now    limiter.Instant
	slots  []Slot          // of the request
	states []limiter.State // of one call
	at     []int           // the slots of its charges
	// decisions are those of the last call.
	decisions []limiter.Decision
}

// Slot is the counter of a charge. The charges of a call that have no keys are those of the slots, in their order.
type Slot struct {
	Key    string // as in the charge
	Hash   uint64 // of the key
	Table  *Table
	Number int // of its entry in the table
}

// Find sets the numbers of slots, and adds the entries that are new. It finds the counters of many requests together, step by step: each is far from the
// others in memory, and a processor waits for several of them at the same time if no decision depends on the one before.
func Find(slots []Slot) {
	for i := range slots {
		slots[i].Number = slots[i].Table.guess(slots[i].Hash)
	}
	for i := range slots {
		if s := &slots[i]; s.Number >= 0 && s.Table.Entry(s.Number).Hash != s.Hash {
			s.Number = -1
		}
	}
	for i := range slots {
		if s := &slots[i]; s.Number < 0 {
			s.Number = s.Table.Find(s.Hash)
		}
	}
}

// seed is that of all hashes. It is random, so that no one can write a log whose identifiers share counters.
var seed = maphash.MakeSeed() //nolint:gochecknoglobals // constant after the start

// HashOf returns the hash of a key.
func HashOf(key []byte) uint64 { return maphash.Bytes(seed, key) }

// Begin begins a request at a time. The slots are those of its charges, with their numbers.
func (s *Store) Begin(now limiter.Instant, slots []Slot) { s.now, s.slots = now, slots }

// find returns the index of the slot with the key. The slots are usually in the order of the charges.
func (s *Store) find(key string, guess int) int {
	for range s.slots {
		if guess >= len(s.slots) {
			guess = 0
		}
		if s.slots[guess].Key == key {
			return guess
		}
		guess++
	}
	return -1
}

var errUnknown = errors.New("replay: a charge has a key that the request does not have")

// load finds the states of charges.
func (s *Store) load(charges []limiter.Charge) error {
	s.states, s.at = s.states[:0], s.at[:0]
	for i := range charges {
		at := s.find(charges[i].Key, i)
		if at < 0 {
			return errUnknown
		}
		s.at = append(s.at, at)
		s.states = append(s.states, s.slots[at].Table.state(s.slots[at].Number, charges[i].Limit))
	}
	return nil
}

// Spend implements limiter.Store. It fails only for charges without an entry. The decisions are valid until the next call.
func (s *Store) Spend(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.load(charges); err != nil {
		return nil, err
	}
	s.decisions = limiter.SpendInto(s.decisions, s.now, charges, s.states)
	for i := range charges {
		of := &s.slots[s.at[i]]
		of.Table.put(of.Number, charges[i].Limit, s.states[i], s.now)
	}
	return s.decisions, nil
}

// Peek implements limiter.Store. It fails only for charges without an entry.
func (s *Store) Peek(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.load(charges); err != nil {
		return nil, err
	}
	return limiter.Peek(s.now, charges, s.states), nil
}

// Refund implements limiter.Store. It is an error: no recorded request is refunded.
func (s *Store) Refund(context.Context, []limiter.Refund) error { return errors.ErrUnsupported }

// Reset implements limiter.Store. It is an error: no recorded request resets a counter.
func (s *Store) Reset(context.Context, []string, string) error { return errors.ErrUnsupported }
