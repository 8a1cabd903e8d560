package compile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/lowering"
	"github.com/weir-dev/weir/limiter/rules"
)

// Attachment is the state of a policy at its targets.
type Attachment struct {
	Policy  string `json:"policy"`
	Cluster bool   `json:"cluster,omitempty"`
	// Targets has an entry for each entry of spec.targetRefs.
	Targets []gateway.Target `json:"targets"`
}

// claim is what a policy counts at a target.
type claim struct {
	cluster                                   bool
	owner, namespace, target, section, counts string
}

// claimsOf returns a claim for each target.
func claimsOf(p *lowering.Valid) []claim {
	claims := make([]claim, 0, len(p.Spec.TargetRefs))
	counts := waysToCount(p)
	for _, ref := range p.Spec.TargetRefs {
		c := claim{cluster: p.Cluster != nil, owner: p.Namespace, namespace: p.Namespace, target: string(ref.Kind) + "/" + ref.Name, counts: counts}
		if ref.Namespace != nil {
			c.namespace = *ref.Namespace
		}
		if ref.SectionName != nil {
			c.section = *ref.SectionName
		}
		claims = append(claims, c)
	}
	return claims
}

// reject rejects a target because an older policy of the same kind and namespace, which is enforced, counts the same requests of it in the same way.
// Both would limit the same thing twice, and the author means one of them. Policies that differ in how they count all apply.
func (c *claim) reject(t *gateway.Target, other string) {
	t.Fail(policyapi.ReasonConflicted, "", "policy %s, which is older, counts the same requests of %s in the same way; delete one of the "+
		"policies, or change its axis, identifier, window, algorithm, scope, match, cost or enforcement", other, c.target)
	t.Routes = nil
}

// waysToCount returns the parts of a policy that decide which requests count where. Two policies that are equal in them differ only in how many
// units they allow.
func waysToCount(p *lowering.Valid) string {
	spec := p.Spec
	text, err := json.Marshal(policyapi.RateLimitPolicySpec{
		Axis: spec.Axis, Identifier: spec.Identifier, Scope: spec.Scope, Match: spec.Match, Cost: spec.Cost, Enforcement: spec.Enforcement,
	})
	if err != nil {
		panic(fmt.Sprintf("compile: encode a spec: %v", err)) // strings and integers
	}
	windows := make([]string, len(p.Slots))
	for i := range p.Slots {
		windows[i] = fmt.Sprintf("%s %v", p.Slots[i].Limit.Algorithm(), p.Slots[i].Limit.Window())
	}
	slices.Sort(windows)
	return string(text) + strings.Join(windows, ",")
}

// problems returns the problems of a policy that no target accepts, and nil if a target accepts it.
func (a *Attachment) problems() (list []Problem) {
	for i, t := range a.Targets {
		if t.Reason == policyapi.ReasonAccepted {
			return nil
		}
		list = append(list, Problem{
			Policy: a.Policy, Cluster: a.Cluster, Field: fmt.Sprintf("spec.targetRefs[%d]%s", i, t.Field), Reason: t.Reason, Message: t.Message,
		})
	}
	return list
}

// apply restricts the rules of the policy to the routes of the targets, and clears these. Rules can share the memory of routes. The domains of the rules
// are then the namespaces of these routes. They are omitted if the policy has only routes of its own namespace.
func (a *Attachment) apply(own []rules.Rule) {
	var routes []rules.Route
	for i := range a.Targets {
		t := &a.Targets[i]
		switch {
		case len(routes) == 0:
			routes = t.Routes
		case !slices.Equal(routes, t.Routes): // often the same routes are on several listeners
			routes = gateway.SortRoutes(slices.Concat(routes, t.Routes))
		}
		t.Routes = nil // the result is kept
	}
	if routes == nil {
		routes = []rules.Route{} // without routes, the rule matches nothing
	}
	domains := gateway.NamespacesOf(routes)
	if len(domains) == 1 && domains[0] == own[0].Domain {
		domains = nil
	}
	for i := range own {
		own[i].Match.Routes, own[i].AllDomains, own[i].Domains = routes, false, domains
	}
}

// previousRules finds the rules of [Gateways.Previous] by policy.
type previousRules map[previousKey][]rules.Rule

type previousKey struct {
	policy  string
	cluster bool
}

// previousRulesOf returns no rules while the objects can be read.
func previousRulesOf(g *gateway.Objects) previousRules {
	if g == nil || g.Unreadable == nil {
		return nil
	}
	previous := previousRules{}
	for policy, own := range g.Previous.Policies() { // also rules without routes: their policy may have targets now
		previous[previousKey{policy, own[0].Domain == ""}] = own
	}
	return previous
}

// find returns the previous rules of the policy, nil if it has no such rule, and whether current, its rules without targets, differ in another way than
// by the routes, or had no routes.
func (byPolicy previousRules) find(policy *lowering.Valid, current []rules.Rule) (previous []rules.Rule, outdated bool) {
	previous = byPolicy[previousKey{policy.Name, policy.Cluster != nil}]
	switch {
	case previous == nil:
		return nil, false
	case previous[0].Match.Routes == nil: // the policy had no targets
		return previous, true
	}
	current = slices.Clone(current)
	for i := range current {
		rule := &current[i]
		rule.Match.Routes = previous[0].Match.Routes
		rule.AllDomains, rule.Domains = previous[0].AllDomains, previous[0].Domains // they follow from the routes
	}
	return previous, rules.PolicyRevision(current) != rules.PolicyRevision(previous)
}
