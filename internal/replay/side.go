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
	numbers   []int // of the entries of the charges of a request
	ofResults []int // of the entries of its results
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

// plan is a plan with the hashes of its keys.
type plan struct {
	engine.Plan

	hashes []uint64
}

// match matches requests.
func (s *side) match(ctx context.Context, p *plan, checks []engine.Check) error {
	if err := s.engine.Plan(ctx, &p.Plan, checks); err != nil {
		return err
	}
	p.hashes = p.hashes[:0]
	for i := range p.Len() {
		p.hashes = append(p.hashes, counters.HashOf(p.Charge(i).Key))
	}
	return nil
}

// outcome is the decision about a request.
type outcome struct {
	results []engine.Result // valid until the next request
	numbers []int           // of the entries of the results; valid until the next request
	allowed bool
}

// decide decides request i of a plan.
func (s *side) decide(ctx context.Context, p *plan, i int, now limiter.Instant) (outcome, error) {
	s.timeline.advance(now)
	s.store.Begin(now)
	s.numbers = s.numbers[:0]
	begin, end := p.Request(i)
	for c := begin; c < end; c++ {
		s.numbers = append(s.numbers, s.store.Find(s.tallies[p.Rule(c)].table, p.Charge(c).Key, p.hashes[c]))
	}
	results, allowed, err := s.engine.Decide(ctx, &p.Plan, i)
	if err != nil {
		return outcome{}, err
	}
	shadowDenied := false
	s.ofResults = s.ofResults[:0]
	for j := range results {
		r := &results[j]
		c := begin + s.place(p, begin, end, j, r.Key)
		shadowDenied = shadowDenied || r.Rule.Shadow && !r.Allowed
		t := s.tallies[r.Rule]
		number := s.numbers[c-begin]
		s.ofResults = append(s.ofResults, number)
		t.count(p.Charge(c), number, r, allowed, now)
		s.timeline.count(t.column+1, !r.Allowed)
	}
	s.total.Requests++
	if len(results) > 0 {
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
	return outcome{results, s.ofResults, allowed}, nil
}

// place returns the index of the charge with the key of a result, among those of its request. The results are usually in the order of the charges.
func (s *side) place(p *plan, begin, end, guess int, key string) int {
	for range end - begin {
		if guess >= end-begin {
			guess = 0
		}
		if p.Charge(begin+guess).Key == key {
			return guess
		}
		guess++
	}
	panic("replay: the engine decided a charge that the request does not have")
}

// bytes is the approximate memory of the counters.
func (s *side) bytes() (sum int) {
	for _, t := range s.order {
		sum += t.table.Bytes() * (1 + len(t.variants)/2)
	}
	return sum
}
