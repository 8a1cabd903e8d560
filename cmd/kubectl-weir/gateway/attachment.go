// Package gateway attaches Gateways of Envoy Gateway to Limiters. It writes the objects with which a Gateway calls a Limiter, with the
// permissions of the user, reports what Envoy Gateway makes of them, and deletes them.
package gateway

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/deployment"
)

// Labels of the objects of an attachment. A label has no room for a whole name, so the Limiter is in two of them.
const (
	managedByLabel        = "app.kubernetes.io/managed-by"
	manager               = "weir-gateway"
	limiterLabel          = "weir.dev/limiter"
	limiterNamespaceLabel = "weir.dev/limiter-namespace"
)

// grpcPort is the port of a Limiter's Service for Envoy.
const grpcPort = 8081

// retries is the number of times that Envoy repeats a call that no limiter has received.
const retries = 2

// Attachment is a Gateway that calls a Limiter.
type Attachment struct {
	Gateway, Limiter types.NamespacedName
	// FailOpen allows requests without a decision, or denies them. If it is nil, the SecurityPolicy keeps what it has.
	FailOpen *bool
	// Timeout is how long Envoy waits for a decision.
	Timeout time.Duration
}

func policyKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.envoyproxy.io", Version: "v1alpha1", Kind: "SecurityPolicy"}
}

func grantKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1beta1", Kind: "ReferenceGrant"}
}

func gatewayKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}
}

// policyKey returns the key of the SecurityPolicy of a Gateway.
func policyKey(gateway types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: gateway.Namespace, Name: "weir-" + gateway.Name}
}

// grantKey returns the key of the ReferenceGrant of a Gateway in the namespace of a Limiter. A namespace has no dot, so that the names of two
// Gateways differ.
func grantKey(gateway types.NamespacedName, limiterNamespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: limiterNamespace, Name: "weir." + gateway.Namespace + "." + gateway.Name}
}

// Objects returns the objects of the attachment, in the order in which they are applied: a ReferenceGrant if the Limiter is in another
// namespace, and the SecurityPolicy. They have no owners.
func (a *Attachment) Objects() []*unstructured.Unstructured {
	policy := a.newObject(policyKind(), policyKey(a.Gateway), map[string]any{
		"targetRefs": []any{map[string]any{"group": gatewayKind().Group, "kind": gatewayKind().Kind, "name": a.Gateway.Name}},
		"extAuth":    a.extAuth(),
	})
	if a.Limiter.Namespace == a.Gateway.Namespace {
		return []*unstructured.Unstructured{policy}
	}
	grant := a.newObject(grantKind(), grantKey(a.Gateway, a.Limiter.Namespace), map[string]any{
		"from": []any{map[string]any{"group": policyKind().Group, "kind": policyKind().Kind, "namespace": a.Gateway.Namespace}},
		"to":   []any{map[string]any{"group": "", "kind": "Service", "name": deployment.Name(a.Limiter.Name)}},
	})
	return []*unstructured.Unstructured{grant, policy}
}

func (a *Attachment) extAuth() map[string]any {
	settings := map[string]any{
		"timeout":              a.Timeout.String(),
		"includeRouteMetadata": true,
		"grpc": map[string]any{
			"backendRefs": []any{map[string]any{
				"name": deployment.Name(a.Limiter.Name), "namespace": a.Limiter.Namespace, "port": int64(grpcPort),
			}},
			// A limiter that stops rejects calls that Envoy sends at that moment. No other failure is repeated: the call may have been counted.
			"backendSettings": map[string]any{
				"retry": map[string]any{"numRetries": int64(retries), "retryOn": map[string]any{"triggers": []any{"refused-stream"}}},
			},
		},
	}
	if a.FailOpen != nil {
		settings["failOpen"] = *a.FailOpen
	}
	return settings
}

func (a *Attachment) newObject(kind schema.GroupVersionKind, key types.NamespacedName, spec map[string]any) *unstructured.Unstructured {
	object := emptyObject(kind, key)
	object.SetLabels(map[string]string{
		managedByLabel: manager, limiterLabel: a.Limiter.Name, limiterNamespaceLabel: a.Limiter.Namespace,
	})
	object.Object["spec"] = spec
	return object
}

func emptyObject(kind schema.GroupVersionKind, key types.NamespacedName) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}

// limiterOf returns the Limiter of an object of an attachment, and whether the object is one.
func limiterOf(object *unstructured.Unstructured) (limiter types.NamespacedName, managed bool) {
	labels := maps.Clone(object.GetLabels())
	return types.NamespacedName{Namespace: labels[limiterNamespaceLabel], Name: labels[limiterLabel]}, labels[managedByLabel] == manager
}

// ownedBy makes owner the owner of object, so that Kubernetes deletes object with it. Both are in the same namespace.
func ownedBy(object *unstructured.Unstructured, kind schema.GroupVersionKind, name string, uid types.UID) {
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, UID: uid}})
}
