// Package engine decides requests: it matches them against the rules, spends on the store in one call, and orders the
// decisions into an answer. Every endpoint of a limiter calls [Engine.Check].
package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/tracing"
)

// Engine decides requests against the rules of the last Swap: it matches a request, asks the Store, and answers. It is safe for concurrent use.
type Engine struct {
	store    limiter.Store
	source   Source
	metrics  *Metrics
	clock    func() time.Time
	top      *topIdentifiers // nil unless identifiers are counted
	bypasses *bypass.List    // can be nil
	observer Observer        // can be nil
	layers   Layers          // of the store
	spans    bool            // see WithSpans
	active   atomic.Pointer[active]

	scratches *sync.Pool
	// swapping is held while rules are swapped, so that the series of a policy that was added again are not dropped.
	swapping sync.Mutex
	// decided has the rules of the active rule set that have decided a request, as far as noteDecided has found them. The mutex swapping guards it.
	decided  decidedRules
	counters *counters
}

// active is the active rule set, with what belongs to it. A Check works with one of them from its beginning to its end.
type active struct {
	index    *matching.Index
	counters *counters    // of the Engine
	bypasses *bypass.List // of the Engine
}

// The errors of a program that hands over nil.
var (
	errNoCheck   = errors.New("the check is nil")
	errNoContext = errors.New("the context is nil")
)

// Option changes how an Engine works.
type Option func(*Engine)

// WithClock sets the clock, which is time.Now without this option. It must not step.
func WithClock(clock func() time.Time) Option { return func(e *Engine) { e.clock = clock } }

// Layers are those of the Store of an Engine.
type Layers interface {
	// Swap receives the rules that were removed or replaced, and those that were added or replace them, in no particular order.
	Swap(removed, added []*limiter.CountedRule)
	// Known returns the decisions of a Spend that does not ask for the counters, nil if it would ask.
	Known(charges []limiter.Charge) []limiter.Decision
}

// WithLayers lets the Engine pass the rules to the layers of its Store, and explain what they decide.
func WithLayers(layers Layers) Option { return func(e *Engine) { e.layers = layers } }

// WithSpans makes Check add a span below the OpenTelemetry span of its context. Endpoints of a limiter start spans of their own instead, see
// [tracing.Tracer].
func WithSpans() Option { return func(e *Engine) { e.spans = true } }

// noLayers are those of a Store without any.
type noLayers struct{}

func (noLayers) Swap(_, _ []*limiter.CountedRule) {}

func (noLayers) Known([]limiter.Charge) []limiter.Decision { return nil }

// New returns an Engine without rules: until the first Swap, Check returns ErrNoRules. The source is that of the decisions that the store makes
// on its counters.
func New(store limiter.Store, source Source, metrics *Metrics, options ...Option) *Engine {
	e := &Engine{
		store: store, source: source, metrics: metrics, clock: time.Now, layers: noLayers{}, scratches: newScratches(),
		decided: decidedRules{rules: map[*limiter.CountedRule]bool{}},
	}
	e.counters = &counters{metrics: metrics, active: e.Index}
	for _, option := range options {
		option(e)
	}
	return e
}

// Swap makes index the active rule set of every Check that begins from now on. A Check that has begun finishes with the previous rule set. The cost
// grows with the rules that differ, if index was updated from the previous one.
func (e *Engine) Swap(index *matching.Index) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	previous := e.Index()
	if previous != nil {
		index.Inherit(previous)
	}
	changes := index.Changes(previous)
	e.active.Store(&active{index: index, counters: e.counters, bypasses: e.bypasses})
	e.counters.forget(changes)
	removed, added := countedOf(changes)
	e.decided.swap(previous, index, changes, removed)
	e.noteDecided()
	e.layers.Swap(removed, added)
	e.metrics.swapped(changes, previous, index)
}

