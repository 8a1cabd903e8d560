package lease

import (
	"context"
	"slices"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// retryAfter is the part, 1/retryAfter, of the maximum age to wait after the store did not grant a lease.
const retryAfter = 4

// Borrow returns a layer that leases units of the counters that need them, in the calls of next that decide requests.
func (l *Leases) Borrow(next limiter.Store) limiter.Store { return &borrows{next, l} }

// borrows is the layer of Borrow.
type borrows struct {
	limiter.Store

	leases *Leases
}

// Spend implements limiter.Store.
func (s *borrows) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if slices.ContainsFunc(charges, isExact) {
		return s.Store.Spend(ctx, charges)
	}
	l := s.leases
	p := l.plan(charges, l.toInstant(l.clock()))
	if p.enlarged == nil {
		decisions, err := s.Store.Spend(ctx, charges)
		p.observe(decisions)
		return decisions, err
	}
	decisions, err := s.Store.Spend(ctx, p.enlarged)
	if err != nil {
		p.abandon(l)
		return nil, err
	}
	return s.settleAll(ctx, &p, decisions)
}

// isExact reports whether a charge must be spent on its own. A queue has one order of turns, which replicas cannot divide.
func isExact(c limiter.Charge) bool {
	return c.Lease == nil || c.Limit.Traits().Queues
}

// plan is what one call of the store leases.
type plan struct {
	charges  []limiter.Charge
	enlarged []limiter.Charge // charges with the units to lease; nil without leases
	entries  []*entry         // of charges; nil: not busy
	sizes    []int64          // units to lease with charges
	began    instant
}

func (l *Leases) plan(charges []limiter.Charge, began instant) plan {
	p := plan{charges: charges, entries: make([]*entry, len(charges)), began: began}
	for i := range charges {
		c := &charges[i]
		e := l.entryOf(c, began)
		p.entries[i] = e
		if e == nil || l.remote.Unavailable(c.Key) {
			continue
		}
		size := e.plan(l, c, began)
		if size == 0 {
			continue
		}
		if p.enlarged == nil {
			p.enlarged, p.sizes = slices.Clone(charges), make([]int64, len(charges))
		}
		p.enlarged[i].Cost, p.sizes[i] = c.Units()+size, size
	}
	return p
}

// observe records decisions about the charges without leases.
func (p *plan) observe(decisions []limiter.Decision) {
	for i := range decisions {
		if e := p.entries[i]; e != nil {
			e.observe(decisions[i])
		}
	}
}

// abandon settles the plan without leases.
func (p *plan) abandon(l *Leases) {
	for i, size := range p.sizes {
		if size > 0 {
			l.settle(p.entries[i], nil, p.began.add(p.charges[i].Lease.MaxAge/retryAfter))
		}
	}
}

// settleAll turns the decisions about a plan's charges, with the leases, to decisions about the charges.
func (s *borrows) settleAll(ctx context.Context, p *plan, decisions []limiter.Decision) ([]limiter.Decision, error) {
	counted, refused := true, false // whether the store has counted; whether it has denied a charge with a lease
	for i := range decisions {
		d := &decisions[i]
		counted = counted && (d.Allowed || p.charges[i].Shadow)
		refused = refused || p.sizes[i] > 0 && !d.Allowed && d.Origin != limiter.Undecided
	}
	if !counted {
		p.abandon(s.leases)
		if refused { // perhaps because of the lease
			var err error
			if decisions, err = s.Store.Spend(ctx, p.charges); err != nil {
				return nil, err
			}
		}
		p.observe(decisions)
		return decisions, nil
	}
	l := s.leases
	answered := l.toInstant(l.clock())
	for i := range decisions {
		e, size := p.entries[i], p.sizes[i]
		switch {
		case size == 0:
			p.observeOne(i, decisions[i])
		case !decisions[i].Allowed: // a shadow charge, which did not keep the others from being counted
			l.settle(e, nil, p.began.add(p.charges[i].Lease.MaxAge/retryAfter))
			if alone, err := s.Store.Spend(ctx, p.charges[i:i+1]); err == nil { // otherwise the shadow charge stays denied
				decisions[i] = alone[0]
				e.observe(alone[0])
			}
		default:
			l.settle(e, l.newHeld(p, i, decisions[i], answered), 0)
			decisions[i].Remaining += size
		}
	}
	return decisions, nil
}

func (p *plan) observeOne(i int, d limiter.Decision) {
	if e := p.entries[i]; e != nil {
		e.observe(d)
	}
}

// newHeld returns the lease that charge i of the plan has made. It is nil if nothing was counted.
func (l *Leases) newHeld(p *plan, i int, d limiter.Decision, answered instant) *held {
	c := &p.charges[i]
	if d.Origin != limiter.OriginStore && c.OnStoreFailure != limiter.LocalOnFailure {
		return nil
	}
	age := c.Lease.MaxAge
	if rest, aligned := untilWindowEnds(c.Limit, d.At); aligned {
		age = min(age, rest)
	}
	h := &held{
		key: c.Key, limit: c.Limit, size: p.sizes[i], countedAt: d.At, remaining: d.Remaining, returnable: d.Origin == limiter.OriginStore,
		began: p.began, expiresAt: p.began.add(age), resetAt: answered.add(min(d.ResetAfter, limiter.MaxDrain)),
	}
	h.units.Store(h.size)
	l.metrics.leased.Add(h.size)
	return h
}
