package envoy

import (
	"context"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// Reference makes the rate limit service answer as that of the Envoy project, github.com/envoyproxy/ratelimit: with statuses alone. They
// name a limit only if the configuration does, and report the limits of shadow rules.
type Reference struct {
	// Limit returns what to report about the limit of a policy. Nil means that the policy is gone: its limit has no name.
	Limit func(policy string) *ReferenceLimit
	// CountsDenied is true if the rules have whole debts, so that denied hits count too. Then 0 hits are denied only if more than the
	// limit has been used. Otherwise, they are denied if nothing remains.
	CountsDenied bool
	// Mixed reports whether some rules are not as CountsDenied states. Then each rule decides in its own way, and a request with 0 hits for
	// one descriptor and more for another takes two calls of the store. Nil means never.
	Mixed func() bool
}

// ReferenceLimit is a limit in the configuration of the service.
type ReferenceLimit struct {
	// Name in responses; usually empty.
	Name string
	// Zero is true if the limit is 0, for which the rule has another limit that denies everything.
	Zero bool
	// Count counts the hits of one descriptor under the limit. Nil disables counting.
	Count func(hits int64, r *engine.Result)
}

// adapt changes the limits in a request as the service reads them. Their units are all 32-bit numbers: more than a limit can have becomes
// the maximum. They replace a limit of 0 too: its cost, which denies everything, does not apply.
func (*Reference) adapt(q *batch) {
	for i := range q.checks {
		if o := q.checks[i].Override; o != nil {
			o.Units, o.WithoutCost = min(o.Units, limiter.MaxUnits), true
		}
	}
}

// decide decides all descriptors at one instant, as the service does in one pipeline. A descriptor with 0 hits is tested with no units,
// which fit unless more than the limit has been used.
func (s *Reference) decide(ctx context.Context, e *engine.Engine, q *batch) ([]engine.Answer, error) {
	for i := range q.checks {
		if q.intents[i] == peek {
			q.checks[i].Cost, q.checks[i].Peek = 0, false
		}
	}
	return e.CheckAll(ctx, q.checks)
}

// decideEach decides each descriptor as its own rule does: it tests those with 0 hits, and then charges the others. If a test fails, it
// charges only debts.
func (s *Reference) decideEach(ctx context.Context, e *engine.Engine, q *batch) ([]engine.Answer, error) {
	var of [2][]int // indexes in q: with 0 hits, and with more
	for i, intent := range q.intents {
		group := 1
		if intent == peek {
			group, q.checks[i].Cost, q.checks[i].Peek = 0, 0, false
		}
		of[group] = append(of[group], i)
	}
	answers, pass := make([]engine.Answer, len(q.checks)), true
	for group, indexes := range of {
		checks := make([]engine.Check, len(indexes))
		for i, index := range indexes {
			checks[i] = q.checks[index]
			checks[i].Peek, checks[i].CountDebts = !pass, !pass
		}
		results, err := e.CheckAll(ctx, checks)
		if err != nil {
			return nil, err
		}
		for i := range results {
			if group == 0 {
				results[i].Allowed = results[i].Allowed && !isUsedUp(&results[i])
				pass = pass && results[i].Allowed
			}
			answers[indexes[i]] = results[i]
		}
	}
	return answers, nil
}

// isUsedUp reports whether nothing remains of the limit of a descriptor that does not count denied hits.
func isUsedUp(a *engine.Answer) bool {
	return len(a.Results) > 0 && !a.Results[0].Rule.WholeDebt && !a.Results[0].Rule.Shadow && a.Results[0].Remaining == 0
}

// respond appends the response of a call, and reports whether it is a denial.
func (s *Reference) respond(b []byte, answers []engine.Answer, q *batch, now time.Time) (response []byte, overLimit bool) {
	allowed := true
	for i := range answers {
		allowed = allowed && answers[i].Allowed
	}
	b = appendEnum(b, responseOverallCode, code(allowed))
	for i := range answers {
		var begin int
		b, begin = beginMessage(b, responseStatuses)
		b = appendEnum(b, statusCode, code(answers[i].Allowed))
		if len(answers[i].Results) > 0 {
			b = s.appendResult(b, &answers[i].Results[0], q, i, now)
		}
		b = endMessage(b, begin)
	}
	return b, !allowed
}

// appendResult appends the limit of a descriptor and what remains of it. A descriptor has one result: its limits exclude each other.
func (s *Reference) appendResult(b []byte, r *engine.Result, q *batch, i int, now time.Time) []byte {
	limit := s.Limit(r.Rule.Policy)
	if limit == nil {
		limit = &ReferenceLimit{}
	}
	if limit.Count != nil && q.intents[i] == spend {
		limit.Count(q.checks[i].Cost, r)
	}
	remaining, units := r.Remaining, r.Decision.Limit
	o := q.checks[i].Override
	replaced := o != nil && units == o.Units && r.Window == o.Window
	if limit.Zero && !replaced {
		remaining, units = 0, 0
	}
	var begin int
	b, begin = beginMessage(b, statusLimit)
	b = appendVarint(b, currentRequests, uint64(clampUint32(units)))
	unit, _ := unitOf(r.Window, false)
	b = appendEnum(b, currentUnit, unit)
	b = appendString(b, currentName, limit.Name)
	b = endMessage(b, begin)
	b = appendVarint(b, statusRemaining, uint64(clampUint32(remaining)))
	return appendDuration(b, statusReset, untilWindowEnds(r, now))
}

// untilWindowEnds returns the time until a fixed window ends, also if nothing has been counted in it.
func untilWindowEnds(r *engine.Result, now time.Time) time.Duration {
	if !r.Rule.Algorithm.Traits().EndsWithWindow() {
		return untilReset(r.Allowed, r.Decision)
	}
	if r.ResetAfter > 0 {
		return r.ResetAfter
	}
	window := int64(r.Window / time.Microsecond)
	return time.Duration(window-now.UnixMicro()%window) * time.Microsecond
}