// countedOf returns what stores know about the rules that were removed or replaced, and about those that were added or replace them.
func countedOf(changes []matching.Change) (removed, added []*limiter.CountedRule) {
	kept := map[*limiter.CountedRule]bool{}
	for _, change := range changes {
		if change.New != nil {
			kept[change.New.Counted()] = true
		}
	}
	for _, change := range changes {
		if change.Old == nil {
			continue
		}
		if counted := change.Old.Counted(); kept[counted] {
			delete(kept, counted)
		} else {
			removed = append(removed, counted)
		}
	}
	return removed, slices.Collect(maps.Keys(kept))
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
	switch {
	case c == nil:
		return Answer{}, errNoCheck
	case ctx == nil:
		return Answer{}, errNoContext
	}
	if !e.spans {
		return e.check(ctx, c)
	}
	ctx, span := tracing.Under(ctx, "weir.check")
	answer, err := e.check(ctx, c)
	if span != nil {
		span.End(errorKind(err))
	}
	return answer, err
}

// errorKind is the kind of an error in spans, "" without one.
func errorKind(err error) string {
	if err == nil {
		return ""
	}
	return limiter.ErrorKind(err)
}

func (e *Engine) check(ctx context.Context, c *Check) (Answer, error) {
	active := e.active.Load()
	if active == nil {
		return Answer{}, ErrNoRules
	}
	s := e.borrow()
	defer func() {
		e.release(s)
		if e.Index() != active.index {
			e.dropReplaced(active.index, []Check{*c})
		}
	}()
	active.match(ctx, s, c)
	if len(s.charged) == 0 {
		return e.unlimited(active, s, 0, c), nil
	}
	began := e.now()
	results, err := e.decide(ctx, active, s, s.charged, c.Peek)
	if err != nil {
		return Answer{}, err
	}
	answer := active.answer(s.charged, results)
	answer.Bypassed = s.bypassedOf(0)
	e.count(active, c, &answer, call{answer.Allowed, c.Peek, began})
	if span := tracing.From(ctx); span != nil {
		traceAnswer(span, &answer)
	}
	return answer, nil
}

// now returns the time if identifiers are counted: nothing else needs it.
func (e *Engine) now() (now time.Time) {
	if e.top != nil {
		now = e.clock()
	}
	return now
}

// ReadsHeaderLines promises that Check reads the headers of a request from [rules.Request.HeaderLines] if it has them.
func (e *Engine) ReadsHeaderLines() {}

// decide decides charges, or peeks. Charges that are left undecided have no result. If a limit of 0, a block, or a missing identifier denies a
// request, the store is called only for debts, and a peek for all other charges: its errors change nothing.
func (e *Engine) decide(ctx context.Context, active *active, s *scratch, matched []ruleCharge, peek bool) ([]Result, error) {
	isBlocked, isDenied := blocked(matched)
	if !isBlocked {
		return e.ask(ctx, active, s, matched, peek)
	}
	var denials []Result
	var asked []ruleCharge
	for i := range matched {
		switch c := &matched[i]; {
		case c.charge.Deny:
			denials = c.addResult(denials, c.denial(), SourceNone)
		case peek || !isDenied || c.charge.CountsAlways():
			asked = append(asked, *c)
		}
	}
	results, err := e.ask(ctx, active, s, asked, peek)
	if err != nil && !isDenied {
		return nil, err
	}
	return append(results, denials...), nil
}

// blocked reports whether one of the charges is denied without a counter, and whether that denies their request: a shadow rule does not.
func blocked(charges []ruleCharge) (isBlocked, isDenied bool) {
	for i := range charges {
		if c := &charges[i].charge; c.Deny {
			isBlocked, isDenied = true, isDenied || !c.Shadow
		}
	}
	return isBlocked, isDenied
}

// ask lets the store decide charges, or peeks.
func (e *Engine) ask(ctx context.Context, active *active, s *scratch, matched []ruleCharge, peek bool) ([]Result, error) {
	if len(matched) == 0 {
		return nil, nil
	}
	ask := e.store.Spend
	if peek {
		ask = e.store.Peek
	}
	s.charges = slices.Grow(s.charges[:0], len(matched))
	for i := range matched {
		s.charges = append(s.charges, matched[i].charge)
	}
	decisions, err := ask(ctx, s.charges)
	if err != nil {
		return nil, e.decisionError(err, active, matched, peek)
	}
	results := make([]Result, 0, len(matched))
	for i := range matched {
		if d := &decisions[i]; d.Origin != limiter.Undecided {
			results = matched[i].addResult(results, d, e.sourceOf(d))
		}
	}
	return results, nil
}

