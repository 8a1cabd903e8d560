package engine

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/rules"
)

// tallies count what becomes of requests, rule by rule, under one set of rules.
type tallies struct {
	metrics *Metrics
	byRule  sync.Map // *rules.Compiled → *tally
}

// tally holds the counters of one rule: to look them up by their labels would take longer than to deny what is known to
// be denied. Each begins to exist when it first counts.
type tally struct {
	decided      [outcomes]counter // by the store
	locally      [outcomes]counter // while the store was away
	knownDenied  counter
	shadowDenied counter
	missing      counter
	free         counter
}

// counter is a prometheus.Counter, looked up when it is first needed.
type counter struct {
	found atomic.Pointer[prometheus.Counter]
}

func (c *counter) inc(find func() prometheus.Counter) {
	found := c.found.Load()
	if found == nil {
		first := find()
		found = &first
		c.found.Store(found)
	}
	(*found).Inc()
}

// outcome is what became of a request under one rule.
type outcome int

const (
	allowed outcome = iota
	denied
	uncharged // another rule denied
	outcomes
)

func (o outcome) String() string { return [outcomes]string{"allowed", "denied", "uncharged"}[o] }

func outcomeOf(r *Result, charged bool) outcome {
	switch {
	case !r.Allowed:
		return denied
	case !charged:
		return uncharged
	default:
		return allowed
	}
}

func (t *tallies) of(rule *rules.Compiled) *tally {
	if known, ok := t.byRule.Load(rule); ok {
		return known.(*tally) //nolint:forcetypeassert // nothing else is in it
	}
	known, _ := t.byRule.LoadOrStore(rule, &tally{})
	return known.(*tally) //nolint:forcetypeassert // nothing else is in it
}

func (t *tally) count(from Source, o outcome) *counter {
	switch from {
	case SourceCache:
		return &t.knownDenied
	case SourceLocal:
		return &t.locally[o]
	default:
		return &t.decided[o]
	}
}

// refused counts a request that the rule denies because the store is away.
func (t *tallies) refused(rule *rules.Compiled) {
	t.of(rule).count(SourceLocal, denied).inc(func() prometheus.Counter {
		return t.metrics.decisions.WithLabelValues(rule.Policy, rule.Axis, denied.String(), string(SourceLocal))
	})
}

// missing counts a request without the rule's identifier.
func (t *tallies) missing(rule *rules.Compiled) {
	t.of(rule).missing.inc(func() prometheus.Counter {
		return t.metrics.missingIDs.WithLabelValues(rule.Policy, rule.Axis)
	})
}

// unlimited counts a request that is of an unlimited tier of the rule.
func (t *tallies) unlimited(rule *rules.Compiled, peek bool) {
	if peek {
		return
	}
	t.of(rule).free.inc(func() prometheus.Counter {
		return t.metrics.decisions.WithLabelValues(rule.Policy, rule.Axis, "unlimited", string(SourceNone))
	})
}

// decided counts what an answer says of a request, which was charged or not.
func (t *tallies) decided(a *Answer, charged bool) {
	for i := range a.Results {
		r := &a.Results[i]
		rule, of, outcome := r.Rule, t.of(r.Rule), outcomeOf(r, charged)
		of.count(r.Source, outcome).inc(func() prometheus.Counter {
			return t.metrics.decisions.WithLabelValues(rule.Policy, rule.Axis, outcome.String(), string(r.Source))
		})
		if rule.Shadow && outcome == denied {
			of.shadowDenied.inc(func() prometheus.Counter {
				return t.metrics.shadowDenials.WithLabelValues(rule.Policy)
			})
		}
	}
}
