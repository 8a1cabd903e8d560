// Package engine answers requests: it matches them against the rules, spends on the store once, and says what the
// client is told. Every door to a limiter enters at [Engine.Check].
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/rules"
)

// Source says where a decision came from.
type Source string

// The sources of a decision.
const (
	SourceRedis  Source = "redis"
	SourceMemory Source = "memory" // a standalone limiter's own counters
	SourceCache  Source = "cache"  // a known denial: the store was not asked
	SourceLocal  Source = "local"  // the store was away: what the rule's OnStoreFailure says
	SourceNone   Source = "none"   // no rule matched
)

// Engine decides requests against the rules that were swapped in last. It is safe for concurrent use.
type Engine struct {
	store   limiter.Store
	source  Source
	metrics *Metrics
	clock   func() time.Time
	most    int             // known denials to remember, 0 for none
	remote  Remote          // the store, if it can be away; else nil, as is
	local   *local.Counters // what decides then
	mode    mode
	inForce atomic.Pointer[inForce]
	// swapping is held while rules come and go, so that no series is dropped of a policy that is back.
	swapping sync.Mutex
}

// inForce is what a Check works with from its beginning to its end.
type inForce struct {
	index   *rules.Index
	tallies *tallies
	denials *denials.Denials // that the index led to; nil for none
}

// ErrNoRules is the error of Check before the first Swap: what a limiter does not know it neither allows nor denies.
var ErrNoRules = errors.New("no rules yet")

// Option changes how an Engine works.
type Option func(*Engine)

// RememberDenials makes the Engine remember up to so many counters that can admit nothing for the moment, and deny
// requests for them without asking the store. Whoever resets or refunds counters then calls [Engine.Forget]. The clock
// must not step; time.Now does not.
func RememberDenials(most int, clock func() time.Time) Option {
	return func(e *Engine) { e.most, e.clock = most, clock }
}

// New returns an Engine without rules: until the first Swap there is no decision.
func New(store limiter.Store, source Source, metrics *Metrics, options ...Option) *Engine {
	e := &Engine{store: store, source: source, metrics: metrics, clock: time.Now}
	for _, option := range options {
		option(e)
	}
	metrics.engine.Store(e)
	if e.local != nil {
		metrics.registry.MustRegister(newLocalMetrics(e))
	}
	return e
}

// Swap puts index in force for every Check that begins from now on, with nothing remembered. Checks under way finish on
// what they began with.
func (e *Engine) Swap(index *rules.Index) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	before := e.Index()
	if before != nil {
		index.Inherit(before)
	}
	e.inForce.Store(&inForce{index: index, tallies: &tallies{metrics: e.metrics}, denials: e.newDenials()})
	e.metrics.swapped(before, index)
}

// Index returns what is in force, nil before the first Swap.
func (e *Engine) Index() *rules.Index {
	if now := e.inForce.Load(); now != nil {
		return now.index
	}
	return nil
}

// Check is one question to the Engine.
type Check struct {
	Request rules.Request
	// Cost is how often the request counts, 0 and up: a rule charges so many times what it says that one such request costs.
	// What counts 0 times is decided as it would be, and changes nothing.
	Cost int64
	// Peek asks without charging.
	Peek bool
	// NoDelay: the caller cannot hold a request back until its turn under a LeakyBucket. What would have to wait is denied.
	NoDelay bool
	// Override, unless nil, is the limit in place of the rules' own.
	Override *Override
}

// Override is a limit that comes with a request. It is counted by itself, with each rule's algorithm.
type Override struct {
	Units  int64
	Window time.Duration
}

// Answer is what a request gets.
type Answer struct {
	// Allowed is false when an enforced rule denies.
	Allowed bool
	// Delay is how long an allowed request has to wait for its turn: the longest of its enforced rules'.
	Delay time.Duration
	// Results of the enforced rules come first, strictest first; then those of the shadow rules, likewise. Of a known
	// denial there are those of the enforced rules that are known to deny, and no others: nothing was asked about them.
	Results []Result
	// Source is where the counters were; SourceLocal if that is so of any enforced rule.
	Source Source
	// Revision of the rules that were in force.
	Revision string
}

// Result is the decision under one rule.
type Result struct {
	Rule *rules.Compiled
	// Identifier as counted: limiter.Missing if the request carried none, hashed if it is a secret.
	Identifier string
	// Tier of the rule that the request is of, empty for none.
	Tier string
	// Window of the limit that the request was held to.
	Window time.Duration
	// Source is where the counter was.
	Source Source
	// Key of the counter.
	Key string
	limiter.Decision
}

// Strictest is the result that the client is told of: the strictest of the enforced rules. Nil if there is none.
func (a *Answer) Strictest() *Result {
	if len(a.Results) == 0 || a.Results[0].Rule.Shadow {
		return nil
	}
	return &a.Results[0]
}

// usual is how many rules a request can match before that costs memory from the heap.
const usual = 8

