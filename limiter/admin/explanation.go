package admin

import (
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// Explanation explains the decision about one request.
type Explanation struct {
	// Revision of the rule set that was explained.
	Revision string `json:"revision"`
	// Answer as POST /v1/check would return it. Its policy is the one that decides.
	Answer reply.Answer `json:"answer"`
	// RefusedBy is the policy that rejects the request with an error, because Redis is unavailable. The answer is then empty.
	RefusedBy string `json:"refusedBy,omitempty"`
	// Exempt is true for a write to the Kubernetes API that no policy limits. The policies are then those that would match otherwise.
	Exempt bool `json:"exempt,omitempty"`
	// Policies that could apply to the request, sorted by name: those for its domain.
	Policies []Policy `json:"policies"`
	// OtherPolicies is the number of policies for other domains, which are not listed.
	OtherPolicies int `json:"otherPolicies"`
}

// Policy is the part of one policy in an Explanation.
type Policy struct {
	Policy string `json:"policy"`
	Axis   string `json:"axis"`
	Shadow bool   `json:"shadow,omitempty"`
	// Outcome is one of the outcomes below.
	Outcome Outcome `json:"outcome"`
	// Reason explains the outcome in a sentence.
	Reason string `json:"reason"`
	// Field of the policy's spec that the request does not meet, for example "match.http.methods". Only if the outcome is NoMatch.
	Field string `json:"field,omitempty"`
	// Charge describes the counter. It is absent if the policy does not count the request.
	Charge *Charge `json:"charge,omitempty"`
}

// Outcome is what a policy does with a request.
type Outcome string

// The outcomes.
const (
	Allows    Outcome = "Allows"
	Denies    Outcome = "Denies"    // a Shadow policy reports it, and the request is not denied
	NoMatch   Outcome = "NoMatch"   // the policy does not apply
	Replaced  Outcome = "Replaced"  // another policy replaces this one, which is a default
	LeftOut   Outcome = "LeftOut"   // too many other policies match
	Unlimited Outcome = "Unlimited" // a tier without limit applies
	Bypassed  Outcome = "Bypassed"  // a bypass lets the identifier pass
	Undecided Outcome = "Undecided" // another policy denied the request first, or the counter is unavailable
)

// Charge is a counter that a request is charged to. Durations are whole milliseconds, rounded up.
type Charge struct {
	Identifier string `json:"identifier"`
	// Hashed as in [Counter].
	Hashed bool `json:"hashed,omitempty"`
	// From is where the identifier comes from, for example "header x-tenant-id".
	From string `json:"from"`
	// Tier of the policy that applies, or "".
	Tier string `json:"tier,omitempty"`
	// Cost of the request in units.
	Cost      int64             `json:"cost"`
	Algorithm limiter.Algorithm `json:"algorithm,omitempty"`
	Limit     int64             `json:"limit,omitempty"`
	Burst     int64             `json:"burst,omitempty"`
	Window    string            `json:"window,omitempty"`
	// Key of the counter in Redis; "" for a tier without limit.
	Key string `json:"key,omitempty"`
	// Shared is true if identifiers over the bound share this counter.
	Shared bool `json:"shared,omitempty"`
	// Used and Remaining are units. They are absent if the counter was not read. With the source local, they are those of this replica's
	// share of the limit.
	Used         *int64 `json:"used,omitempty"`
	Remaining    *int64 `json:"remaining,omitempty"`
	ResetAfterMs int64  `json:"resetAfterMs,omitempty"`
	// RetryAfterMs is absent if the policy allows the request, or no retry can succeed.
	RetryAfterMs *int64 `json:"retryAfterMs,omitempty"`
	DelayMs      int64  `json:"delayMs,omitempty"`
	// Source of the figures: redis, memory, or local while Redis is unavailable.
	Source engine.Source `json:"source,omitempty"`
}

// NewExplanation converts x, an explanation of r. With allPolicies, it lists the policies of all domains.
func NewExplanation(x *engine.Explanation, r *rules.Request, allPolicies bool) Explanation {
	out := Explanation{Revision: x.Revision, RefusedBy: x.Refused, Policies: []Policy{}}
	if x.Refused == "" {
		out.Answer = reply.NewAnswer(&x.Answer)
	}
	secrets := secretsOf(x.Policies)
	for i := range x.Policies {
		p := &x.Policies[i]
		if p.Failed == matching.ConditionDomain && !allPolicies {
			out.OtherPolicies++
			continue
		}
		out.Policies = append(out.Policies, newPolicy(p, r, out.Answer.Policy, secrets))
	}
	return out
}

func newPolicy(p *engine.ExplainedPolicy, r *rules.Request, decides string, secrets isSecret) Policy {
	out := Policy{Policy: p.Rule.Policy, Axis: p.Rule.Axis, Shadow: p.Rule.Shadow}
	switch {
	case p.Matched == nil:
		out.Outcome, out.Field, out.Reason = NoMatch, fieldOf(&p.Explained), mismatch(&p.Explained, r, secrets)
	case p.ReplacedBy != "":
		out.Outcome, out.Reason = Replaced, "policy "+p.ReplacedBy+" replaces this default"
	case p.LeftOut:
		out.Outcome, out.Reason = LeftOut, leftOut(p.Rule)
	default:
		out.Charge = newCharge(p, r)
		out.Outcome, out.Reason = outcome(p, decides)
	}
	return out
}

func newCharge(p *engine.ExplainedPolicy, r *rules.Request) *Charge {
	source, _ := p.Rule.SourceOf(p.Identifier)
	c := &Charge{
		Identifier: p.Identifier, Hashed: p.Rule.Hashes(p.Identifier), From: identifierSource(source, r),
		Tier: p.Terms.Tier, Cost: p.Terms.Cost, Key: p.Key, Shared: p.Shared,
	}
	if p.Terms.Unlimited || p.Bypass != nil {
		return c
	}
	limit := p.Terms.Limit
	c.Algorithm, c.Limit, c.Burst, c.Window = limit.Algorithm(), limit.Units(), limit.Burst(), limit.Window().String()
	if d := p.Result; d != nil {
		c.Used, c.Remaining, c.Source = &p.Used, &d.Remaining, d.Source
		c.ResetAfterMs, c.DelayMs = milliseconds(d.ResetAfter), milliseconds(d.Delay)
		if !d.Allowed && d.RetryAfter != limiter.Never {
			wait := milliseconds(d.RetryAfter)
			c.RetryAfterMs = &wait
		}
	}
	return c
}

func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
