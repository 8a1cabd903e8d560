package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// Source is where a decision was made.
type Source string

// The sources of a decision.
const (
	SourceRedis  Source = "redis"
	SourceMemory Source = "memory" // the counters in the memory of a standalone limiter
	SourceCache  Source = "cache"  // a known denial: the store was not called
	SourceLease  Source = "lease"  // units that this replica had spent in the store before: the store was not called
	SourceLocal  Source = "local"  // the store was unavailable: the rule's OnStoreFailure
	SourceNone   Source = "none"   // no counter: the request matches no rule, or only unlimited tiers, or a limit of 0 denies it
)

// Answer is the decision about a request.
type Answer struct {
	// Allowed is false when an enforced rule denies.
	Allowed bool
	// Delay is how long an allowed request has to wait for its turn: the longest delay of its enforced rules.
	Delay time.Duration
	// Results are those of the enforced rules, strictest first, then those of the shadow rules, strictest first. Two kinds of
	// answers omit rules: a known denial has the results of the enforced rules that are known to deny, and while a part of
	// the store is unavailable, a denial has the results of the rules that were decided before it.
	Results []Result
	// Bypassed are the rules that match the request and do not count it, because of a bypass.
	Bypassed []Bypassed
	// Source is where the decisions were made; SourceLocal if any of them was made locally.
	Source Source
	// Revision of the rules that decided.
	Revision string
}

// Result is the decision under one rule.
type Result struct {
	Rule *matching.Compiled
	// Identifier as counted: limiter.Missing for a request without an identifier, limiter.Unreadable if the identifier cannot be read,
	// hashed if it is a secret.
	Identifier string
	// Missing names the sources of the identifier, if the rule denies the request because the request has no identifier. For example: "header x-api-key".
	Missing string
	// Tier of the rule that applies to the request, empty if the rule has no tier for it.
	Tier string
	// Window of the limit that was applied to the request.
	Window time.Duration
	// Source is where the decision was made.
	Source Source
	// Key of the counter. If the decision is Shared, it is that of the shared counter.
	Key string
	limiter.Decision
}

// Strictest returns the result that the client is shown: the strictest of the enforced rules. It is nil if no enforced rule matched.
func (a *Answer) Strictest() *Result {
	if len(a.Results) == 0 || a.Results[0].Rule.Shadow {
		return nil
	}
	return &a.Results[0]
}

// Denial returns the response that the deciding rule of a denial sets, or nil. The strictest rule decides, also if others deny.
func (a *Answer) Denial() *rules.Denial {
	r := a.Strictest()
	if a.Allowed || r == nil {
		return nil
	}
	return r.Rule.Denial
}

// unlimited is the answer to a request that no rule limits.
func (a *active) unlimited() Answer {
	return Answer{Allowed: true, Source: SourceNone, Revision: a.index.Revision()}
}

// answer is the answer to a request with at least one result, about one of its charges.
func (a *active) answer(charges []ruleCharge, results []Result) Answer {
	for i := range results {
		if r := &results[i]; r.Shared {
			r.Key = charges[indexOfKey(charges, r.Key)].charge.SharedKey()
		}
	}
	answer := Answer{Allowed: true, Source: results[0].Source, Results: results, Revision: a.index.Revision()}
	for i := range results {
		r := &results[i]
		if r.Source == SourceLocal {
			answer.Source = SourceLocal
		}
		if r.Rule.Shadow {
			continue
		}
		answer.Allowed = answer.Allowed && r.Allowed
		answer.Delay = max(answer.Delay, r.Delay)
	}
	if !answer.Allowed {
		answer.Delay = 0
	}
	slices.SortStableFunc(results, CompareResults)
	return answer
}

// CompareResults orders enforced rules before shadow rules, then the strictest first, then by policy.
func CompareResults(a, b Result) int {
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
