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
	slots  []slot          // of the request
	states []limiter.State // of one call
	at     []int           // the slots of its charges
}

type slot struct {
	key    string
	table  *Table
	number int
}

// seed is that of all hashes. It is random, so that no one can write a log whose identifiers share counters.
var seed = maphash.MakeSeed() //nolint:gochecknoglobals // constant after the start

// HashOf returns the hash of a key.
func HashOf(key string) uint64 { return maphash.String(seed, key) }

// Begin begins a request at a time.
func (s *Store) Begin(now limiter.Instant) { s.now, s.slots = now, s.slots[:0] }

// Find returns the number of the entry of a charge of the request in its table, and its number for Entry.
func (s *Store) Find(table *Table, key string, hash uint64) (number int) {
	number = table.Find(hash)
	s.slots = append(s.slots, slot{key, table, number})
	return number
}

// find returns the index of the slot with the key. The slots are usually in the order of the charges.
func (s *Store) find(key string, guess int) int {
	for range s.slots {
		if guess >= len(s.slots) {
			guess = 0
		}
		if s.slots[guess].key == key {
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
		s.states = append(s.states, s.slots[at].table.state(s.slots[at].number, charges[i].Limit))
	}
	return nil
}

// Spend implements limiter.Store. It fails only for charges without an entry.
func (s *Store) Spend(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.load(charges); err != nil {
		return nil, err
	}
	decisions := limiter.Spend(s.now, charges, s.states)
	for i := range charges {
		of := &s.slots[s.at[i]]
		of.table.put(of.number, charges[i].Limit, s.states[i], s.now)
	}
	return decisions, nil
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
