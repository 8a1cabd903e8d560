// Package engine decides requests: it matches them against the rules, spends on the store in one call, and orders the
// decisions into an answer. Every endpoint of a limiter calls [Engine.Check].
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/tracing"
)

// Engine decides requests against the rules of the last Swap. It is safe for concurrent use.
type Engine struct {
	store      limiter.Store
	failover   *failover.Store // the store if it fails over, else nil
	leases     *lease.Leases   // of units of store; nil without leases
	source     Source
	metrics    *Metrics
	clock      func() time.Time
	maxDenials int // to cache; 0: no cache
	// populations are nil unless identifiers are bounded.
	populations *populations
	top         *topIdentifiers // nil unless identifiers are counted
	bypasses    *bypass.List    // can be nil
	observer    Observer        // can be nil
	active      atomic.Pointer[active]
	scratches   *sync.Pool
	// swapping is held while rules are swapped, so that the series of a policy that was added again are not dropped.
	swapping sync.Mutex
}

// active is the active rule set, with what belongs to it. A Check works with one of them from its beginning to its end.
type active struct {
	index    *matching.Index
	counters *counters
	denials  *denials.Denials     // nil without a cache
	since    map[string]time.Time // when the rule of each policy became active: earlier denials are invalid; nil without a cache
	// populations of the Engine, its clock, and its bypasses.
	populations *populations
	clock       func() time.Time
	bypasses    *bypass.List
}

// ErrNoRules is the error of Check before the first Swap. Without rules a limiter neither allows nor denies.
var ErrNoRules = errors.New("no rules are loaded yet")

// Option changes how an Engine works.
type Option func(*Engine)

// RememberDenials makes the Engine cache up to most denials: while a counter cannot admit anything, the Engine denies
// requests for it without calling the store. The caller calls [Engine.Forget] after a counter is reset or refunded. The clock
// must not step; time.Now does not.
func RememberDenials(most int, clock func() time.Time) Option {
	return func(e *Engine) { e.maxDenials, e.clock = most, clock }
}

// LeaseUnits makes the Engine lease units of the counters of rules that allow it. The leases spend units in the Engine's store.
func LeaseUnits(leases *lease.Leases) Option { return func(e *Engine) { e.leases = leases } }

// New returns an Engine without rules: until the first Swap, Check returns ErrNoRules. The store may be a *failover.Store:
// then the Engine measures the calls of its remote store, and registers its metrics.
func New(store limiter.Store, source Source, metrics *Metrics, options ...Option) *Engine {
	e := &Engine{store: store, source: source, metrics: metrics, clock: time.Now, scratches: newScratches()}
	for _, option := range options {
		option(e)
	}
	metrics.engine.Store(e)
	if f, fails := store.(*failover.Store); fails {
		e.failover = f
		f.ObserveCalls(metrics.storeCalled)
		metrics.registry.MustRegister(f)
	}
	return e
}

// Swap makes index the active rule set of every Check that begins from now on. The known denials of policies that have changed become
// invalid. A Check that has begun finishes with the previous rule set.
func (e *Engine) Swap(index *matching.Index) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	previous := e.Index()
	if previous != nil {
		index.InheritEndpoints(previous)
	}
	for swapped := false; !swapped; { // again if ForgetAll has intervened
		swapped = e.activate(index)
	}
	if e.populations != nil {
		e.populations.keep(index)
	}
	e.metrics.swapped(previous, index)
}

// activate reports false if the active rule set has been replaced meanwhile. The lock swapping is held.
func (e *Engine) activate(index *matching.Index) bool {
	previous := e.active.Load()
	next := &active{index: index, counters: &counters{metrics: e.metrics}, populations: e.populations, clock: e.clock, bypasses: e.bypasses}
	if e.maxDenials > 0 {
		next.since = unchangedSince(previous, index, e.clock())
		if previous == nil {
			next.denials = e.newDenials()
		} else {
			next.denials = previous.denials
		}
	}
	return e.active.CompareAndSwap(previous, next)
}

// Index returns the active rule set, nil before the first Swap.
func (e *Engine) Index() *matching.Index {
	if a := e.active.Load(); a != nil {
		return a.index
	}
	return nil
}

