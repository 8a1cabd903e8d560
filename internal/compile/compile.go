// Package compile compiles policies to the rules that limiters enforce.
//
// [Compile] is a pure function without I/O and without a clock. The same policies in any order compile to the same bytes. It validates
// everything again that the CRD validates, because an object can be older than a rule of the CRD, or come from a file. An invalid policy
// becomes a [Problem] that names the field. It does not affect the other policies.
package compile

import (
	"fmt"
	"math"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/lowering"
	"github.com/weir-dev/weir/internal/compile/redundancy"
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
	// Set is what limiters enforce. It has a rule for each rate of each valid policy, sorted by name. Set.Rules is overwritten when the [Memo] compiles
	// again: the rules in Policies are not.
	Set rules.Set
	// Policies has the policies with rules in the Set, in the order of their rules.
	Policies []*Compiled
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
type Problem = lowering.Problem

// Identity is the identity table of a Limiter.
type Identity = lowering.Identity

// DefaultIdentity returns the identity table with the defaults of a Limiter.
func DefaultIdentity() Identity { return lowering.DefaultIdentity() }

// LimitsWrites reports whether the policy limits writes to the Kubernetes API.
func LimitsWrites(match *policyapi.Match) bool { return lowering.LimitsWrites(match) }

// Compile compiles the policies to rules, and returns the problems of each invalid policy. Policies without an identifier use the identity
// table. Policies that are being deleted are ignored. The Set contains only those properties of namespaces that its rules read.
func (p Policies) Compile(identity Identity) Result {
	return p.CompileWithin(identity, budget.Budget{})
}

// CompileWithin is [Policies.Compile] for the policies that fit the budget. The others have a problem with policyapi.ReasonOverBudget.
func (p Policies) CompileWithin(identity Identity, budget budget.Budget) Result {
	return new(Memo).Compile(p.inputs(), identity, budget)
}

// inputs returns what a [Memo] compiles. Policies that are being deleted are ignored.
func (p Policies) inputs() Inputs {
	return Inputs{Policies: p.origins, Namespaces: p.Namespaces, Gateways: p.Gateways, RouteMatching: p.RouteMatching}
}

func (p Policies) origins(yield func(Origin) bool) {
	for i := range p.Namespaced {
		n := &p.Namespaced[i]
		s := Source{Namespace: n.Namespace, Name: n.Name, Created: n.CreationTimestamp, Spec: &n.Spec}
		if n.DeletionTimestamp == nil && !yield(&s) {
			return
		}
	}
	for i := range p.Cluster {
		c := &p.Cluster[i]
		s := Source{Name: c.Name, Created: c.CreationTimestamp, Cluster: &c.Spec}
		if c.DeletionTimestamp == nil && !yield(&s) {
			return
		}
	}
}

// Source implements [Origin].
func (s *Source) Source() *Source { return s }

// sharesCounters is the problem of a policy that would count on the counters of another one: each request would count twice.
func sharesCounters(p *lowering.Policy, other string) Problem {
	return Problem{
		Policy: p.Name, Cluster: p.Cluster != nil, Field: "spec.counterName", Reason: policyapi.ReasonConflicted,
		Message: fmt.Sprintf("policy %s has the counters of %s; delete it to hand them over, or use another counterName",
			other, p.Counter()),
	}
}

// sharesName is the problem of policies that have the same name.
func sharesName(p *lowering.Policy, policies int) Problem {
	const message = "%d policies have this name and none of them is enforced; rename all but one"
	return Problem{
		Policy: p.Name, Cluster: p.Cluster != nil, Field: "metadata.name", Reason: policyapi.ReasonInvalid, Message: fmt.Sprintf(message, policies),
	}
}

// Compile is [Policies.Compile] for namespaced policies only. These never override each other.
func Compile(policies []policyapi.RateLimitPolicy, identity Identity) (rules.Set, []Problem) {
	result := Policies{Namespaced: policies}.Compile(identity)
	return result.Set, result.Problems
}

// Usage returns what the valid policies use.
func (p Policies) Usage(identity Identity) budget.Usage {
	return p.CompileWithin(identity, Counting()).Used
}

// Counting returns a budget that all policies fit, with which [Result] has what they use.
func Counting() budget.Budget { return budget.Budget{Total: budget.Usage{Rules: math.MaxInt64}} }
