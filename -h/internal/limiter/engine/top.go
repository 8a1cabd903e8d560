package engine

import (
	"time"

	"github.com/weir-dev/weir/go/internal/limiter/topk"
)

// CountIdentifiers makes the Engine count the requests of the busiest and of the most denied identifiers, in 1.7 MiB. See [Engine.Top].
func CountIdentifiers() Option {
	return func(e *Engine) {
		now := e.clock()
		e.top = &topIdentifiers{allowed: topk.New(now), denied: topk.New(now)}
	}
}

// topIdentifiers are the identifiers with the most requests. A nil one counts nothing.
type topIdentifiers struct{ allowed, denied *topk.Sketch }

// Top is the identifiers with the most requests.
type Top struct {
	// Since is from when on requests are counted.
	Since time.Time
	// Allowed counts requests that a policy allowed and counted. Denied counts those that it denied, or would have denied in Shadow mode.
	Allowed, Denied topk.List
}

// Top returns the n identifiers with the most requests under a policy, or under all policies if policy is "". It reports false without
// [CountIdentifiers].
func (e *Engine) Top(n int, policy string) (top Top, counted bool) {
	if e.top == nil {
		return Top{}, false
	}
	now := e.clock()
	return Top{
		Since: e.top.allowed.Since(now), Allowed: e.top.allowed.Top(n, policy, now), Denied: e.top.denied.Top(n, policy, now),
	}, true
}

// TopPeriodEnd returns when Top begins to count from a later time on.
func (e *Engine) TopPeriodEnd() time.Time { return e.top.allowed.PeriodEnd(e.clock()) }

// decided counts the results of an answer. The argument charged reports whether the request was charged.
func (t *topIdentifiers) decided(a *Answer, charged bool, now time.Time) {
	if t == nil {
		return
	}
	for i := range a.Results {
		r := &a.Results[i]
		if outcome := outcomeOf(r, charged); outcome == allowed {
			t.allowed.Add(r.Rule.Policy, r.Identifier, now)
		} else if outcome == denied {
			t.denied.Add(r.Rule.Policy, r.Identifier, now)
		}
	}
}

// refused counts a request that a rule refused because the store is unavailable.
func (t *topIdentifiers) refused(r *ruleCharge, clock func() time.Time) {
	if t != nil {
		t.denied.Add(r.rule.Policy, r.identifier, clock())
	}
}
