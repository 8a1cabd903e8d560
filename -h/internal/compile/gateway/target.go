package gateway

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/go/policyapi"
	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// Target is the state of a policy at one entry of spec.targetRefs.
type Target struct {
	Ref     policyapi.TargetReference `json:"ref"`
	Reason  string                    `json:"reason"` // of the condition Accepted
	Message string                    `json:"message"`

	Field  string        `json:"-"` // of the problem, within the entry
	Idle   bool          `json:"-"` // the target accepts the policy, and gateways route no request to it: the message has the reason
	Routes []rules.Route `json:"-"` // sorted; shared with other targets
}

// Resolve finds the routes of a target of a policy in namespace, or of a cluster-scoped policy. Without an index, every route exists, and no route is
// attached to a Gateway.
func (x *Index) Resolve(namespace string, isCluster bool, ref policyapi.TargetReference) Target {
	key := Key{ref.Kind, namespace, ref.Name}
	if ref.Namespace != nil {
		key.Namespace = *ref.Namespace
	}
	section := ""
	if ref.SectionName != nil {
		section = *ref.SectionName
	}
	t := Target{Ref: ref, Reason: policyapi.ReasonAccepted}
	switch {
	case x != nil && x.Unreadable != nil:
		t.Fail(policyapi.ReasonTargetNotFound, "", "the operator cannot read the objects of the Gateway API: %v; it retries", x.Unreadable)
	case x != nil && slices.Contains(x.Missing, ref.Kind):
		t.Fail(policyapi.ReasonTargetNotFound, "", "the cluster has no %s, because the CRDs of the Gateway API are not installed; install them: "+
			"the operator finds them without a restart", ref.Kind)
	case ref.Kind == policyapi.TargetGateway:
		x.resolveGateway(&t, namespace, isCluster, key, section)
	default:
		x.resolveRoute(&t, key, section)
	}
	return t
}

// Fail sets the reason why the target does not accept the policy, the field of the entry that is the reason, and the message.
func (t *Target) Fail(reason, field, format string, args ...any) {
	t.Reason, t.Field, t.Message, t.Idle = reason, field, fmt.Sprintf(format, args...), false
}

func (x *Index) resolveRoute(t *Target, key Key, rule string) {
	if x != nil {
		route := x.routes[key]
		switch {
		case route == nil:
			t.Fail(policyapi.ReasonTargetNotFound, ".name", "%s does not exist; create it, or correct the name", key)
			return
		case rule != "" && !slices.Contains(route.Rules, rule):
			t.Fail(policyapi.ReasonTargetNotFound, ".sectionName", "%s has no rule with the name %s; name the rule, or correct sectionName", key, rule)
			return
		}
		t.Idle = len(route.Parents) == 0 && !route.Elsewhere
	}
	target := rules.RouteTarget(string(key.kind), key.Name, rule)
	t.Routes = []rules.Route{{Namespace: key.Namespace, Target: target}}
	if t.Idle {
		t.Message = fmt.Sprintf("no Gateway has accepted %s, so it gets no requests to limit; correct its spec.parentRefs, or see its status.parents", key)
		return
	}
	t.Message = fmt.Sprintf("limits the requests for which the gateway names route %s of namespace %s", target, key.Namespace)
}

// Inherits reports whether routes of other namespaces inherit a policy in namespace with the target: that of a cluster-scoped policy, or of a policy in
// the namespace of the Gateway. Other policies limit only routes of their own namespace, because their authors do not own the Gateway.
func Inherits(namespace string, ref *policyapi.TargetReference) bool {
	return ref.Kind == policyapi.TargetGateway && (namespace == "" || ref.Namespace == nil || *ref.Namespace == namespace)
}

