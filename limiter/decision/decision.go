// Package decision has a request to decide and the answer to it, without what decides: programs that ask another limiter have only these.
package decision

import (
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// Check is one request to decide.
type Check struct {
	Request rules.Request
	// Endpoint that received the request, for an observer of the engine.
	Endpoint string
	// Cost is how many times the request counts, at least 0: a rule charges Cost times what one such request costs under the
	// rule. A request of Cost 0 is decided and changes nothing.
	Cost int64
	// Peek decides the request without charging it.
	Peek bool
	// CountDebts, with Peek and in CheckAll, charges the debts of a request that is denied for a reason outside its check.
	CountDebts bool
	// Alternative, in CheckAll, means that the checks are one request, which can be each of them. It is charged to all of their counters,
	// and to each only once.
	Alternative bool
	// NoDelay denies a request that would have to wait for its turn under a LeakyBucket, for callers that cannot hold it back.
	NoDelay bool
	// MaxDelay, unless 0, denies a request that would have to wait longer for its turn. It is rounded down to milliseconds, and ignored
	// if it is longer than 30 minutes.
	MaxDelay time.Duration
	// Override, unless nil, replaces the limit of every rule.
	Override *Override
}

// Override is a limit that comes with a request, with each rule's algorithm. An identifier has one counter under each rule for all overrides with the
// same window, whatever their units: what was spent under one counts under the others. It is apart from the counter of the rule's own limit.
type Override struct {
	Units  int64
	Window time.Duration
	// WithoutCost makes a request cost 1 unit under each rule, in place of the cost of the rule.
	WithoutCost bool
}

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

// Rule is a rule of an index.
type Rule = matching.Compiled

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

// Bypassed is a rule that matches a request and does not count it, because of a bypass.
type Bypassed struct {
	Rule *matching.Compiled
	// Identifier as in [Result].
	Identifier string
	By         *bypass.Bypass
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
