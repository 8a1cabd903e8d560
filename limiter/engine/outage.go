package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/rules"
)

// Remote is a store that can be away.
type Remote interface {
	limiter.Store
	// Unavailable says whether the counter at key cannot be asked for the moment. It takes no time.
	Unavailable(key string) bool
	// ReportUsage counts as much of a charge as fits: units that were spent elsewhere while the counter could not be asked. If
	// none were counted, uncounted is true, without an error if the counter still cannot be asked; else an error leaves
	// that open.
	ReportUsage(ctx context.Context, charge limiter.Charge) (uncounted bool, err error)
}

// StandIn makes the Engine decide by each rule's OnStoreFailure while the counters in remote, which is its store, cannot
// be asked: locally on counters. Whoever finds that they cannot calls [Engine.Unavailable], and [Engine.Recovered] when they can again.
func StandIn(remote Remote, counters *local.Counters, log *slog.Logger) Option {
	return func(e *Engine) {
		e.remote, e.local, e.mode.log = remote, counters, log
		e.mode.sometimes = rate.Sometimes{First: 1, Interval: oddPause}
	}
}

// oddPause is between two lines about errors of the store that make no outage.
const oddPause = time.Minute

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

// decide decides for all subjects, by the store as far as it can be asked.
func (e *Engine) decide(ctx context.Context, now *inForce, subjects []subject, peek bool, began time.Time) ([]Result, error) {
	far, near := e.apart(subjects)
	if len(near) > 0 {
		return e.decideApart(ctx, now, far, near, peek, began)
	}
	if e.wary(began, far) {
		return e.decideWarily(ctx, now, far, peek, began)
	}
	results, err := e.ask(ctx, now, far, peek, began)
	if err == nil || e.local == nil {
		return results, err
	}
	// Whatever the store has counted or not: from here on it has no say. What it has counted it will tell when it is back.
	return e.decideLocally(now, far, peek, err)
}

// apart tells the subjects whose counters the store can be asked for from those that are near: for those it is away.
func (e *Engine) apart(subjects []subject) (far, near []subject) {
	if e.remote == nil {
		return subjects, nil
	}
	for i := range subjects {
		if e.remote.Unavailable(subjects[i].charge.Key) {
			near = append(near, subjects[i])
		}
	}
	if len(near) == 0 || len(near) == len(subjects) {
		return subjects[:len(subjects)-len(near)], near
	}
	for i := range subjects {
		if !e.remote.Unavailable(subjects[i].charge.Key) {
			far = append(far, subjects[i])
		}
	}
	return far, near
}

// decideApart charges near and far, all or nothing: near first, which costs nothing to undo.
func (e *Engine) decideApart(ctx context.Context, now *inForce, far, near []subject, peek bool, began time.Time) ([]Result, error) {
	results, err := e.decideLocally(now, near, peek, nil)
	if err != nil || len(far) == 0 || !pass(results) {
		return results, err
	}
	answered, err := e.ask(ctx, now, far, peek, began)
	if err == nil && pass(answered) {
		return append(results, answered...), nil
	}
	if !peek {
		e.undo(near, results)
	}
	if err != nil { // of far: now all are near
		return e.decideLocally(now, append(near, far...), peek, err)
	}
	results, err = e.decideLocally(now, near, true, nil)
	return append(results, answered...), err
}

// decideWarily asks the store, and charges this replica's share as well: other replicas may not have heard yet that the
// store is back, and still reckon with theirs.
func (e *Engine) decideWarily(ctx context.Context, now *inForce, subjects []subject, peek bool, began time.Time) ([]Result, error) {
	ours := shared(subjects)
	reserved := charges(ours)
	ask := e.local.Reserve
	if peek {
		ask = e.local.Peek
	}
	decisions := ask(reserved)
	results := make([]Result, len(ours))
	for i := range ours {
		results[i] = ours[i].result(decisions[i], SourceLocal)
	}
	if !pass(results) {
		return results, nil
	}
	answered, err := e.ask(ctx, now, subjects, peek, began)
	if (err != nil || !pass(answered)) && !peek {
		e.local.Refund(reserved, decisions)
	}
	if err != nil {
		return e.decideLocally(now, subjects, peek, err)
	}
	return answered, nil
}

// decideLocally decides by what the rules say for the time when the store is away; cause is why it is.
func (e *Engine) decideLocally(now *inForce, subjects []subject, peek bool, cause error) ([]Result, error) {
	e.mode.odd(cause)
	results := make([]Result, 0, len(subjects))
	for i := range subjects {
		s := &subjects[i]
		switch {
		case s.rule.OnStoreFailure == rules.LocalOnFailure: // below
		case s.rule.OnStoreFailure == rules.DenyOnFailure && !s.rule.Shadow:
			if !peek {
				now.tallies.refused(s.rule)
				e.mode.refused.Add(1)
			}
			return nil, &RefusedError{Policy: s.rule.Policy, cause: cause}
		default: // as if nothing had been spent
			d := s.charge.Limit.NewState().Decide(limiter.At(e.clock()), s.charge.Limit, s.charge.Units())
			results = append(results, s.result(d, SourceLocal))
		}
	}
	counted := shared(subjects)
	if len(counted) == 0 {
		return results, nil
	}
	ask := e.local.Spend
	if peek || !pass(results) { // a cost above the limit of a rule that counts nothing
		ask = e.local.Peek
	}
	for i, d := range ask(charges(counted)) {
		results = append(results, counted[i].result(d, SourceLocal))
	}
	return results, nil
}

// undo takes back what decideLocally has counted.
func (e *Engine) undo(near []subject, results []Result) {
	decided := make(map[string]limiter.Decision, len(results))
	for i := range results {
		decided[results[i].Key] = results[i].Decision
	}
	counted := shared(near)
	decisions := make([]limiter.Decision, len(counted))
	for i := range counted {
		decisions[i] = decided[counted[i].charge.Key]
	}
	e.local.Refund(charges(counted), decisions)
}

// shared are the subjects whose rules are decided locally while the store is away.
func shared(subjects []subject) []subject {
	var counted []subject
	for i := range subjects {
		if subjects[i].rule.OnStoreFailure == rules.LocalOnFailure {
			counted = append(counted, subjects[i])
		}
	}
	return counted
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
	if e.local == nil || e.wary(began, subjects) { // then other replicas have spent what the store does not know
		return
	}
	for i := range subjects {
		if subjects[i].rule.OnStoreFailure == rules.LocalOnFailure {
			e.local.Learn(charges[i:i+1], decisions[i:i+1])
		}
	}
}
