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
	// Keyless leaves out the keys of charges, for a Store that knows the counters of a request by the order of its charges: it saves an allocation for
	// each. KeyText has the keys. The charges have keys nevertheless if one of their request is denied without a counter.
	Keyless bool

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
	s.keyless, s.keys = p.Keyless, s.keys[:0]
	p.active.matchAll(ctx, s, checks)
	if isBlocked, _ := blocked(s.charged); isBlocked && p.Keyless {
		p.setKeysOfBlocked()
	}
	return nil
}

// setKeysOfBlocked sets the keys of the requests that are denied without a counter: the Store decides only some of their charges.
func (p *Plan) setKeysOfBlocked() {
	for i := range p.scratch.ends {
		begin, end := p.Request(i)
		if isBlocked, _ := blocked(p.scratch.charged[begin:end]); isBlocked {
			for number := begin; number < end; number++ {
				p.setKey(number)
			}
		}
	}
}

// setKey sets the key of a charge.
func (p *Plan) setKey(number int) {
	if c := &p.scratch.charged[number]; c.charge.Key == "" {
		c.charge.Key = string(p.scratch.keys[c.keyBegin:c.keyEnd])
	}
}

// KeyText returns the key of a charge, also if the charge itself has no key. It is valid until p is used again.
func (p *Plan) KeyText(number int) []byte {
	c := &p.scratch.charged[number]
	if c.charge.Key != "" {
		return []byte(c.charge.Key)
	}
	return p.scratch.keys[c.keyBegin:c.keyEnd]
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

// Charge returns a charge. The caller must not change it.
func (p *Plan) Charge(number int) *limiter.Charge { return &p.scratch.charged[number].charge }

// Rule returns the rule that makes a charge.
func (p *Plan) Rule(number int) *matching.Compiled { return p.scratch.charged[number].rule }

// Tier is that of a charge, "" if no tier applies.
func (p *Plan) Tier(number int) string { return p.scratch.charged[number].tier }

// Identifier is that of a charge, as answers show it.
func (p *Plan) Identifier(number int) string { return p.scratch.charged[number].identifier }

// Decide decides request i, and charges it unless peek is set. It returns the decision about each of its charges, in their order, and whether the
// request is allowed. There are no decisions if no rule limits the request. Undecided ones are not among the results of Check.
func (e *Engine) Decide(ctx context.Context, p *Plan, i int, peek bool) (decisions []limiter.Decision, isAllowed bool, err error) {
	begin, end := p.Request(i)
	if begin == end {
		return nil, true, nil
	}
	s, charged := &p.scratch, p.scratch.charged[begin:end]
	if isBlocked, _ := blocked(charged); isBlocked {
		decisions, err = e.decideBlocked(ctx, p, charged, peek)
	} else {
		s.charges = s.charges[:0]
		for j := range charged {
			s.charges = append(s.charges, charged[j].charge)
		}
		ask := e.store.Spend
		if peek {
			ask = e.store.Peek
		}
		decisions, err = ask(ctx, s.charges)
	}
	if err != nil {
		return nil, false, err
	}
	isAllowed = true
	for j := range decisions {
		d := &decisions[j]
		isAllowed = isAllowed && (d.Allowed || d.Origin == limiter.Undecided || charged[j].charge.Shadow)
	}
	return decisions, isAllowed, nil
}

// decideBlocked decides a request that is denied without a counter by one of its charges, as check does.
func (e *Engine) decideBlocked(ctx context.Context, p *Plan, charged []ruleCharge, peek bool) ([]limiter.Decision, error) {
	results, err := e.decide(ctx, p.active, &p.scratch, charged, peek)
	if err != nil {
		return nil, err
	}
	decisions := make([]limiter.Decision, len(charged))
	for i := range decisions {
		decisions[i].Origin = limiter.Undecided
	}
	for i := range results {
		decisions[indexOfKey(charged, results[i].Key)] = results[i].Decision
	}
	return decisions, nil
}

// Result returns the decision about a charge as [Engine.Check] returns it.
func (e *Engine) Result(p *Plan, number int, d *limiter.Decision) Result {
	p.setKey(number)
	c := &p.scratch.charged[number]
	source := e.sourceOf(d)
	if c.charge.Deny {
		source = SourceNone
	}
	return c.addResult(nil, d, source)[0]
}
