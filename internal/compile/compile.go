// Package compile compiles policies to the rules that limiters enforce.
//
// [Compile] is a pure function without I/O and without a clock. The same policies in any order compile to the same bytes. It validates
// everything again that the CRD validates, because an object can be older than a rule of the CRD, or come from a file. An invalid policy
// becomes a [Problem] that names the field. It does not affect the other policies.
package compile

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/compile/routetable"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Policies are the policies to compile, and the namespaces of the cluster.
type Policies struct {
	Namespaced []policyapi.RateLimitPolicy
	Cluster    []policyapi.ClusterRateLimitPolicy
	// Namespaces of the cluster, in any order. Rules that read labels or tenants of namespaces use them.
	Namespaces []Namespace
	// Gateways are the possible targets of policies. If nil, they are unknown: each route that a policy targets is assumed to exist, and a
	// policy that targets a Gateway limits no requests.
	Gateways *gateway.Objects
	// RouteMatching are the Gateways that do not name the route of a request.
	RouteMatching []policyapi.GatewayReference
}

// Namespace has the properties of a namespace that policies can depend on.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
}

// Result is the result of compiling policies.
type Result struct {
	// Set is what limiters enforce. It has a rule for each rate of each valid policy, sorted by name.
	Set rules.Set
	// Problems lists why the other policies are not enforced, sorted by policy, and for each policy in the order of its fields.
	Problems []Problem
	// Used is what the rules use of the budget.
	Used budget.Usage
	// Overrides lists the policies that have no effect because of another policy, sorted by policy and domain.
	Overrides []redundancy.Override
	// Attachments has the targets of each valid policy with spec.targetRefs, sorted by policy.
	Attachments []Attachment
	// Unmatched has the policies whose rules limit no request, as far as the policies and the objects in [Policies] show.
	Unmatched []Unmatched
	// LeftOut describes the routes that the table of routes does not have, because they exceed its bounds; empty if it has all.
	LeftOut string
	// Kept has the policies that keep their previous rules: see [Gateways.Unreadable].
	Kept []Kept
}

// Kept is a policy that keeps its previous rule.
type Kept struct {
	Policy  string
	Cluster bool
	// Outdated is true if the policy has another rule now.
	Outdated bool
}

// Problem is one reason why a policy is not enforced.
type Problem struct {
	Policy string `json:"policy"` // "namespace/name", or "_cluster/name"
	// Cluster is true if the policy is a ClusterRateLimitPolicy.
	Cluster bool   `json:"cluster,omitempty"`
	Field   string `json:"field"`  // "spec.match.http.paths[0].value"
	Reason  string `json:"reason"` // a reason of the condition Accepted: policyapi.ReasonInvalid
	Message string `json:"message"`
}

// String returns "shop/tenant-daily: spec.limit: message".
func (p Problem) String() string { return p.Policy + ": " + p.Field + ": " + p.Message }

// Compile compiles the policies to rules, and returns the problems of each invalid policy. Policies without an identifier use the identity
// table. Policies that are being deleted are ignored. The Set contains only those properties of namespaces that its rules read.
func (p Policies) Compile(identity Identity) Result {
	return p.CompileWithin(identity, budget.Budget{})
}

// CompileWithin is [Policies.Compile] for the policies that fit the budget. The others have a problem with policyapi.ReasonOverBudget.
func (p Policies) CompileWithin(identity Identity, budget budget.Budget) Result {
	var result Result
	policies := result.validate(p)
	lowered := p.lowerWithin(policies, identity, budget, &result)
	for i := range lowered {
		result.Set.Rules = append(result.Set.Rules, lowered[i].rules...)
	}
	slices.SortStableFunc(result.Set.Rules, func(x, y rules.Rule) int { return cmp.Compare(x.Policy, y.Policy) })
	slices.SortStableFunc(result.Problems, func(x, y Problem) int { return cmp.Compare(x.Policy, y.Policy) })
	if identity.HashKey != nil && result.Set.HashesIdentifiers() {
		result.Set.HashKey = identity.HashKey.ID()
	}
	result.Set.ByAge = byAge(lowered)
	result.Set.RouteTable, result.LeftOut = p.routeTable()
	result.Set.Namespaces = namespaceFacts(p.Namespaces, result.Set.Rules, identity)
	result.Overrides = redundancy.Overrides(result.Set.Rules)
	result.Unmatched = unmatched(result.Set, result.Attachments, p.Namespaces)
	return result
}

