package gateway

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter/rules"
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
	return x.Basis(namespace, isCluster, &ref).Target(namespace, ref)
}

// Basis is what a target depends on, apart from the reference and the namespace of its policy. Equal bases have equal targets. Bases of one [Index]
// and of the Index that follows it are comparable, see [Objects.IndexAfter].
type Basis struct {
	found      finding
	unreadable string // why the objects cannot be read
	idle       bool   // no Gateway has accepted the route
	unknown    bool   // there is no index
	listener   *resolvedListener
}

// finding is what is known about the object that a target names.
type finding int

const (
	isFound finding = iota
	isUnreadable
	hasNoKind
	isMissing
	hasNoSection
	isNotPermitted
)

// Basis returns what the target of a policy in namespace, or of a cluster-scoped policy, depends on.
func (x *Index) Basis(namespace string, isCluster bool, ref *policyapi.TargetReference) Basis {
	switch {
	case x == nil:
		return Basis{unknown: true}
	case x.Unreadable != nil:
		return Basis{found: isUnreadable, unreadable: x.Unreadable.Error()}
	case slices.Contains(x.Missing, ref.Kind):
		return Basis{found: hasNoKind}
	case ref.Kind == policyapi.TargetGateway:
		return x.basisOfGateway(namespace, isCluster, ref)
	default:
		return x.basisOfRoute(keyOf(namespace, ref), sectionOf(ref))
	}
}

// keyOf returns the key of the object that a policy in namespace targets.
func keyOf(namespace string, ref *policyapi.TargetReference) Key {
	if ref.Namespace != nil {
		namespace = *ref.Namespace
	}
	return Key{ref.Kind, namespace, ref.Name}
}

func sectionOf(ref *policyapi.TargetReference) string {
	if ref.SectionName == nil {
		return ""
	}
	return *ref.SectionName
}

// Target returns the target of a policy in namespace.
func (b Basis) Target(namespace string, ref policyapi.TargetReference) Target {
	key, section := keyOf(namespace, &ref), sectionOf(&ref)
	t := Target{Ref: ref, Reason: policyapi.ReasonAccepted}
	switch {
	case b.found == isUnreadable:
		t.Fail(policyapi.ReasonTargetNotFound, "", "the operator cannot read the objects of the Gateway API: %s; it retries", b.unreadable)
	case b.found == hasNoKind:
		t.Fail(policyapi.ReasonTargetNotFound, "", "the cluster has no %s, because the CRDs of the Gateway API are not installed; install them: "+
			"the operator finds them without a restart", ref.Kind)
	case b.found == isNotPermitted:
		t.Fail(policyapi.ReasonRefNotPermitted, ".namespace", "no ReferenceGrant in namespace %s permits RateLimitPolicies of namespace %s to target "+
			"Gateway %s; ask the owner of the Gateway for one", key.Namespace, namespace, key.Name)
	case b.found == isMissing:
		t.Fail(policyapi.ReasonTargetNotFound, ".name", "%s does not exist; create it, or correct the name", key)
	case ref.Kind == policyapi.TargetGateway:
		b.gateway(&t, key, section)
	default:
		b.route(&t, key, section)
	}
	return t
}

// Fail sets the reason why the target does not accept the policy, the field of the entry that is the reason, and the message.
func (t *Target) Fail(reason, field, format string, args ...any) {
	t.Reason, t.Field, t.Message, t.Idle = reason, field, fmt.Sprintf(format, args...), false
}

func (x *Index) basisOfRoute(key Key, rule string) Basis {
	route := x.routes[key]
	switch {
	case route == nil:
		return Basis{found: isMissing}
	case rule != "" && !slices.Contains(route.Rules, rule):
		return Basis{found: hasNoSection}
	}
	return Basis{idle: len(route.Parents) == 0 && !route.Elsewhere}
}

// route sets the route of a target.
func (b Basis) route(t *Target, key Key, rule string) {
	if b.found == hasNoSection {
		t.Fail(policyapi.ReasonTargetNotFound, ".sectionName", "%s has no rule with the name %s; name the rule, or correct sectionName", key, rule)
		return
	}
	target := rules.RouteTarget(string(key.kind), key.Name, rule)
	t.Routes, t.Idle = []rules.Route{{Namespace: key.Namespace, Target: target}}, b.idle
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

func (x *Index) basisOfGateway(namespace string, isCluster bool, ref *policyapi.TargetReference) Basis {
	key, listener := keyOf(namespace, ref), sectionOf(ref)
	gateway := x.gateways[key]
	switch {
	case !isCluster && key.Namespace != namespace && !x.permits(namespace, key):
		return Basis{found: isNotPermitted}
	case gateway == nil:
		return Basis{found: isMissing}
	case listener != "" && !slices.ContainsFunc(gateway.Listeners, func(l Listener) bool { return l.Name == listener }):
		return Basis{found: hasNoSection}
	}
	place := listenerKey{key, listener, namespace, isCluster}
	if Inherits(namespace, ref) {
		place.namespace = ""
	}
	found, isResolved := x.resolved[place]
	if !isResolved {
		found = x.resolveListener(place)
		if before := x.before[place]; before != nil && before.message == found.message && slices.Equal(before.routes, found.routes) {
			found = before
		}
		x.resolved[place] = found
	}
	return Basis{listener: found}
}

// gateway sets the routes of a Gateway that it has accepted: all of them, or those of the namespace of a policy that other namespaces do not inherit.
func (b Basis) gateway(t *Target, key Key, listener string) {
	switch {
	case b.unknown:
	case b.found == hasNoSection:
		t.Fail(policyapi.ReasonTargetNotFound, ".sectionName", "%s has no listener with the name %s; correct sectionName", key, listener)
	default:
		t.Routes, t.Message, t.Idle = b.listener.routes, b.listener.message, len(b.listener.routes) == 0
	}
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

func (x *Index) resolveListener(place listenerKey) *resolvedListener {
	found := &resolvedListener{}
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
