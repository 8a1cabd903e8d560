package replay

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/replay/counters"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// side is one set of policies, with its counters. A replay that compares has two.
type side struct {
	engine   *engine.Engine
	store    *counters.Store
	registry *prometheus.Registry
	index    *matching.Index
	tallies  map[*matching.Compiled]*tally
	order    []*tally // by name
	timeline *timeline
	total    result.Total
	// isOrdered is true if what a request matches depends on the requests before it: they are then matched in their order.
	isOrdered bool
}

// newSide returns a side. Its key spaces are those of no limiter, so the prefix has no meaning.
func newSide(set rules.Set, o *Options, clock *recordedClock) (*side, error) {
	index, err := matching.NewIndex(set, "", "", matching.WithHashKey(o.HashKey))
	if err != nil {
		return nil, err
	}
	index.UseClock(clock.now)
	s := &side{store: &counters.Store{}, registry: prometheus.NewRegistry(), index: index, tallies: map[*matching.Compiled]*tally{}}
	s.engine = engine.New(s.store, engine.SourceMemory, engine.NewMetrics(s.registry))
	s.engine.Swap(index)
	for rule := range index.Rules() {
		t, err := newTally(rule, len(s.order), o)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", rule.Policy, err)
		}
		s.tallies[rule] = t
		s.order = append(s.order, t)
		s.isOrdered = s.isOrdered || rule.CountsPaths()
	}
	s.timeline = newTimeline(len(s.order) + 1)
	return s, nil
}

// plan is a plan with the counters of its charges, and the tallies of its rules.
type plan struct {
	engine.Plan

	slots   []counters.Slot
	tallies []*tally
}

// find finds the counters of the charges.
func (p *plan) find() { counters.Find(p.slots) }

// match matches requests.
func (s *side) match(ctx context.Context, p *plan, checks []engine.Check) error {
	p.Keyless = true
	if err := s.engine.Plan(ctx, &p.Plan, checks); err != nil {
		return err
	}
	p.slots, p.tallies = p.slots[:0], p.tallies[:0]
	for i := range p.Len() {
		t := s.tallies[p.Rule(i)]
		p.slots = append(p.slots, counters.Slot{Key: p.Charge(i).Key, Hash: counters.HashOf(p.KeyText(i)), Table: t.table})
		p.tallies = append(p.tallies, t)
	}
	return nil
}

// outcome is the decision about a request. It is valid until the next one.
type outcome struct {
	plan      *plan
	begin     int                // the number of the first charge
	decisions []limiter.Decision // about its charges
	slots     []counters.Slot    // their counters
	allowed   bool
}

// results returns the results as a limiter has them, in no particular order.
func (o *outcome) results(e *engine.Engine) []engine.Result {
	results := make([]engine.Result, 0, len(o.decisions))
	for i := range o.decisions {
		if o.decisions[i].Origin == limiter.Undecided {
			continue
		}
		results = append(results, e.Result(&o.plan.Plan, o.begin+i, &o.decisions[i]))
	}
	return results
}

// decide decides request i of a plan, whose counters have been found.
func (s *side) decide(ctx context.Context, p *plan, i int, now limiter.Instant, peek bool) (outcome, error) {
	s.timeline.advance(now)
	begin, end := p.Request(i)
	slots := p.slots[begin:end]
	s.store.Begin(now, slots)
	decisions, allowed, err := s.engine.Decide(ctx, &p.Plan, i, peek)
	if err != nil {
		return outcome{}, err
	}
	shadowDenied := false
	for j := range decisions {
		d, t := &decisions[j], p.tallies[begin+j]
		if d.Origin == limiter.Undecided {
			continue
		}
		shadowDenied = shadowDenied || !d.Allowed && t.rule.Shadow
		t.count(p, begin+j, slots[j].Number, d, allowed, now)
		s.timeline.count(t.column+1, !d.Allowed)
	}
	s.total.Requests++
	if len(decisions) > 0 {
		s.total.Matched++
	}
	if !allowed {
		s.total.Denied++
	}
	if shadowDenied {
		s.total.ShadowDenied++
	}
	if shadowDenied || !allowed {
		s.total.DeniedByAny++
	}
	s.timeline.count(0, !allowed)
	return outcome{p, begin, decisions, slots, allowed}, nil
}

// bytes is the approximate memory of the counters.
func (s *side) bytes() (sum int) {
	for _, t := range s.order {
		sum += t.table.Bytes() * (1 + len(t.variants)/2)
	}
	return sum
}
