// Package engine answers requests: it matches them against the rules, spends on the store once, and says what the
// client is told. Every door to a limiter enters at [Engine.Check].
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Source says where a decision came from.
type Source string

// The sources of a decision.
const (
	SourceRedis  Source = "redis"
	SourceMemory Source = "memory" // a standalone limiter's own counters
	SourceNone   Source = "none"   // no rule matched
)

// Engine decides requests against the rules that were swapped in last. It is safe for concurrent use.
type Engine struct {
	store   limiter.Store
	source  Source
	metrics *Metrics
	index   atomic.Pointer[rules.Index]
}

// ErrNoRules is the error of Check before the first Swap: what a limiter does not know it neither allows nor denies.
var ErrNoRules = errors.New("no rules yet")

// New returns an Engine without rules: until the first Swap there is no decision.
func New(store limiter.Store, source Source, metrics *Metrics) *Engine {
	return &Engine{store: store, source: source, metrics: metrics}
}

// Swap puts index in force for every Check that begins from now on. Checks under way finish on what they began with.
func (e *Engine) Swap(index *rules.Index) {
	e.metrics.swapped(e.index.Swap(index), index)
}

// Index returns what is in force, nil before the first Swap.
func (e *Engine) Index() *rules.Index { return e.index.Load() }

// Check is one question to the Engine.
type Check struct {
	Request rules.Request
	// Cost is the units to charge, ≥ 1.
	Cost int64
	// Peek asks without charging.
	Peek bool
}

// Answer is what a request gets.
type Answer struct {
	// Allowed is false when an enforced rule denies.
	Allowed bool
	// Delay is how long an allowed request has to wait for its turn: the longest of its enforced rules'.
	Delay time.Duration
	// Results of the enforced rules come first, strictest first; then those of the shadow rules, likewise.
	Results []Result
	// Source is where the counters were.
	Source Source
	// Revision of the rules that were in force.
	Revision string
}

// Result is the decision under one rule.
type Result struct {
	Rule *rules.Compiled
	// Identifier as counted: limiter.Missing if the request carried none, hashed if it is a secret.
	Identifier string
	limiter.Decision
}

// Strictest is the result that the client is told of: the strictest of the enforced rules. Nil if there is none.
func (a *Answer) Strictest() *Result {
	if len(a.Results) == 0 || a.Results[0].Rule.Shadow {
		return nil
	}
	return &a.Results[0]
}

// Check decides one request: matches it, charges all matching rules at once, and orders the outcome. An error is
// ErrNoRules, or the store's: then nothing is known of what was counted.
func (e *Engine) Check(ctx context.Context, c *Check) (Answer, error) {
	index := e.index.Load()
	if index == nil {
		return Answer{}, ErrNoRules
	}
	answer := Answer{Allowed: true, Source: SourceNone, Revision: index.Revision()}
	matched := index.Match(nil, &c.Request)
	if len(matched) == 0 {
		e.metrics.unmatched()
		return answer, nil
	}
	answer.Source = e.source
	charges := e.charge(&answer, matched, c)
	decisions, err := e.decide(ctx, charges, c.Peek)
	if err != nil {
		return Answer{}, err
	}
	for i, d := range decisions {
		answer.Results[i].Decision = d
		if charges[i].Shadow {
			continue
		}
		answer.Allowed = answer.Allowed && d.Allowed
		answer.Delay = max(answer.Delay, d.Delay)
	}
	if !answer.Allowed {
		answer.Delay = 0
	}
	slices.SortStableFunc(answer.Results, compareResults)
	if !c.Peek {
		e.metrics.decided(&answer)
	}
	if now := e.index.Load(); now != index {
		e.metrics.outlived(&answer, now)
	}
	return answer, nil
}

// charge makes a charge and a result for every matched rule.
func (e *Engine) charge(answer *Answer, matched []rules.Matched, c *Check) []limiter.Charge {
	charges := make([]limiter.Charge, len(matched))
	answer.Results = make([]Result, len(matched))
	for i, m := range matched {
		identifier := m.Identify(&c.Request)
		charges[i] = limiter.Charge{Key: m.Key(identifier), Limit: m.Rule.Limit, Cost: c.Cost, Shadow: m.Rule.Shadow}
		if identifier == "" {
			identifier = limiter.Missing
			if !c.Peek {
				e.metrics.missing(m.Rule)
			}
		}
		answer.Results[i] = Result{Rule: m.Rule, Identifier: identifier}
	}
	return charges
}

func (e *Engine) decide(ctx context.Context, charges []limiter.Charge, peek bool) ([]limiter.Decision, error) {
	op, ask := "spend", e.store.Spend
	if peek {
		op, ask = "peek", e.store.Peek
	}
	began := time.Now()
	decisions, err := ask(ctx, charges)
	e.metrics.asked(op, time.Since(began), err)
	if err != nil {
		return nil, fmt.Errorf("%s on %d counters: %w", op, len(charges), err)
	}
	return decisions, nil
}

// compareResults puts enforced before shadow, then the strictest first, then by name.
func compareResults(a, b Result) int {
	if a.Rule.Shadow != b.Rule.Shadow {
		if b.Rule.Shadow {
			return -1
		}
		return 1
	}
	if c := limiter.CompareStrictness(a.Decision, b.Decision); c != 0 {
		return c
	}
	return strings.Compare(a.Rule.Policy, b.Rule.Policy)
}
