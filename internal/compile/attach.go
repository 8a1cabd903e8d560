package compile

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// Attachment is the state of a policy at its targets.
type Attachment struct {
	Policy  string `json:"policy"`
	Cluster bool   `json:"cluster,omitempty"`
	// Targets has an entry for each entry of spec.targetRefs.
	Targets []Target `json:"targets"`
}

// Target is the state of a policy at one entry of spec.targetRefs.
type Target struct {
	Ref     v1alpha1.TargetReference `json:"ref"`
	Reason  string                   `json:"reason"` // of the condition Accepted
	Message string                   `json:"message"`

	Field  string        `json:"-"` // of the problem, within the entry
	Routes []rules.Route `json:"-"` // sorted; shared with other targets
}

// attach resolves the targets of a policy.
func attach(x *gatewayIndex, policy candidate) (targets []Target) {
	for _, ref := range policy.spec.TargetRefs {
		targets = append(targets, x.resolve(policy.namespace, policy.cluster != nil, ref))
	}
	return targets
}

// resolve finds the routes of a target of a policy in namespace, or of a cluster-scoped policy. Without an index, every route exists, and no route is
// attached to a Gateway.
func (x *gatewayIndex) resolve(namespace string, isCluster bool, ref v1alpha1.TargetReference) Target {
	key := objectKey{ref.Kind, namespace, ref.Name}
	if ref.Namespace != nil {
		key.namespace = *ref.Namespace
	}
	section := ""
	if ref.SectionName != nil {
		section = *ref.SectionName
	}
	t := Target{Ref: ref, Reason: v1alpha1.ReasonAccepted}
	switch {
	case x != nil && x.Unreadable != nil:
		t.fail(v1alpha1.ReasonTargetNotFound, "", "the operator cannot read the objects of the Gateway API: %v; it retries", x.Unreadable)
	case x != nil && slices.Contains(x.Missing, ref.Kind):
		t.fail(v1alpha1.ReasonTargetNotFound, "", "the cluster has no %s, because the CRDs of the Gateway API are not installed; install them: "+
			"the operator finds them without a restart", ref.Kind)
	case ref.Kind == v1alpha1.TargetGateway:
		x.resolveGateway(&t, namespace, isCluster, key, section)
	default:
		x.resolveRoute(&t, key, section)
	}
	return t
}

func (t *Target) fail(reason, field, format string, args ...any) {
	t.Reason, t.Field, t.Message = reason, field, fmt.Sprintf(format, args...)
}

func (x *gatewayIndex) resolveRoute(t *Target, key objectKey, rule string) {
	if x != nil {
		route := x.routes[key]
		switch {
		case route == nil:
			t.fail(v1alpha1.ReasonTargetNotFound, ".name", "%s does not exist; create it, or correct the name", key)
			return
		case rule != "" && !slices.Contains(route.Rules, rule):
			t.fail(v1alpha1.ReasonTargetNotFound, ".sectionName", "%s has no rule with the name %s; name the rule, or correct sectionName", key, rule)
			return
		}
	}
	target := rules.RouteTarget(string(key.kind), key.name, rule)
	t.Routes = []rules.Route{{Namespace: key.namespace, Target: target}}
	t.Message = fmt.Sprintf("limits the requests for which the gateway names route %s of namespace %s", target, key.namespace)
}

// resolveGateway resolves a Gateway to the routes that it has accepted, for a namespaced policy to those of its namespace.
func (x *gatewayIndex) resolveGateway(t *Target, namespace string, isCluster bool, key objectKey, listener string) {
	if x == nil {
		return
	}
	gateway := x.gateways[key]
	switch {
	case !isCluster && key.namespace != namespace && !x.permits(namespace, key):
		t.fail(v1alpha1.ReasonRefNotPermitted, ".namespace", "no ReferenceGrant in namespace %s permits RateLimitPolicies of namespace %s to target "+
			"Gateway %s; ask the owner of the Gateway for one", key.namespace, namespace, key.name)
		return
	case gateway == nil:
		t.fail(v1alpha1.ReasonTargetNotFound, ".name", "%s does not exist; create it, or correct the name", key)
		return
	case listener != "" && !slices.ContainsFunc(gateway.Listeners, func(l Listener) bool { return l.Name == listener }):
		t.fail(v1alpha1.ReasonTargetNotFound, ".sectionName", "%s has no listener with the name %s; correct sectionName", key, listener)
		return
	}
	of := listenerKey{key, listener, namespace}
	found, known := x.resolved[of]
	if !known {
		found = x.resolveListener(of)
		x.resolved[of] = found
	}
	t.Routes, t.Message = found.routes, found.message
}

