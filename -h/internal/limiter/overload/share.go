package overload

import (
	"context"
	"sync/atomic"
)

// Shares divide a bound of the process among its connections, so that one that asks for too much takes nothing away from the others.
type Shares struct{ active atomic.Int64 } // the connections that use something

// Share is what one connection uses.
type Share struct {
	shares *Shares
	used   atomic.Int64
}

// Share returns the Share of a new connection.
func (s *Shares) Share() *Share { return &Share{shares: s} }

// Add changes what the connection uses.
func (s *Share) Add(n int64) {
	switch used := s.used.Add(n); {
	case used == n && n > 0:
		s.shares.active.Add(1)
	case used == 0 && n < 0:
		s.shares.active.Add(-1)
	}
}

// share is the key of the Share in the context of a connection.
type share struct{}

// WithShare returns the context of a connection with that Share.
func WithShare(ctx context.Context, s *Share) context.Context {
	return context.WithValue(ctx, share{}, s)
}

// ShareOf returns the Share of the connection of a request, or nil if WithShare was not called.
func ShareOf(ctx context.Context) *Share {
	s, _ := ctx.Value(share{}).(*Share)
	return s
}

// InProgress returns how many requests the connection of a request has in progress, with their weights. It is 0 for work that no connection has
// requested.
func InProgress(ctx context.Context) int64 {
	if s := ShareOf(ctx); s != nil {
		return s.used.Load()
	}
	return 0
}

// reserve is the part of a bound that a connection can use whatever the others have: those that came first have taken larger parts.
const reserve = 256

// fits reports whether the connection can use n more of a bound that is reached, so that all connections together use total. All connections that use
// something have an equal part of limit, as long as they use at most twice the bound. Beyond, they have the reserve, up to four times the bound.
func (s *Share) fits(n, total, limit, bound int64) bool {
	used, active := s.used.Load(), s.shares.active.Load()
	if used == 0 {
		active++
	}
	equal := max(1, limit/max(1, active))
	if total > 2*bound {
		equal = min(equal, max(1, bound/reserve))
	}
	return used+n <= equal && total <= 4*bound
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

// Take takes n for a connection. It reports whether there is room: in the bound, or else in the part of the connection.
func (p *Pool) Take(s *Share, n int) bool {
	if total := p.used.Load() + int64(n); total > p.bound && !s.fits(int64(n), total, p.bound, p.bound) {
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
