package overload

import "sync/atomic"

// Shares divide a bound of the process among its connections, so that one that asks for too much takes nothing away from the others.
type Shares struct{ active atomic.Int64 } // the connections that use something

// Share is what one connection uses.
type Share struct {
	of   *Shares
	used atomic.Int64
}

// Share returns the Share of a new connection.
func (s *Shares) Share() *Share { return &Share{of: s} }

// Add changes what the connection uses.
func (s *Share) Add(n int64) {
	switch after := s.used.Add(n); {
	case after == n && n > 0:
		s.of.active.Add(1)
	case after == 0 && n < 0:
		s.of.active.Add(-1)
	}
}

// Fits reports whether the connection can use n more of a bound that is reached. All connections that use something have the same part of it, at least
// 1: together they use at most the bound, as long as it is more than their number.
func (s *Share) Fits(n, bound int64) bool {
	used, active := s.used.Load(), s.of.active.Load()
	if used == 0 {
		active++
	}
	return used+n <= max(1, bound/max(1, active))
}

// Pool is a bound of the process, for example of bytes.
type Pool struct {
	bound  int64
	used   atomic.Int64
	shares Shares
}

// NewPool returns a Pool.
func NewPool(bound int64) *Pool { return &Pool{bound: bound} }

// Share returns the Share of a new connection.
func (p *Pool) Share() *Share { return p.shares.Share() }

// Take takes n for a connection. It reports whether there is room: in the bound, or else in the part of the connection, which has room up to twice the
// bound.
func (p *Pool) Take(s *Share, n int) bool {
	if after := p.used.Load() + int64(n); after > p.bound && (after > 2*p.bound || !s.Fits(int64(n), p.bound)) {
		return false
	}
	p.used.Add(int64(n))
	s.Add(int64(n))
	return true
}

// Used returns what all connections have taken.
func (p *Pool) Used() int64 { return p.used.Load() }

// Give gives n back.
func (p *Pool) Give(s *Share, n int) {
	p.used.Add(-int64(n))
	s.Add(-int64(n))
}
