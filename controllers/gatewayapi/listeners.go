package gatewayapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
)

const listenerSetKind = "ListenerSet"

// listener returns a listener of a Gateway or of a ListenerSet.
func listener(
	name gatewayv1.SectionName, hostname *gatewayv1.Hostname, port int32, protocol gatewayv1.ProtocolType, allowed *gatewayv1.AllowedRoutes,
) gateway.Listener {
	l := gateway.Listener{
		Name: string(name), Hostname: textOf(hostname), Port: port,
		HTTP: protocol == gatewayv1.HTTPProtocolType || protocol == gatewayv1.HTTPSProtocolType, SameNamespace: true,
	}
	if allowed == nil {
		return l
	}
	if n := allowed.Namespaces; n != nil && n.From != nil {
		l.SameNamespace = *n.From != gatewayv1.NamespacesFromAll
		if *n.From == gatewayv1.NamespacesFromSelector && n.Selector != nil {
			l.SameNamespace, l.Namespaces = false, stored.LabelSelector(n.Selector)
		}
	}
	for _, kind := range allowed.Kinds {
		l.Kinds = append(l.Kinds, v1alpha1.TargetKind(kind.Kind))
	}
	return l
}

// listenerSet returns a ListenerSet, and whether its Gateway has accepted it.
func listenerSet(o *gatewayv1.ListenerSet) (set gateway.ListenerSet, accepted bool) {
	parent := o.Spec.ParentRef
	set = gateway.ListenerSet{Namespace: o.Namespace, Name: o.Name, GatewayNamespace: o.Namespace, Gateway: string(parent.Name), Created: o.CreationTimestamp.Time}
	if parent.Namespace != nil {
		set.GatewayNamespace = string(*parent.Namespace)
	}
	for i := range o.Spec.Listeners {
		l := &o.Spec.Listeners[i]
		added := listener(l.Name, l.Hostname, l.Port, l.Protocol, l.AllowedRoutes)
		at := slices.IndexFunc(o.Status.Listeners, func(s gatewayv1.ListenerEntryStatus) bool { return s.Name == l.Name })
		added.HTTP = added.HTTP && at >= 0 && accepts(o.Status.Listeners[at].Conditions, o.Generation) && serves(o.Status.Listeners[at].Conditions)
		set.Listeners = append(set.Listeners, added)
	}
	isGateway := (parent.Group == nil || *parent.Group == v1alpha1.GatewayGroup) && (parent.Kind == nil || *parent.Kind == gatewayv1.Kind(v1alpha1.TargetGateway))
	return set, isGateway && meta.IsStatusConditionTrue(o.Status.Conditions, string(gatewayv1.ListenerSetConditionAccepted))
}

// accepts reports whether the gateway has accepted a listener of a ListenerSet in this generation, if the condition has one. Its owner is a tenant: a
// listener that the gateway has not compared with those of others must not take their requests.
func accepts(conditions []metav1.Condition, generation int64) bool {
	accepted := meta.FindStatusCondition(conditions, string(gatewayv1.ListenerConditionAccepted))
	return accepted != nil && accepted.Status == metav1.ConditionTrue && (accepted.ObservedGeneration == 0 || accepted.ObservedGeneration == generation)
}

// serves reports whether no condition of a listener states that it takes no requests. A listener without conditions serves, and so does one whose
// configuration is pending: the gateway can still have an earlier one.
func serves(conditions []metav1.Condition) bool {
	programmed := meta.FindStatusCondition(conditions, string(gatewayv1.ListenerConditionProgrammed))
	pending := programmed != nil && programmed.Reason == string(gatewayv1.ListenerReasonPending)
	return !meta.IsStatusConditionFalse(conditions, string(gatewayv1.ListenerConditionAccepted)) &&
		(programmed == nil || programmed.Status != metav1.ConditionFalse || pending)
}

func textOf[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func texts[T ~string](list []T) (all []string) {
	for _, s := range list {
		all = append(all, string(s))
	}
	return all
}
