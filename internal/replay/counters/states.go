package counters

import "github.com/weir-dev/weir/limiter"

// States are the counters of the entries of a Table under another limit.
type States struct {
	limit  limiter.Limit
	chunks [][]limiter.Packed
	logs   []limiter.State
	sweep  int        // the log that is checked next
	seen   [][]uint64 // a bit for each entry, in chunks
	denied [][]uint64
	// The memory of one call.
	charges   [1]limiter.Charge
	states    [1]limiter.State
	decisions []limiter.Decision

	// Identifiers that were charged under the limit.
	Identifiers int64
	// Requests and identifiers that it would have denied.
	DeniedRequests, DeniedIdentifiers int64
}

// NewStates returns the states under a limit.
func NewStates(limit limiter.Limit) *States { return &States{limit: limit} }

// Limit is that of the states.
func (s *States) Limit() limiter.Limit { return s.limit }

// Spend decides a charge of an entry under the limit of s, and counts it if it is allowed.
func (s *States) Spend(number int, c *limiter.Charge, now limiter.Instant) {
	s.charges[0], s.states[0] = *c, s.load(number)
	s.charges[0].Limit = s.limit
	s.decisions = limiter.SpendInto(s.decisions, now, s.charges[:], s.states[:])
	s.store(number, s.states[0], now)
	if mark(s.seen, number) {
		s.Identifiers++
	}
	if s.decisions[0].Allowed {
		return
	}
	s.DeniedRequests++
	if mark(s.denied, number) {
		s.DeniedIdentifiers++
	}
}

// mark sets the bit of an entry, and reports whether it was not set.
func mark(bits [][]uint64, number int) (first bool) {
	word, bit := &bits[number>>chunkBits][number&chunkMask/64], uint64(1)<<(number%64)
	first = *word&bit == 0
	*word |= bit
	return first
}

func (s *States) load(number int) limiter.State {
	for number>>chunkBits >= len(s.denied) {
		s.denied, s.seen = append(s.denied, make([]uint64, chunkSize/64)), append(s.seen, make([]uint64, chunkSize/64))
		if s.limit.Packs() {
			s.chunks = append(s.chunks, make([]limiter.Packed, chunkSize))
		} else {
			s.logs = append(s.logs, make([]limiter.State, chunkSize)...)
		}
	}
	if s.limit.Packs() {
		return s.chunks[number>>chunkBits][number&chunkMask].Unpack(s.limit)
	}
	if state := s.logs[number]; state != nil {
		return state
	}
	return s.limit.NewState()
}

func (s *States) store(number int, state limiter.State, now limiter.Instant) {
	if s.limit.Packs() {
		s.chunks[number>>chunkBits][number&chunkMask] = limiter.Pack(state)
		return
	}
	if state.Expires(s.limit) <= now {
		state = nil
	}
	s.logs[number] = state
	s.sweep = sweep(s.logs, s.sweep, s.limit, now)
}

// Logs is [Table.Logs].
func (s *States) Logs() int { return live(s.logs) }
