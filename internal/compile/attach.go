package compile

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
)

// Attachment is the state of a policy at its targets.
type Attachment struct {
	Policy  string `json:"policy"`
	Cluster bool   `json:"cluster,omitempty"`
	// Targets has an entry for each entry of spec.targetRefs.
	Targets []gateway.Target `json:"targets"`
}

// attach resolves the targets of a policy.
func attach(x *gateway.Index, policy candidate) (targets []gateway.Target) {
	for _, ref := range policy.spec.TargetRefs {
		targets = append(targets, x.Resolve(policy.namespace, policy.cluster != nil, ref))
	}
	return targets
}

// claim is what a policy counts at a target.
type claim struct {
	cluster                                   bool
	owner, namespace, target, section, counts string
}

// claims has the names of the policies that are enforced, by what they count. It is nil if the targets are unknown.
type claims map[claim]string

// newClaims returns no claims of targets that are known, and nil if they are unknown.
func newClaims(areKnown bool) claims {
	if areKnown {
		return claims{}
	}
	return nil
}

// claimsOf returns a claim for each target.
func claimsOf(p *validPolicy) []claim {
	claims := make([]claim, 0, len(p.spec.TargetRefs))
	counts := waysToCount(p.spec)
	for _, ref := range p.spec.TargetRefs {
		c := claim{cluster: p.cluster != nil, owner: p.namespace, namespace: p.namespace, target: string(ref.Kind) + "/" + ref.Name, counts: counts}
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

// reject rejects a target if an older policy of the same kind and namespace, which is enforced, counts the same requests of it in the same way.
// Both would limit the same thing twice, and the author means one of them. Policies that differ in how they count all apply.
func (taken claims) reject(wanted []claim, targets []gateway.Target) {
	for i := range targets {
		t := &targets[i]
		if other, isTaken := taken[wanted[i]]; isTaken && t.Reason == v1alpha1.ReasonAccepted {
			t.Fail(v1alpha1.ReasonConflicted, "", "policy %s, which is older, counts the same requests of %s in the same way; delete one of the "+
				"policies, or change its axis, identifier, window, algorithm, scope, match, cost or enforcement", other, wanted[i].target)
			t.Routes = nil
		}
	}
}

// add adds the accepted targets of a policy that is enforced.
func (taken claims) add(policy string, wanted []claim, targets []gateway.Target) {
	for i := range targets {
		if targets[i].Reason == v1alpha1.ReasonAccepted {
			taken[wanted[i]] = policy
		}
	}
}

// waysToCount returns the parts of a spec that decide which requests count where. Two policies that are equal in them differ only in how many
// units they allow.
func waysToCount(spec *v1alpha1.RateLimitPolicySpec) string {
	text, err := json.Marshal(v1alpha1.RateLimitPolicySpec{
		Axis: spec.Axis, Window: spec.Window, Algorithm: spec.Algorithm, Identifier: spec.Identifier, Scope: spec.Scope, Match: spec.Match,
		Cost: spec.Cost, Enforcement: spec.Enforcement,
	})
	if err != nil {
		panic(fmt.Sprintf("compile: encode a spec: %v", err)) // strings and integers
	}
	return string(text)
}

// problems returns the problems of a policy that no target accepts, and nil if a target accepts it.
func (a *Attachment) problems() (list []Problem) {
	for i, t := range a.Targets {
		if t.Reason == v1alpha1.ReasonAccepted {
			return nil
		}
		list = append(list, Problem{
			Policy: a.Policy, Cluster: a.Cluster, Field: fmt.Sprintf("spec.targetRefs[%d]%s", i, t.Field), Reason: t.Reason, Message: t.Message,
		})
	}
	return list
}

// apply restricts the rule to the routes of the targets, and clears these. Rules can share the memory of routes. The domains of the rule are then the
// namespaces of these routes. They are omitted if the rule has only routes of its own namespace.
func (a *Attachment) apply(rule *rules.Rule) {
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
	rule.Match.Routes = routes
	rule.AllDomains, rule.Domains = false, gateway.NamespacesOf(routes)
	if len(rule.Domains) == 1 && rule.Domains[0] == rule.Domain {
		rule.Domains = nil
	}
}

// previousRules finds the rules of [Gateways.Previous] by policy.
type previousRules map[previousKey]*rules.Rule

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
	for i := range g.Previous.Rules { // also rules without routes: their policy may have targets now
		rule := &g.Previous.Rules[i]
		previous[previousKey{rule.Policy, rule.Domain == ""}] = rule
	}
	return previous
}

// find returns the previous rule of the policy, nil if it has no such rule, and whether current, its rule without targets, differs in another way than
// by the routes, or had no routes.
func (byPolicy previousRules) find(policy validPolicy, current rules.Rule) (previous *rules.Rule, outdated bool) {
	previous = byPolicy[previousKey{policy.name, policy.cluster != nil}]
	switch {
	case previous == nil:
		return nil, false
	case previous.Match.Routes == nil: // the policy had no targets
		return previous, true
	}
	current.Match.Routes = previous.Match.Routes
	current.AllDomains, current.Domains = previous.AllDomains, previous.Domains // they follow from the routes
	return previous, current.Revision() != previous.Revision()
}
