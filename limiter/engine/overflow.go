package engine

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Identifiers bounds the live counters of each policy, and so the memory that clients can fill by inventing identifiers. Identifiers
// that have a live counter keep it.
type Identifiers struct {
	// Max is the number of live counters of a policy from which on new identifiers get no counter of their own.
	Max int64
	// Deny denies new identifiers. Otherwise they share one counter.
	Deny bool
}

// BoundIdentifiers makes the Engine bound the live counters of each policy. Each Engine estimates those that its requests use, with
// an error of 3 %.
func BoundIdentifiers(bound Identifiers) Option {
	return func(e *Engine) {
		e.populations = &populations{bound: bound, seed: maphash.MakeSeed(), byKeys: map[string]*population{}}
	}
}

// populations are those of all rules, by the pattern of their keys: they outlive a change of the rules.
type populations struct {
	bound Identifiers
	seed  maphash.Seed

	mu     sync.Mutex
	byKeys map[string]*population
}

// of returns the population of a rule. The metrics report its estimate.
func (p *populations) of(rule *rules.Compiled, metrics *Metrics, now time.Time) *population {
	p.mu.Lock()
	defer p.mu.Unlock()
	pattern := rule.Keys.Pattern()
	found, ok := p.byKeys[pattern]
	if !ok {
		found = newPopulation(rule.Limit.Window(), p.bound.Max, metrics.identifiers.WithLabelValues(rule.Policy).Set, now)
		p.byKeys[pattern] = found
	}
	return found
}

// keep drops the populations of rules that index does not have.
func (p *populations) keep(index *rules.Index) {
	p.mu.Lock()
	defer p.mu.Unlock()
	patterns := map[string]bool{}
	for rule := range index.Rules() {
		patterns[rule.Keys.Pattern()] = true
	}
	for pattern := range p.byKeys {
		if !patterns[pattern] {
			delete(p.byKeys, pattern)
		}
	}
}

// isOver adds the counter at key to the population of its rule, and reports whether that is over the bound.
func (a *active) isOver(rule *rules.Compiled, key string) bool {
	of := a.counters.of(rule)
	population := of.population.Load()
	if population == nil {
		population = a.populations.of(rule, a.counters.metrics, a.clock())
		of.population.Store(population)
	}
	return population.add(maphash.String(a.populations.seed, key), a.clock)
}

func hasOverflow(charges []ruleCharge) bool {
	for i := range charges {
		if charges[i].sharedKey != "" {
			return true
		}
	}
	return false
}

// shareOverflow moves the charges of new identifiers of policies that are over the bound to the shared counters of the policies. A
// peek finds which identifiers are new. If it fails, all keep their counters: local mode has a bound of its own.
func (e *Engine) shareOverflow(ctx context.Context, active *active, charges []ruleCharge, peek bool) {
	peeks := make([]limiter.Charge, 0, len(charges))
	var indexes []int
	for i := range charges {
		if c := &charges[i]; c.sharedKey != "" {
			peeks = append(peeks, limiter.Charge{Key: c.charge.Key, Limit: c.charge.Limit, OnStoreFailure: limiter.AllowOnFailure})
			indexes = append(indexes, i)
		}
	}
	decisions, err := e.store.Peek(ctx, peeks)
	if err != nil {
		return
	}
	for i, d := range decisions {
		if d.ResetAfter > 0 || d.Origin != limiter.OriginStore {
			continue
		}
		c := &charges[indexes[i]]
		c.charge.Key = c.sharedKey
		if e.populations.bound.Deny && c.charge.Cost > 0 {
			c.charge.Cost = 2 * limiter.MaxUnits // above every limit
		}
		if !peek {
			active.counters.overflowed(c.rule)
		}
	}
}
