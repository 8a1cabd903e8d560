package engine

import (
	"context"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// Plan has what some requests are charged, before they are decided. A program that replays recorded requests matches them on all processors, and decides
// them one after another in the order of their times. A request is decided as [Engine.Check] does it, but in no metrics of decisions, and without an
// Observer. A Plan is not safe for concurrent use. It can be used again.
type Plan struct {
	active  *active
	scratch scratch
}

// Plan makes p that of checks, which must not change while p is used. It is safe for concurrent use with different plans. An error is ErrNoRules.
func (e *Engine) Plan(ctx context.Context, p *Plan, checks []Check) error {
	p.active = e.active.Load()
	if p.active == nil {
		return ErrNoRules
	}
	s := &p.scratch
	s.charged, s.ends, s.bypassed = s.charged[:0], s.ends[:0], s.bypassed[:0]
	p.active.matchAll(ctx, s, checks)
	return nil
}

// Request returns the numbers of the charges of request i: from begin up to end, exclusive.
func (p *Plan) Request(i int) (begin, end int) {
	if i > 0 {
		begin = p.scratch.ends[i-1]
	}
	return begin, p.scratch.ends[i]
}

// Len is the number of charges of all requests.
func (p *Plan) Len() int { return len(p.scratch.charged) }

// Charge returns a charge, and Rule the rule that makes it. The caller must not change them.
func (p *Plan) Charge(number int) *limiter.Charge { return &p.scratch.charged[number].charge }

// Rule returns the rule that makes a charge.
func (p *Plan) Rule(number int) *matching.Compiled { return p.scratch.charged[number].rule }

// Tier is that of a charge, "" if no tier applies.
func (p *Plan) Tier(number int) string { return p.scratch.charged[number].tier }

// Identifier is that of a charge, as answers show it.
func (p *Plan) Identifier(number int) string { return p.scratch.charged[number].identifier }

// Decide decides request i, and charges it. The results have no particular order, and are valid until the next call. There are no results if no rule
// limits the request. It returns whether the request is allowed.
func (e *Engine) Decide(ctx context.Context, p *Plan, i int) (results []Result, isAllowed bool, err error) {
	begin, end := p.Request(i)
	if begin == end {
		return nil, true, nil
	}
	results, err = e.decide(ctx, p.active, &p.scratch, p.scratch.charged[begin:end], false)
	if err != nil {
		return nil, false, err
	}
	isAllowed = true
	for j := range results {
		isAllowed = isAllowed && (results[j].Allowed || results[j].Rule.Shadow)
	}
	return results, isAllowed, nil
}