// resolveGateway resolves a Gateway to the routes that it has accepted, for a policy that other namespaces do not inherit to those of its namespace.
func (x *Index) resolveGateway(t *Target, namespace string, isCluster bool, key Key, listener string) {
	if x == nil {
		return
	}
	gateway := x.gateways[key]
	switch {
	case !isCluster && key.Namespace != namespace && !x.permits(namespace, key):
		t.Fail(policyapi.ReasonRefNotPermitted, ".namespace", "no ReferenceGrant in namespace %s permits RateLimitPolicies of namespace %s to target "+
			"Gateway %s; ask the owner of the Gateway for one", key.Namespace, namespace, key.Name)
		return
	case gateway == nil:
		t.Fail(policyapi.ReasonTargetNotFound, ".name", "%s does not exist; create it, or correct the name", key)
		return
	case listener != "" && !slices.ContainsFunc(gateway.Listeners, func(l Listener) bool { return l.Name == listener }):
		t.Fail(policyapi.ReasonTargetNotFound, ".sectionName", "%s has no listener with the name %s; correct sectionName", key, listener)
		return
	}
	place := listenerKey{key, listener, namespace, isCluster}
	if Inherits(namespace, &t.Ref) {
		place.namespace = ""
	}
	found, isResolved := x.resolved[place]
	if !isResolved {
		found = x.resolveListener(place)
		x.resolved[place] = found
	}
	t.Routes, t.Message, t.Idle = found.routes, found.message, len(found.routes) == 0
}

// listenerKey is a Gateway, one of its listeners or all of them if listener is empty, and the namespace of the routes, or all namespaces if
// namespace is empty.
type listenerKey struct {
	gateway             Key
	listener, namespace string
	isCluster           bool // the routes are those of cluster-scoped policies
}

// resolvedListener is what the targets of all policies for one listenerKey share.
type resolvedListener struct {
	routes  []rules.Route // sorted; read-only
	message string
}

func (x *Index) resolveListener(place listenerKey) (found resolvedListener) {
	var elsewhere []string
	leftOut := 0
	for _, route := range x.attached[place.gateway] {
		switch {
		case place.namespace != "" && route.Namespace != place.namespace || !x.isOn(route, place.gateway, place.listener):
			continue
		case place.namespace == "" && !place.isCluster && !x.inheritsFrom(route, place.gateway.Namespace):
			leftOut++ // a policy in the namespace of its routes is not inherited
			continue
		}
		found.routes = append(found.routes, route.rule())
		if x.isElsewhere(route, place.gateway, place.listener) {
			elsewhere = append(elsewhere, route.Key().String())
		}
	}
	if len(found.routes) == 0 {
		found.message = noRoutes(place)
	} else {
		found.routes = SortRoutes(found.routes)
		found.message = limits(place, found.routes)
	}
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		found.message += fmt.Sprintf("; %d of them have other Gateways or listeners, whose requests count too, such as %s", len(elsewhere), elsewhere[0])
	}
	if leftOut > 0 {
		found.message += fmt.Sprintf("; does not limit %d more routes, which inherit policies from the older Gateways of %d namespaces", leftOut, maxInherited)
	}
	return found
}

// limits describes the routes that a policy limits.
func limits(place listenerKey, routes []rules.Route) string {
	message := fmt.Sprintf("limits the requests for which the gateway names one of the %d routes that the Gateway has accepted", len(routes))
	switch namespaces := NamespacesOf(routes); {
	case place.namespace != "":
		return message + " from namespace " + place.namespace
	case len(namespaces) == 1:
		return message + " from 1 namespace"
	default:
		return message + fmt.Sprintf(" from %d namespaces", len(namespaces))
	}
}

// noRoutes describes a Gateway or a listener without routes that a policy can limit.
func noRoutes(place listenerKey) string {
	message := place.gateway.String()
	if place.listener != "" {
		message = fmt.Sprintf("listener %s of %s", place.listener, place.gateway)
	}
	message += " has accepted no route"
	if place.namespace == "" {
		return message + ", so there are no requests to limit; attach a route, or target another Gateway"
	}
	return message + " of namespace " + place.namespace + ", and a RateLimitPolicy limits routes of other namespaces only for a Gateway in its own " +
		"namespace; attach a route of this namespace, move the policy to the namespace of the Gateway, or use a ClusterRateLimitPolicy"
}

// NamespacesOf returns the namespaces of sorted routes, each once.
func NamespacesOf(routes []rules.Route) (namespaces []string) {
	for i := range routes {
		if i == 0 || routes[i-1].Namespace != routes[i].Namespace {
			namespaces = append(namespaces, routes[i].Namespace)
		}
	}
	return namespaces
}

// SortRoutes sorts routes and removes duplicates.
func SortRoutes(routes []rules.Route) []rules.Route {
	slices.SortFunc(routes, compareRoutes)
	return slices.Compact(routes)
}

func compareRoutes(a, b rules.Route) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Target, b.Target))
}
