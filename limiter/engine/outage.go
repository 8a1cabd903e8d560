package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/rules"
)

// Remote is a store that can be away.
type Remote interface {
	limiter.Store
	// Away says whether the counter at key cannot be asked for the moment. It takes no time.
	Away(key string) bool
	// Repay counts as much of a charge as fits: units that were spent elsewhere while the counter could not be asked. If
	// none were counted, uncounted is true, without an error if the counter still cannot be asked; else an error leaves
	// that open.
	Repay(ctx context.Context, charge limiter.Charge) (uncounted bool, err error)
}

// StandIn makes the Engine decide by each rule's OnStoreFailure while the counters in remote, which is its store, cannot
// be asked: locally on counters. Whoever finds that they cannot calls [Engine.Away], and [Engine.Back] when they can again.
func StandIn(remote Remote, counters *local.Counters, log *slog.Logger) Option {
	return func(e *Engine) { e.remote, e.local, e.mode.log = remote, counters, log }
}

// RefusedError is the error of Check for a request that a rule refuses because the store is away.
type RefusedError struct {
	// Policy whose onStoreFailure is Deny.
	Policy string
	cause  error // nil if the store was not asked
}

func (e *RefusedError) Error() string {
	if e.cause == nil {
		return "policy " + e.Policy + " denies while the store is away"
	}
	return fmt.Sprintf("policy %s denies while the store is away: %v", e.Policy, e.cause)
}

func (e *RefusedError) Unwrap() error { return e.cause }

// decide has c decided for all subjects, by the store as far as it can be asked.
func (e *Engine) decide(ctx context.Context, now *inForce, subjects []subject, c *Check, began time.Time) ([]Result, error) {
	far, near := e.apart(subjects)
	if len(near) > 0 {
		return e.decideApart(ctx, now, far, near, c, began)
	}
	if e.wary(began) {
		return e.decideWarily(ctx, now, far, c, began)
	}
	results, err := e.ask(ctx, now, far, c, began)
	if err == nil || e.local == nil {
		return results, err
	}
	// Whatever the store has counted or not: from here on it has no say. What it has counted it will tell when it is back.
	return e.decideLocally(now, far, c, err)
}

// apart tells the subjects whose counters the store can be asked for from those that are near: for those it is away.
func (e *Engine) apart(subjects []subject) (far, near []subject) {
	if e.remote == nil {
		return subjects, nil
	}
	for i := range subjects {
		if e.remote.Away(subjects[i].key) {
			near = append(near, subjects[i])
		}
	}
	if len(near) == 0 || len(near) == len(subjects) {
		return subjects[:len(subjects)-len(near)], near
	}
	for i := range subjects {
		if !e.remote.Away(subjects[i].key) {
			far = append(far, subjects[i])
		}
	}
	return far, near
}

// decideApart charges near and far, all or nothing: near first, which costs nothing to undo.
func (e *Engine) decideApart(ctx context.Context, now *inForce, far, near []subject, c *Check, began time.Time) ([]Result, error) {
	results, err := e.decideLocally(now, near, c, nil)
	if err != nil || len(far) == 0 || !pass(results) {
		return results, err
	}
	answered, err := e.ask(ctx, now, far, c, began)
	if err == nil && pass(answered) {
		return append(results, answered...), nil
	}
	e.undo(near, c, results)
	if err != nil { // of far: now all are near
		return e.decideLocally(now, append(near, far...), c, err)
	}
	peek := *c
	peek.Peek = true
	results, err = e.decideLocally(now, near, &peek, nil)
	return append(results, answered...), err
}

// decideWarily asks the store, and charges this replica's share as well: other replicas may not have heard yet that the
// store is back, and still reckon with theirs.
func (e *Engine) decideWarily(ctx context.Context, now *inForce, subjects []subject, c *Check, began time.Time) ([]Result, error) {
	var shared []subject
	for i := range subjects {
		if subjects[i].rule.OnStoreFailure == rules.LocalOnFailure {
			shared = append(shared, subjects[i])
		}
	}
	reserved := charges(shared, c)
	ask := e.local.Reserve
	if c.Peek {
		ask = e.local.Peek
	}
	decisions := ask(reserved)
	results := make([]Result, len(shared))
	for i := range shared {
		results[i] = shared[i].result(decisions[i], SourceLocal)
	}
	if !pass(results) {
		return results, nil
	}
	answered, err := e.ask(ctx, now, subjects, c, began)
	if (err != nil || !pass(answered)) && !c.Peek {
		e.local.Refund(reserved, decisions)
	}
	if err != nil {
		return e.decideLocally(now, subjects, c, err)
	}
	return answered, nil
}

// decideLocally has c decided by what the rules say for the time when the store is away; cause is why it is.
func (e *Engine) decideLocally(now *inForce, subjects []subject, c *Check, cause error) ([]Result, error) {
	results := make([]Result, 0, len(subjects))
	var counted []subject
	for i := range subjects {
		s := &subjects[i]
		switch {
		case s.rule.OnStoreFailure == rules.LocalOnFailure:
			counted = append(counted, *s)
		case s.rule.OnStoreFailure == rules.DenyOnFailure && !s.rule.Shadow:
			if !c.Peek {
				now.tallies.refused(s.rule)
				e.mode.refused.Add(1)
			}
			return nil, &RefusedError{Policy: s.rule.Policy, cause: cause}
		default: // as if nothing had been spent
			charge := s.charge(c)
			d := s.rule.Limit.NewState().Decide(limiter.At(e.clock()), s.rule.Limit, charge.Units())
			results = append(results, s.result(d, SourceLocal))
		}
	}
	if len(counted) == 0 {
		return results, nil
	}
	ask := e.local.Spend
	if c.Peek || !pass(results) { // a cost above the limit of a rule that counts nothing
		ask = e.local.Peek
	}
	for i, d := range ask(charges(counted, c)) {
		results = append(results, counted[i].result(d, SourceLocal))
	}
	return results, nil
}

// undo takes back what decideLocally has counted.
func (e *Engine) undo(near []subject, c *Check, results []Result) {
	if c.Peek {
		return
	}
	decided := make(map[string]limiter.Decision, len(results))
	for i := range results {
		decided[results[i].Rule.Policy] = results[i].Decision
	}
	var counted []subject
	var decisions []limiter.Decision
	for i := range near {
		if near[i].rule.OnStoreFailure == rules.LocalOnFailure {
			counted, decisions = append(counted, near[i]), append(decisions, decided[near[i].rule.Policy])
		}
	}
	e.local.Refund(charges(counted, c), decisions)
}

// pass says whether all enforced rules allow.
func pass(results []Result) bool {
	for i := range results {
		if !results[i].Rule.Shadow && !results[i].Allowed {
			return false
		}
	}
	return true
}

// learn takes note, for the time when the store is away, of what it decides while it is not.
func (e *Engine) learn(subjects []subject, charges []limiter.Charge, decisions []limiter.Decision, began time.Time) {
	if e.local == nil || e.wary(began) { // then other replicas have spent what the store does not know
		return
	}
	counts := func(s subject) bool { return s.rule.OnStoreFailure == rules.LocalOnFailure }
	if !slices.ContainsFunc(subjects, func(s subject) bool { return !counts(s) }) {
		e.local.Learn(charges, decisions)
		return
	}
	for i := range subjects {
		if counts(subjects[i]) {
			e.local.Learn(charges[i:i+1], decisions[i:i+1])
		}
	}
}