// sourceOf returns where a decision was made.
func (e *Engine) sourceOf(d *limiter.Decision) Source {
	switch d.Origin {
	case limiter.OriginLocal:
		return SourceLocal
	case limiter.OriginLease:
		return SourceLease
	case limiter.OriginDenial:
		return SourceCache
	default:
		return e.source
	}
}

// decisionError is the error of Check for an error of the store. A refused request counts as denied by the rule that refused it.
func (e *Engine) decisionError(err error, active *active, matched []ruleCharge, peek bool) error {
	refused, ok := errors.AsType[*limiter.RefusedError](err)
	if !ok {
		op := "spend"
		if peek {
			op = "peek"
		}
		return fmt.Errorf("%s on %d counters: %w", op, len(matched), err)
	}
	charge := &matched[refused.Charge]
	if !peek {
		active.counters.refused(charge)
		e.top.refused(charge, e.clock)
	}
	return &RefusedError{Policy: charge.rule.Policy, Cause: refused.Cause}
}

// call describes a call of Check or CheckAll.
type call struct {
	charged bool // the requests were charged
	peek    bool // nothing is charged
	began   time.Time
}

// count counts an answer in the metrics.
func (e *Engine) count(active *active, c *Check, a *Answer, call call) {
	if !call.peek {
		active.counters.decided(a, call.charged)
		e.top.decided(a, call.charged, call.began)
		e.observe(c, a, call.charged)
	}
	if e.Index() != active.index {
		e.decidedUnderReplacedRules(a)
	}
}

// decidedUnderReplacedRules notes the rules that have decided an answer under replaced rules: Swap may not have seen their counters.
func (e *Engine) decidedUnderReplacedRules(a *Answer) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	for i := range a.Results {
		e.decided.add(e.Index(), a.Results[i].Rule)
	}
}

// dropReplaced drops the series that checks under replaced rules have created again after Swap dropped them.
func (e *Engine) dropReplaced(replaced *matching.Index, checks []Check) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	now := e.Index()
	for i := range checks {
		for _, m := range replaced.Match(nil, &checks[i].Request) {
			if next, _ := now.RuleOf(m.Rule.Policy); next != m.Rule || now.SharesTierSeries(next) != replaced.SharesTierSeries(next) {
				e.metrics.drop(labelsIn(replaced, m.Rule), labelsIn(now, next))
			}
		}
	}
}

// Refund refunds what requests like checks were charged, as far as it still counts: the units that were spent last. It does
// not verify that such requests were charged: a caller that refunds what was never spent frees the units of other requests.
// A rule refunds nothing to an identifier that has or had a bypass of it in the last 10 minutes.
func (e *Engine) Refund(ctx context.Context, checks []Check) error {
	active := e.active.Load()
	if active == nil {
		return ErrNoRules
	}
	s := e.borrow()
	defer func() {
		e.release(s)
		if e.Index() != active.index {
			e.dropReplaced(active.index, checks)
		}
	}()
	active.matchAll(ctx, s, checks)
	charges := s.mergeCharges(false)
	var errs []error
	for i := range charges {
		if charges[i].charge.Deny || e.bypasses.HasPassed(charges[i].rule.PolicyName(), charges[i].identifier) {
			continue // the request was not charged, or perhaps not
		}
		c := &charges[i].charge
		if c.Deny {
			continue // it counted nothing
		}
		refund := limiter.Refund{Key: c.Key, Limit: c.Limit, Cost: c.Units(), Latest: true, WholeShare: c.WholeShare}
		if err := e.store.Refund(ctx, []limiter.Refund{refund}); err != nil {
			errs = append(errs, fmt.Errorf("refund %s: %w", charges[i].rule.Policy, err))
		}
	}
	return errors.Join(errs...)
}

// Reset resets the counters at keys, see [limiter.Store].
func (e *Engine) Reset(ctx context.Context, keys []string, id string) error {
	return e.store.Reset(ctx, keys, id)
}

// Peek returns what the store would decide about charges, and changes nothing.
func (e *Engine) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return e.store.Peek(ctx, charges)
}
