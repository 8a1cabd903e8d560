package scenario

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// The namespaces.
const (
	System        = "weir-system"       // of Weir
	Traffic       = "e2e-traffic"       // of the load, and its domain
	Support       = "e2e-support"       // of the bad days, and their domain
	Misconfigured = "e2e-misconfigured" // of misconfigured Limiters and their policies
	Writing       = "e2e-writing"       // in which alice writes
	Agreement     = "e2e-agreement"     // of the policies that programs and limiters have
)

// The Deployments in the namespace of Weir.
const (
	LimiterPods  = "weir-limiter-default"
	OperatorPods = "weir-operator"
	RedisPods    = "redis"
	RedisPort    = 6379
)

const trafficPaths = "/"

// Labels are the labels of objects that the test creates. They do not contain "weir", so that the objects are not leftovers of Weir.
func Labels() map[string]string { return map[string]string{"e2e": "test"} }

// Namespace returns a namespace of the test.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: Labels()}}
}

// Policy returns a limit per tenant for one path of the domain.
func Policy(domain, name string, limit int64, window string) *v1alpha1.RateLimitPolicy {
	return &v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: domain, Name: name},
		Spec: v1alpha1.RateLimitPolicySpec{
			Axis: "Tenant", Limit: new(limit), Window: v1alpha1.Duration(window),
			Match: &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{
				Paths: []v1alpha1.PathMatch{{Type: "PathPrefix", Value: trafficPaths + name}},
			}},
		},
	}
}

// LimiterNamed returns a Limiter without a spec, to read it from the cluster or to complete it.
func LimiterNamed(namespace, name string) *v1alpha1.Limiter {
	return &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// PolicyNamed returns a policy without a spec, to read it from the cluster or to complete it.
func PolicyNamed(namespace, name string) *v1alpha1.RateLimitPolicy {
	return &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// CreateAll creates all objects.
func (s *Scenario) CreateAll(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := s.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T %s: %w", o, client.ObjectKeyFromObject(o), err)
		}
	}
	return nil
}

// Change edits the current object in the cluster. It retries after a conflict with another writer.
func Change[T client.Object](ctx context.Context, s *Scenario, object T, edit func(T)) error {
	for {
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		edit(object)
		err := s.Update(ctx, object)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// Deleted checks that no object exists.
func (s *Scenario) Deleted(objects ...client.Object) Action {
	return func(ctx context.Context) error {
		for _, o := range objects {
			err := s.Get(ctx, client.ObjectKeyFromObject(o), o)
			if err == nil {
				return fmt.Errorf("%T %s still exists", o, client.ObjectKeyFromObject(o))
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	}
}

// RolledOut checks that a Deployment has the wanted number of pods of its latest template, all ready, and no other pods.
func (s *Scenario) RolledOut(namespace, name string) Action {
	return func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := s.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &d); err != nil {
			return err
		}
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		if st := d.Status; st.ObservedGeneration < d.Generation || st.UpdatedReplicas != wanted || st.ReadyReplicas != wanted || st.Replicas != wanted {
			return fmt.Errorf("deployment %s has %d replicas, %d updated and %d ready, want %d", name, st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, wanted)
		}
		pods, err := s.PodsOf(ctx, &d)
		if err == nil && len(pods) != int(wanted) {
			err = fmt.Errorf("deployment %s has %d pods, want %d", name, len(pods), wanted)
		}
		return err
	}
}

// PodsOf returns the pods of a Deployment, including pods that are being deleted.
func (s *Scenario) PodsOf(ctx context.Context, d *appsv1.Deployment) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := s.List(ctx, &pods, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels))
	return pods.Items, err
}

// AnyPod returns the name of one pod of a Deployment.
func (s *Scenario) AnyPod(ctx context.Context, namespace, deployment string) (string, error) {
	var d appsv1.Deployment
	if err := s.Get(ctx, types.NamespacedName{Namespace: namespace, Name: deployment}, &d); err != nil {
		return "", err
	}
	pods, err := s.PodsOf(ctx, &d)
	if err != nil {
		return "", err
	}
	for i := range pods {
		if pods[i].DeletionTimestamp.IsZero() {
			return pods[i].Name, nil
		}
	}
	return "", errors.New("deployment " + deployment + " has no pod")
}

// SmallLimiter returns a Limiter with small resource requests, so that many fit on one node.
func SmallLimiter(namespace, name, selected string) *v1alpha1.Limiter {
	l := LimiterNamed(namespace, name)
	l.Spec = v1alpha1.LimiterSpec{
		Replicas:       new(int32(1)),
		Redis:          v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"redis." + System + ":6379"}},
		PolicySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"misconfiguration": selected}},
		PodTemplate: v1alpha1.PodTemplate{Resources: &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		}},
	}
	return l
}

// ConfigMaps returns the creation of ConfigMaps, as a policy for writes matches it.
func ConfigMaps() v1alpha1.KubernetesResources {
	return v1alpha1.KubernetesResources{
		APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"configmaps"},
		Operations: []v1alpha1.Operation{v1alpha1.OperationCreate},
	}
}

// LimitWrites returns a limit of writes per tenant and minute, counted exactly.
func LimitWrites(name string, limit int64, resources ...v1alpha1.KubernetesResources) *v1alpha1.ClusterRateLimitPolicy {
	p := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: Labels()}}
	p.Spec.RateLimitPolicySpec = v1alpha1.RateLimitPolicySpec{
		Axis: v1alpha1.AxisTenant, Limit: new(limit), Window: "1m", Algorithm: v1alpha1.SlidingWindowLog,
		Match: &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: resources}},
	}
	return p
}