// Check decides one request: it matches the request, charges all matching rules in one step, and orders their decisions. An
// error is ErrNoRules, a [*RefusedError], or the error of a store that does not fail over: then the request may or may not
// have been counted.
func (e *Engine) Check(ctx context.Context, c *Check) (Answer, error) {
	active := e.active.Load()
	if active == nil {
		return Answer{}, ErrNoRules
	}
	s := e.borrow()
	defer e.release(s)
	span := tracing.From(ctx)
	if span == nil {
		active.match(s, c)
	} else {
		active.matchTraced(span, s, c)
	}
	charges := s.charged
	if len(charges) == 0 {
		return e.unlimited(active, s, 0, c), nil
	}
	began := e.clock()
	results := e.fromLeases(charges, c.Peek, began)
	if len(results) == 0 {
		results = active.knownDenials(charges, c.Peek, began)
	}
	if len(results) == 0 && hasOverflow(charges) {
		e.shareOverflow(ctx, active, charges, c.Peek)
		results = active.knownDenials(charges, c.Peek, began)
	}
	if len(results) == 0 {
		var err error
		if results, err = e.spend(ctx, active, charges, c.Peek, began); err != nil {
			return Answer{}, err
		}
	}
	answer := active.answer(results)
	answer.Bypassed = s.bypassedOf(0)
	e.count(active, c, &answer, call{answer.Allowed, c.Peek, began})
	if span != nil {
		traceAnswer(span, &answer)
	}
	return answer, nil
}

// spend lets the store decide charges, or peeks, and caches the denials.
func (e *Engine) spend(ctx context.Context, active *active, matched []ruleCharge, peek bool, began time.Time) ([]Result, error) {
	charges := chargesOf(matched)
	op, spend := opSpend, e.store.Spend
	switch {
	case peek:
		op, spend = "peek", e.store.Peek
	case e.leases != nil:
		spend = e.leases.Spend
	}
	ctx, step := tracing.Step(ctx, op)
	decisions, err := spend(ctx, charges)
	if step != nil {
		endStep(step, err)
	}
	if e.failover == nil {
		e.metrics.storeCalled(op, e.clock().Sub(began), err)
	}
	if err != nil {
		return nil, e.spendError(err, active, matched, peek)
	}
	if !peek {
		active.cacheDenials(charges, decisions, began, e.clock)
		active.addCounters(matched, decisions)
	}
	results := make([]Result, 0, len(matched))
	for i := range matched {
		switch decisions[i].Origin {
		case limiter.Undecided:
		case limiter.OriginLocal:
			results = append(results, matched[i].result(decisions[i], SourceLocal))
		default:
			results = append(results, matched[i].result(decisions[i], e.source))
		}
	}
	return results, nil
}

// spendError is the error of Check for an error of the store. A refused request counts as denied by the rule that refused it.
func (e *Engine) spendError(err error, active *active, matched []ruleCharge, peek bool) error {
	refused, is := errors.AsType[*failover.RefusedError](err)
	if !is {
		op := opSpend
		if peek {
			op = "peek"
		}
		return fmt.Errorf("%s on %d counters: %w", op, len(matched), err)
	}
	by := &matched[refused.Charge]
	if !peek {
		active.counters.refused(by)
		e.top.refused(by, e.clock)
	}
	return &RefusedError{Policy: by.rule.Policy, cause: refused.Cause}
}

// RefusedError is the error of Check for a request that a rule refuses because the store is unavailable.
type RefusedError struct {
	// Policy whose onStoreFailure is Deny.
	Policy string
	cause  error // nil if the store was not called
}

func (e *RefusedError) Error() string {
	if e.cause == nil {
		return "policy " + e.Policy + " denies while the store is unavailable"
	}
	return fmt.Sprintf("policy %s denies while the store is unavailable: %v", e.Policy, e.cause)
}

func (e *RefusedError) Unwrap() error { return e.cause }

// call describes a call of Check or CheckAll.
type call struct {
	charged bool // the requests were charged
	peek    bool // nothing is charged
	began   time.Time
}

// count counts an answer in the metrics.
func (e *Engine) count(active *active, c *Check, a *Answer, of call) {
	if !of.peek {
		active.counters.decided(a, of.charged)
		e.top.decided(a, of.charged, of.began)
		e.observe(c, a, of.charged)
	}
	if e.Index() != active.index {
		e.decidedUnderReplacedRules(a)
	}
}

// decidedUnderReplacedRules drops the series that an answer under replaced rules has created again after Swap dropped them.
func (e *Engine) decidedUnderReplacedRules(a *Answer) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	e.metrics.dropRemoved(a, e.Index())
}
