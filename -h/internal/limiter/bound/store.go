package bound

import (
	"context"
	"errors"
	"hash/maphash"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// Above returns a layer that bounds the counters of next. A request with a charge that it moves to a shared counter is decided by shared, which
// decides on the same counters.
func (p *Counters) Above(next, shared limiter.Store) limiter.Store { return &store{next, p, shared} }

// store is the layer of Above.
type store struct {
	limiter.Store

	counters *Counters
	shared   limiter.Store
}

// Spend implements limiter.Store.
func (s *store) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	var usual [8]*population
	populations, isOver := s.counters.populations(usual[:0], charges)
	if isOver {
		if m := s.move(ctx, charges, populations); m != nil {
			decisions, err := s.shared.Spend(ctx, m.charges)
			if err != nil {
				return nil, m.originalError(err)
			}
			decisions = m.original(decisions)
			s.counters.count(m.withoutShared(populations), charges, decisions)
			return decisions, nil
		}
	}
	decisions, err := s.Store.Spend(ctx, charges)
	if err != nil {
		return nil, err
	}
	s.counters.count(populations, charges, decisions)
	return decisions, nil
}

// Peek implements limiter.Store.
func (s *store) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	var usual [8]*population
	populations, isOver := s.counters.populations(usual[:0], charges)
	if isOver {
		if m := s.move(ctx, charges, populations); m != nil {
			decisions, err := s.shared.Peek(ctx, m.charges)
			if err != nil {
				return nil, m.originalError(err)
			}
			return m.original(decisions), nil
		}
	}
	return s.Store.Peek(ctx, charges)
}

// populations appends the populations of the counters of charges, nil for those without, and reports whether one of them is over the bound.
func (p *Counters) populations(appended []*population, charges []limiter.Charge) (populations []*population, isOver bool) {
	for i := range charges {
		one := p.population(&charges[i])
		appended = append(appended, one)
		isOver = isOver || one != nil && one.isOver(p.clock)
	}
	return appended, isOver
}

// count adds the counters to which units were charged to their populations. Requests that are denied make no counter, so that they cannot bring
// a rule over the bound.
func (p *Counters) count(populations []*population, charges []limiter.Charge, decisions []limiter.Decision) {
	passed := true
	for i := range charges {
		passed = passed && (decisions[i].Allowed || charges[i].Shadow)
	}
	for i := range charges {
		c := &charges[i]
		isCounted := c.CountsAlways() || passed && c.Cost > 0 && decisions[i].Allowed
		if populations[i] != nil && isCounted && c.IsCounted(&decisions[i]) {
			populations[i].add(maphash.String(p.seed, c.Key), p.clock)
		}
	}
}

// moved is a request of which some charges are on shared counters.
type moved struct {
	charges  []limiter.Charge // with distinct keys
	indexes  []int            // in charges, of those of the request
	isShared []bool           // of those of the request
}

// move moves the charges of new identifiers of rules that are over the bound to the shared counters of the rules. It returns nil if no identifier is new.
// One peek finds which identifiers are new. If it fails, all keep their counters: local mode has a bound of its own.
func (s *store) move(ctx context.Context, charges []limiter.Charge, populations []*population) *moved {
	var peeks []limiter.Charge
	var indexes []int
	for i := range charges {
		if c := &charges[i]; populations[i] != nil && populations[i].isOver(s.counters.clock) {
			peeks = append(peeks, limiter.Charge{Key: c.Key, Limit: c.Limit, OnStoreFailure: limiter.AllowOnFailure})
			indexes = append(indexes, i)
		}
	}
	decisions, err := s.Store.Peek(ctx, peeks)
	if err != nil {
		return nil
	}
	isNew, found := make([]bool, len(charges)), false
	for i, d := range decisions {
		if d.ResetAfter == 0 && d.Origin == limiter.OriginStore {
			isNew[indexes[i]], found = true, true
		}
	}
	if !found {
		return nil
	}
	return s.counters.moveNew(charges, isNew)
}

func (p *Counters) moveNew(charges []limiter.Charge, isNew []bool) *moved {
	m := &moved{isShared: isNew}
	for i, c := range charges {
		if isNew[i] {
			c.Key, c.Lease, c.Placeholder = c.SharedKey(), nil, true
			if p.bound.Deny && c.Cost > 0 {
				c.Deny, c.Debt = true, false
			}
		}
		m.add(c)
	}
	return m
}

// add adds a charge of the request. Charges on one shared counter become one, with the sum of their costs or that of the highest alternative.
func (m *moved) add(c limiter.Charge) {
	for i := range m.charges {
		other := &m.charges[i]
		if other.Key != c.Key {
			continue
		}
		if c.Alternative {
			other.Cost = max(other.Cost, c.Cost)
		} else {
			other.Cost += c.Cost
		}
		m.indexes = append(m.indexes, i)
		return
	}
	m.indexes, m.charges = append(m.indexes, len(m.charges)), append(m.charges, c)
}

// original returns the decisions about the charges of the request.
func (m *moved) original(decisions []limiter.Decision) []limiter.Decision {
	original := make([]limiter.Decision, len(m.indexes))
	for i, index := range m.indexes {
		original[i] = decisions[index]
		original[i].Shared = m.isShared[i]
	}
	return original
}

// originalError returns an error about the moved charges as one about the charges of the request.
func (m *moved) originalError(err error) error {
	if refused, ok := errors.AsType[*limiter.RefusedError](err); ok {
		for i, index := range m.indexes {
			if index == refused.Charge {
				return &limiter.RefusedError{Charge: i, Cause: refused.Cause}
			}
		}
	}
	if partial, ok := errors.AsType[*limiter.PartialError](err); ok {
		return &limiter.PartialError{Decisions: m.original(partial.Decisions), Cause: partial.Cause}
	}
	return err
}

// withoutShared replaces the populations of charges on shared counters by nil.
func (m *moved) withoutShared(populations []*population) []*population {
	for i := range populations {
		if m.isShared[i] {
			populations[i] = nil
		}
	}
	return populations
}
