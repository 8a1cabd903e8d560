package deployment

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
)

// Options apply to all Limiters of an operator.
type Options struct {
	// OperatorNamespace is the namespace of the operator. Only a Limiter in it may throttle writes to the Kubernetes API.
	OperatorNamespace string
	// WatchNamespaces are the namespaces in which Limiters can be. Empty: all namespaces.
	WatchNamespaces []string
	// Image is the default image of limiter pods.
	Image string
	// KeyPrefix is the prefix of all names in Redis: "weir:".
	KeyPrefix string
	// HashKey is the master key from which the hash keys of Limiters are derived. Without it, pods have no hash key.
	HashKey *limiter.HashKey
	// NetworkPolicies enables a NetworkPolicy for the pods of each Limiter.
	NetworkPolicies bool
	// PodMonitors enables a PodMonitor for each Limiter. It requires the CRDs of Prometheus Operator.
	PodMonitors bool
	// PodMonitorLabels are additional labels of these PodMonitors, by which a Prometheus selects them.
	PodMonitorLabels map[string]string
}

// Render returns all objects that the Limiter needs to run, in the order in which to apply them. It is deterministic. With an
// autoscaler, the Deployment has no replicas field.
func Render(limiter *v1alpha1.Limiter, secrets Secrets, options Options) []client.Object {
	objects := []client.Object{
		serviceAccount(limiter),
		startValues(limiter),
		service(limiter, options),
		disruptionBudget(limiter),
		deployment(limiter, secrets, options),
	}
	if options.NetworkPolicies {
		objects = append(objects, networkPolicy(limiter, options))
	}
	if limiter.Spec.Autoscaling != nil {
		objects = append(objects, autoscaler(limiter))
	}
	if options.PodMonitors {
		objects = append(objects, podMonitor(limiter, options.PodMonitorLabels))
	}
	return objects
}

// Name returns the name of all objects of the Limiter with that name.
func Name(limiter string) string { return "weir-limiter-" + limiter }

// selector selects the pods of a Limiter in its namespace. It is immutable once applied, so it must not depend on anything that
// a user can edit.
func selector(limiter *v1alpha1.Limiter) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":      "weir",
		"app.kubernetes.io/component": "limiter",
		"app.kubernetes.io/instance":  limiter.Name,
	}
}

// PodLabels returns the labels by which the pods of a Limiter are found in its namespace.
func PodLabels(limiter *v1alpha1.Limiter) map[string]string { return selector(limiter) }

func labelSelector(limiter *v1alpha1.Limiter) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: selector(limiter)}
}

// managedByLabel is on every object that the operator applies. Caches select by it.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "weir-operator"
)

// Labels returns the labels of everything that the operator creates for the Limiter.
func Labels(limiter *v1alpha1.Limiter) map[string]string {
	all := selector(limiter)
	all["app.kubernetes.io/part-of"] = "weir"
	all[managedByLabel] = managedBy
	return all
}

func kindOf(group, version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: schema.GroupVersion{Group: group, Version: version}.String(), Kind: kind}
}

// objectMeta returns the metadata of an object that the Limiter owns. The object is deleted with the Limiter.
func objectMeta(limiter *v1alpha1.Limiter) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: limiter.Namespace,
		Name:      Name(limiter.Name),
		Labels:    Labels(limiter),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(limiter, v1alpha1.GroupVersion.WithKind("Limiter")),
		},
	}
}
