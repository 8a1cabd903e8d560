package replay

import (
	"github.com/weir-dev/weir/internal/replay/counters"
	"github.com/weir-dev/weir/internal/replay/demand"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// tally is what a replay finds out about a rule.
type tally struct {
	rule     *matching.Compiled
	column   int // of the timeline
	table    *counters.Table
	variants []*counters.States // the counters under other limits
	sample   *demand.Sample
	window   limiter.Instant

	allowed, denied, uncharged int64
	fallback                   int64 // requests that are counted by a fallback
	deniedIdentifiers          int64
	first, last                limiter.Instant // denial
	peak                       peak
	minute, hour               busiest
	hours                      [24]result.Cell
	tiers                      []result.Cell // as in the rule, and those without a tier
	top                        *top
}

// peak is the largest part of a limit that was used.
type peak struct {
	used, capacity int64
	identifier     string
	at             limiter.Instant
}

func newTally(rule *matching.Compiled, column int, o *Options) (*tally, error) {
	t := &tally{
		rule: rule, column: column, table: counters.NewTable(rule.Limit), window: limiter.Instant(rule.Limit.Window().Microseconds()),
		minute: busiest{length: 60}, hour: busiest{length: 3600}, tiers: make([]result.Cell, len(rule.Tiers)+1), top: newTop(),
		sample: demand.NewSample(o.Sample),
	}
	if rule.TiersOnly {
		return t, nil
	}
	for _, units := range o.Limits {
		limit, err := demand.WithUnits(rule.Limit, units)
		if err != nil {
			return nil, err
		}
		t.variants = append(t.variants, counters.NewStates(limit.NoDelay()))
	}
	return t, nil
}

// count counts a decision about a charge of a plan. number is that of the entry of its counter.
func (t *tally) count(p *plan, charge, number int, d *limiter.Decision, allowed bool, now limiter.Instant) {
	c, tier := p.Charge(charge), p.Tier(charge)
	entry := t.table.Entry(number)
	units := int64(1) // a charge that is denied without a counter has no cost
	if !c.Deny {
		units = c.Units()
	}
	entry.Ask(uint32(now/t.window), units)
	denied := !d.Allowed
	switch {
	case denied:
		t.deny(entry, number, p.Identifier(charge), now)
	case allowed:
		t.allowed++
	default:
		t.uncharged++
	}
	if len(t.rule.Fallbacks) > 0 {
		if _, prefix := t.rule.SourceOf(p.Identifier(charge)); prefix > 0 {
			t.fallback++
		}
	}
	t.minute.count(now, denied)
	t.hour.count(now, denied)
	count(&t.hours[int64(now/1e6)/3600%24], denied)
	count(&t.tiers[t.tier(tier)], denied)
	if c.Deny {
		return
	}
	if capacity := c.Limit.Capacity(); t.peak.isBelow(capacity-d.Remaining, capacity) {
		t.peak = peak{capacity - d.Remaining, capacity, clip(p.Identifier(charge)), now}
	}
	if tier == "" {
		for _, v := range t.variants {
			v.Spend(number, c, now)
		}
		t.sample.Add(entry.Hash, now, units)
	}
}

func (t *tally) deny(entry *counters.Entry, number int, identifier string, now limiter.Instant) {
	if t.denied == 0 {
		t.first = now
	}
	t.last = now
	t.denied++
	if entry.Deny(now) {
		t.deniedIdentifiers++
	}
	t.top.set(number, entry.Denied, identifier)
}

// tier returns the index of a tier in t.tiers.
func (t *tally) tier(name string) int {
	if name != "" {
		for i := range t.rule.Tiers {
			if t.rule.Tiers[i].Name == name {
				return i
			}
		}
	}
	return len(t.rule.Tiers)
}

// isBelow reports whether another use is a larger part of its limit.
func (p *peak) isBelow(used, capacity int64) bool { return used*max(p.capacity, 1) > p.used*capacity }
