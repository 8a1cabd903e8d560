package deployment

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Options are what all Limiters of an operator have in common.
type Options struct {
	// OperatorNamespace is the operator's own: a Limiter in it may throttle writes to the Kubernetes API, no other one.
	OperatorNamespace string
	// Image of the pods of a Limiter that names none.
	Image string
	// KeyPrefix is what every name in Redis begins with: "weir:".
	KeyPrefix string
	// NetworkPolicies are wanted: what pods may reach, and be reached at.
	NetworkPolicies bool
	// PodMonitors are wanted: the cluster has the kind, which Prometheus Operator brings.
	PodMonitors bool
}

// Render returns all that the Limiter needs to run, in the order in which it is applied. It is the same for the same
// arguments. The number of pods is left out where an autoscaler says it.
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
		objects = append(objects, podMonitor(limiter))
	}
	return objects
}

// Name is what the objects of the Limiter of that name are called.
func Name(limiter string) string { return "weir-limiter-" + limiter }

// selector finds the pods of a Limiter in its namespace. It is immutable once applied, and so depends on nothing that
// can be edited.
func selector(limiter *v1alpha1.Limiter) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":      "weir",
		"app.kubernetes.io/component": "limiter",
		"app.kubernetes.io/instance":  limiter.Name,
	}
}

func labelSelector(limiter *v1alpha1.Limiter) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: selector(limiter)}
}

// managedByLabel is on everything that the operator applies; by it caches tell what is its own.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "weir-operator"
)

func labelsOf(limiter *v1alpha1.Limiter) map[string]string {
	all := selector(limiter)
	all["app.kubernetes.io/part-of"] = "weir"
	all[managedByLabel] = managedBy
	return all
}

func kindOf(group, version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: schema.GroupVersion{Group: group, Version: version}.String(), Kind: kind}
}

// objectMeta of whatever the Limiter owns: it goes when the Limiter goes.
func objectMeta(limiter *v1alpha1.Limiter) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: limiter.Namespace,
		Name:      Name(limiter.Name),
		Labels:    labelsOf(limiter),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(limiter, v1alpha1.GroupVersion.WithKind("Limiter")),
		},
	}
}