// Check decides one request: matches it, charges all matching rules at once, and orders the outcome. An error is
// ErrNoRules, a RefusedError, or the store's if nothing stands in for it: then nothing is known of what was counted.
func (e *Engine) Check(ctx context.Context, c *Check) (Answer, error) {
	now := e.inForce.Load()
	if now == nil {
		return Answer{}, ErrNoRules
	}
	var counted [usual]subject
	subjects := now.identify(counted[:0], c)
	if len(subjects) == 0 {
		e.metrics.unmatched()
		return now.unlimited(), nil
	}
	began := e.clock()
	results := now.known(subjects, c.Peek, began)
	if len(results) == 0 {
		var err error
		if results, err = e.decide(ctx, now, subjects, c.Peek, began); err != nil {
			return Answer{}, err
		}
	}
	answer := now.answer(results)
	e.tell(now, &answer, answer.Allowed, c.Peek)
	return answer, nil
}

// unlimited is the answer to a request that no rule limits.
func (f *inForce) unlimited() Answer {
	return Answer{Allowed: true, Source: SourceNone, Revision: f.index.Revision()}
}

func (f *inForce) answer(results []Result) Answer {
	answer := Answer{Results: results, Revision: f.index.Revision()}
	answer.conclude()
	return answer
}

// tell counts an answer; charged says whether the request was.
func (e *Engine) tell(now *inForce, a *Answer, charged, peek bool) {
	if !peek {
		now.tallies.decided(a, charged)
		e.mode.decided(a)
	}
	if e.Index() != now.index {
		e.outlived(a)
	}
}

// outlived is told of an answer under rules that are in force no more.
func (e *Engine) outlived(a *Answer) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	e.metrics.outlived(a, e.Index())
}

// subject is whom a rule counts a request for, and what it charges.
type subject struct {
	rule       *rules.Compiled
	identifier string // as answers tell it
	tier       string
	charge     limiter.Charge
}

// identify appends the subject of every rule that limits c's request to dst.
func (f *inForce) identify(dst []subject, c *Check) []subject {
	var matches [usual]rules.Matched
	for _, m := range f.index.Match(matches[:0], &c.Request) {
		identifier := m.Identify(&c.Request)
		terms := m.Terms(&c.Request, identifier)
		if terms.Unlimited {
			f.tallies.unlimited(m.Rule, c.Peek)
			continue
		}
		s := subject{rule: m.Rule, identifier: identifier, tier: terms.Tier}
		s.charge = limiter.Charge{Key: m.Key(identifier), Limit: terms.Limit, Cost: times(terms.Cost, c.Cost), Shadow: m.Rule.Shadow}
		if c.Override != nil {
			s.override(m, *c.Override)
		}
		if c.NoDelay {
			s.charge.Limit = s.charge.Limit.AtOnce()
		}
		if identifier == "" {
			s.identifier = limiter.Missing
			if !c.Peek {
				f.tallies.missing(m.Rule)
			}
		}
		dst = append(dst, s)
	}
	return dst
}

// times is what a request costs that counts so often, at most what no limit admits.
func times(cost, often int64) int64 {
	const beyond = 2 * limiter.MaxUnits
	if often > 0 && cost > beyond/often {
		return beyond
	}
	return max(cost*often, 0)
}

// override holds the subject to another limit, on a counter of its own. One that cannot be leaves it as it is.
func (s *subject) override(m rules.Matched, o Override) {
	limit, err := limiter.NewLimit(s.charge.Limit.Algorithm(), o.Units, o.Window)
	if err != nil {
		return
	}
	s.charge.Limit, s.charge.Key = limit, m.KeyUnder(s.identifier, limit)
}

func charges(subjects []subject) []limiter.Charge {
	charges := make([]limiter.Charge, len(subjects))
	for i := range subjects {
		charges[i] = subjects[i].charge
	}
	return charges
}

// ask lets the store decide, and takes note of what can be denied without it from now on.
func (e *Engine) ask(ctx context.Context, now *inForce, subjects []subject, peek bool, began time.Time) ([]Result, error) {
	e.repay(ctx, subjects)
	charges := charges(subjects)
	op, ask := "spend", e.store.Spend
	if peek {
		op, ask = "peek", e.store.Peek
	}
	decisions, err := ask(ctx, charges)
	answered := e.clock()
	e.metrics.asked(op, answered.Sub(began), err)
	if err != nil {
		return nil, fmt.Errorf("%s on %d counters: %w", op, len(charges), err)
	}
	if !peek {
		now.remember(charges, decisions, began, answered)
		e.learn(subjects, charges, decisions, began)
	}
	results := make([]Result, len(subjects))
	for i := range subjects {
		results[i] = subjects[i].result(decisions[i], e.source)
	}
	return results, nil
}

func (s *subject) result(d limiter.Decision, from Source) Result {
	if s.charge.Limit.IsAtOnce() && d.ResetAfter > 0 { // what remains is for who can wait
		d.Remaining = 0
	}
	return Result{
		Rule: s.rule, Identifier: s.identifier, Tier: s.tier, Window: s.charge.Limit.Window(), Source: from, Decision: d, Key: s.charge.Key,
	}
}

// conclude works out what the results mean for the request, and puts them in order.
func (a *Answer) conclude() {
	a.Allowed, a.Source = true, a.Results[0].Source
	for i := range a.Results {
		r := &a.Results[i]
		if r.Rule.Shadow {
			continue
		}
		if r.Source == SourceLocal {
			a.Source = SourceLocal
		}
		a.Allowed = a.Allowed && r.Allowed
		a.Delay = max(a.Delay, r.Delay)
	}
	if !a.Allowed {
		a.Delay = 0
	}
	slices.SortStableFunc(a.Results, compareResults)
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
