package counters

import "github.com/weir-dev/weir/limiter"

// States are the counters of the entries of a Table under another limit.
type States struct {
	limit  limiter.Limit
	chunks [][]limiter.Packed
	logs   []limiter.State
	denied [][]uint64 // a bit for each entry, in chunks

	DeniedRequests, DeniedIdentifiers int64
}

// NewStates returns the states under a limit.
func NewStates(limit limiter.Limit) *States { return &States{limit: limit} }

// Limit is that of the states.
func (s *States) Limit() limiter.Limit { return s.limit }

// Spend decides a charge of an entry under the limit of s, and counts it if it is allowed.
func (s *States) Spend(number int, c *limiter.Charge, now limiter.Instant) {
	charges := [1]limiter.Charge{*c}
	charges[0].Limit = s.limit
	state := s.load(number)
	decision := limiter.Spend(now, charges[:], []limiter.State{state})[0]
	s.store(number, state, now)
	if decision.Allowed {
		return
	}
	s.DeniedRequests++
	if bits, bit := &s.denied[number>>chunkBits][number&chunkMask/64], uint64(1)<<(number%64); *bits&bit == 0 {
		*bits |= bit
		s.DeniedIdentifiers++
	}
}

func (s *States) load(number int) limiter.State {
	for number>>chunkBits >= len(s.denied) {
		s.denied = append(s.denied, make([]uint64, chunkSize/64))
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
	switch {
	case s.limit.Packs():
		s.chunks[number>>chunkBits][number&chunkMask] = limiter.Pack(state)
	case state.Expires(s.limit) <= now:
		s.logs[number] = nil
	default:
		s.logs[number] = state
	}
}