// listenerKey is a Gateway, one of its listeners or all of them if listener is empty, and the namespace of the routes, or all namespaces if
// namespace is empty.
type listenerKey struct {
	gateway             objectKey
	listener, namespace string
}

// resolvedListener is what the targets of all policies for one listenerKey share.
type resolvedListener struct {
	routes  []rules.Route // sorted; read-only
	message string
}

func (x *gatewayIndex) resolveListener(of listenerKey) (found resolvedListener) {
	var elsewhere []string
	for _, route := range x.attached[of.gateway] {
		if of.namespace != "" && route.Namespace != of.namespace || !x.isOn(route, of.gateway, of.listener) {
			continue
		}
		found.routes = append(found.routes, route.rule())
		if x.isElsewhere(route, of.gateway, of.listener) {
			elsewhere = append(elsewhere, objectKey{route.Kind, route.Namespace, route.Name}.String())
		}
	}
	found.routes = sortRoutes(found.routes)
	found.message = fmt.Sprintf("limits the requests for which the gateway names one of the %d routes that the Gateway has accepted", len(found.routes))
	if of.namespace != "" {
		found.message += " from namespace " + of.namespace
	}
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		found.message += fmt.Sprintf("; %d of them have other Gateways or listeners, whose requests count too, such as %s", len(elsewhere), elsewhere[0])
	}
	return found
}

// String returns "HTTPRoute shop/checkout".
func (k objectKey) String() string { return fmt.Sprintf("%s %s/%s", k.kind, k.namespace, k.name) }

// claim is what a policy counts at a target.
type claim struct {
	cluster                                   bool
	owner, namespace, target, section, counts string
}

// claims has the names of the policies that are enforced, by what they count. It is nil if the targets are unknown.
type claims map[claim]string

// claimsOf returns a claim for each target.
func claimsOf(p *validPolicy) []claim {
	all := make([]claim, 0, len(p.spec.TargetRefs))
	counts := waysToCount(p.spec)
	for _, ref := range p.spec.TargetRefs {
		c := claim{cluster: p.cluster != nil, owner: p.namespace, namespace: p.namespace, target: string(ref.Kind) + "/" + ref.Name, counts: counts}
		if ref.Namespace != nil {
			c.namespace = *ref.Namespace
		}
		if ref.SectionName != nil {
			c.section = *ref.SectionName
		}
		all = append(all, c)
	}
	return all
}

// reject rejects a target if an older policy of the same kind and namespace, which is enforced, counts the same requests of it in the same way.
// Both would limit the same thing twice, and the author means one of them. Policies that differ in how they count all apply.
func (taken claims) reject(wanted []claim, targets []Target) {
	for i := range targets {
		t := &targets[i]
		if other, is := taken[wanted[i]]; is && t.Reason == v1alpha1.ReasonAccepted {
			t.fail(v1alpha1.ReasonConflicted, "", "policy %s, which is older, counts the same requests of %s in the same way; delete one of the "+
				"policies, or change its axis, identifier, window, algorithm, scope, match, cost or enforcement", other, wanted[i].target)
			t.Routes = nil
		}
	}
}

// add adds the accepted targets of a policy that is enforced.
func (taken claims) add(policy string, wanted []claim, targets []Target) {
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
func (a Attachment) problems() (all []Problem) {
	for i, t := range a.Targets {
		if t.Reason == v1alpha1.ReasonAccepted {
			return nil
		}
		all = append(all, Problem{
			Policy: a.Policy, Cluster: a.Cluster, Field: fmt.Sprintf("spec.targetRefs[%d]%s", i, t.Field), Reason: t.Reason, Message: t.Message,
		})
	}
	return all
}

// apply restricts the rule to the routes of the targets, and clears these. Rules can share the memory of routes. The domains of a cluster-scoped
// rule are then the namespaces of these routes.
func (a Attachment) apply(rule *rules.Rule) {
	var routes []rules.Route
	for i := range a.Targets {
		t := &a.Targets[i]
		switch {
		case len(routes) == 0:
			routes = t.Routes
		case !slices.Equal(routes, t.Routes): // often the same routes are on several listeners
			routes = sortRoutes(slices.Concat(routes, t.Routes))
		}
		t.Routes = nil // the result is kept
	}
	if routes == nil {
		routes = []rules.Route{} // without routes, the rule matches nothing
	}
	rule.Match.Routes = routes
	if !a.Cluster {
		return
	}
	rule.AllDomains, rule.Domains = false, nil
	for _, route := range rule.Match.Routes {
		if len(rule.Domains) == 0 || rule.Domains[len(rule.Domains)-1] != route.Namespace {
			rule.Domains = append(rule.Domains, route.Namespace)
		}
	}
}