// lowerWithin returns the rules of the policies that have a target, if they need one, and that fit the budget, sorted by name. The others get a
// problem. It compiles the policies in order of precedence: a policy without a rule must not conflict with a newer one.
func (p Policies) lowerWithin(policies []validPolicy, identity Identity, budget budget.Budget, result *Result) (lowered []compiled) {
	hashKey := cmp.Or(identity.HashKey, new(limiter.HashKey))
	index, previous, fits := p.Gateways.Index(), previousRulesOf(p.Gateways), budget.NewFitting()
	taken := newClaims(index != nil)
	counters := map[string]string{} // the enforced policies, by the names under which they count
	for _, i := range precedence(policies) {
		valid := &policies[i]
		if other, isTaken := counters[valid.counter()]; isTaken {
			result.Problems = append(result.Problems, sharesCounters(valid, other))
			continue
		}
		targets := attach(index, valid.candidate)
		own := lower(*valid, identity, hashKey)
		var wanted []claim
		kept, outdated := previous.find(valid, own)
		switch {
		case len(targets) == 0:
		case kept != nil:
			own = kept
			result.Kept = append(result.Kept, Kept{valid.name, valid.cluster != nil, outdated})
		default:
			if taken != nil {
				wanted = claimsOf(valid)
				taken.reject(wanted, targets)
			}
			a := Attachment{Policy: valid.name, Cluster: valid.cluster != nil, Targets: targets}
			result.Attachments = append(result.Attachments, a)
			if problems := a.problems(); len(problems) > 0 {
				result.Problems = append(result.Problems, problems...)
				continue
			}
			a.apply(own)
		}
		c := compiled{candidate: valid.candidate, rules: own}
		if problem := fitRules(fits, &c); problem != nil {
			result.Problems = append(result.Problems, *problem)
			continue
		}
		if wanted != nil {
			taken.add(valid.name, wanted, targets)
		}
		counters[valid.counter()] = valid.name
		lowered = append(lowered, c)
	}
	result.Used = fits.Used
	result.sortByName(lowered)
	return lowered
}

// sharesCounters is the problem of a policy that would count on the counters of another one: each request would count twice.
func sharesCounters(p *validPolicy, other string) Problem {
	return Problem{
		Policy: p.name, Cluster: p.cluster != nil, Field: "spec.counterName", Reason: policyapi.ReasonConflicted,
		Message: fmt.Sprintf("policy %s has the counters of %s; delete it to hand them over, or use another counterName",
			other, p.counter()),
	}
}

// sortByName sorts rules and attachments.
func (r *Result) sortByName(lowered []compiled) {
	byName := func(a, b string, x, y bool) int { return cmp.Or(cmp.Compare(a, b), compareBool(!x, !y)) }
	slices.SortFunc(lowered, func(x, y compiled) int { return byName(x.name, y.name, x.cluster != nil, y.cluster != nil) })
	slices.SortFunc(r.Attachments, func(x, y Attachment) int { return byName(x.Policy, y.Policy, x.Cluster, y.Cluster) })
}

// precedence returns the indexes of the policies in the order in which a budget and their targets are given to them: cluster-scoped policies first,
// then the oldest ones.
func precedence(policies []validPolicy) []int {
	order := make([]int, len(policies))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		x, y := &policies[i], &policies[j]
		return cmp.Or(compareBool(x.cluster == nil, y.cluster == nil), x.created.Compare(y.created), cmp.Compare(x.name, y.name))
	})
	return order
}

// validate returns the valid policies, sorted by name, and adds the problems of the others to the result.
func (r *Result) validate(p Policies) (policies []validPolicy) {
	for _, same := range groupByName(p) {
		valid, found := validate(same)
		r.Problems = append(r.Problems, found...)
		if len(found) == 0 {
			policies = append(policies, valid)
		}
	}
	return policies
}

// Compile is [Policies.Compile] for namespaced policies only. These never override each other.
func Compile(policies []policyapi.RateLimitPolicy, identity Identity) (rules.Set, []Problem) {
	result := Policies{Namespaced: policies}.Compile(identity)
	return result.Set, result.Problems
}

// Usage returns what the valid policies use.
func (p Policies) Usage(identity Identity) budget.Usage {
	return p.CompileWithin(identity, budget.Budget{Total: budget.Usage{Rules: math.MaxInt64}}).Used
}

// compiled has the rules of a policy.
type compiled struct {
	candidate

	rules []rules.Rule
}

// fitRules adds the rules of a policy, or returns the problem of a policy that does not fit. Without a budget, all policies fit.
func fitRules(fits *budget.Fitting, c *compiled) *Problem {
	if fits.IsUnlimited() {
		return nil
	}
	charge := budget.Charge{Policy: c.name, Namespace: c.namespace, Cluster: c.cluster != nil, Usage: budget.RulesUsage(c.rules)}
	inherits := func(ref policyapi.TargetReference) bool { return gateway.Inherits(c.namespace, &ref) }
	if c.cluster == nil && slices.ContainsFunc(c.spec.TargetRefs, inherits) {
		charge.Usage.Bytes += budget.InheritedBytes * int64(len(c.rules))
	}
	e, fit := fits.Fit(&charge)
	if fit {
		return nil
	}
	return &Problem{Policy: c.name, Cluster: charge.Cluster, Field: "spec", Reason: policyapi.ReasonOverBudget, Message: budget.OverBudget(&charge, e)}
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	default:
		return 1
	}
}

// routeTable returns the table of the routes of the Gateways in RouteMatching, nil if the list is empty, and which routes it does not have.
func (p Policies) routeTable() (table *rules.RouteTable, leftOut string) {
	switch {
	case len(p.RouteMatching) == 0 || p.Gateways == nil:
		return nil, ""
	case p.Gateways.Unreadable != nil:
		return p.Gateways.Previous.RouteTable, ""
	}
	namespaces := make(map[string]map[string]string, len(p.Namespaces))
	for _, n := range p.Namespaces {
		namespaces[n.Name] = n.Labels
	}
	return routetable.Build(p.Gateways, p.RouteMatching, namespaces)
}
