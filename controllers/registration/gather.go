package registration

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
)

// inputs are the objects that a reconciliation depends on. The lists belong to the cache and must not be changed.
type inputs struct {
	limiters      []v1alpha1.Limiter
	policies      stored.Policies              // those that limit writes
	deployments   map[string]appsv1.Deployment // of the operator's namespace, by name
	secret        *corev1.Secret               // nil if it does not exist
	configuration *admissionv1.ValidatingWebhookConfiguration
	owners        []metav1.OwnerReference // of the configuration
	terminating   bool                    // the operator's namespace is being deleted
}

func (r *Reconciler) gather(ctx context.Context) (inputs, error) {
	var f inputs
	var limiters v1alpha1.LimiterList
	if err := r.Client.List(ctx, &limiters); err != nil {
		return f, fmt.Errorf("list Limiters: %w", err)
	}
	f.limiters = limiters.Items
	if err := r.gatherPolicies(ctx, &f); err != nil {
		return f, err
	}
	if err := r.gatherOwner(ctx, &f); err != nil {
		return f, err
	}
	namespace := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Namespace}, &namespace); client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("read Namespace %s: %w", r.Namespace, err)
	}
	f.terminating = !namespace.DeletionTimestamp.IsZero()
	var deployments appsv1.DeploymentList
	if err := r.Client.List(ctx, &deployments, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list Deployments of namespace %s: %w", r.Namespace, err)
	}
	f.deployments = make(map[string]appsv1.Deployment, len(deployments.Items))
	for _, d := range deployments.Items {
		f.deployments[d.Name] = d
	}
	var secret corev1.Secret
	switch err := r.Uncached.Get(ctx, r.secret(), &secret); {
	case err == nil:
		f.secret = &secret
	case client.IgnoreNotFound(err) != nil:
		return f, fmt.Errorf("read Secret %s: %w", r.secret(), err)
	}
	var configuration admissionv1.ValidatingWebhookConfiguration
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: ConfigurationName}, &configuration); {
	case err == nil:
		f.configuration = &configuration
	case client.IgnoreNotFound(err) != nil:
		return f, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return f, nil
}

// gatherPolicies lists the policies that limit writes. It lists namespaces only if a Limiter selects policies by their labels.
func (r *Reconciler) gatherPolicies(ctx context.Context, f *inputs) error {
	if !slices.ContainsFunc(f.limiters, func(l v1alpha1.Limiter) bool { return deployment.Throttles(&l) }) {
		return nil
	}
	all, err := selection.ListPolicies(ctx, r.Client)
	if err != nil {
		return err
	}
	for _, p := range all.Namespaced {
		if limitsWrites(p) {
			f.policies.Namespaced = append(f.policies.Namespaced, p)
		}
	}
	for _, p := range all.Cluster {
		if limitsWrites(p) {
			f.policies.Cluster = append(f.policies.Cluster, p)
		}
	}
	readsNamespaces := func(l v1alpha1.Limiter) bool {
		throttle := l.Spec.KubernetesThrottle
		return l.Spec.PolicyNamespaceSelector != nil || throttle != nil && throttle.NamespacedPolicySelector != nil
	}
	if !slices.ContainsFunc(f.limiters, readsNamespaces) {
		return nil
	}
	namespaces := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}}
	if err := r.Client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		f.policies.Namespaces = append(f.policies.Namespaces, compile.Namespace{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations})
	}
	return nil
}

// limitsWrites reports whether a policy limits writes.
func limitsWrites(policy client.Object) bool {
	switch p := policy.(type) {
	case *v1alpha1.RateLimitPolicy:
		return compile.LimitsWrites(p.Spec.Match)
	case *v1alpha1.ClusterRateLimitPolicy:
		return compile.LimitsWrites(p.Spec.Match)
	default:
		return false
	}
}

// webhook returns a registered webhook of the Limiter. It returns nil if the Limiter is not registered.
func (f *inputs) webhook(limiter *v1alpha1.Limiter) *admissionv1.ValidatingWebhook {
	if f.configuration == nil {
		return nil
	}
	name := WebhookName(limiter)
	for i := range f.configuration.Webhooks {
		if w := &f.configuration.Webhooks[i]; firstName(w.Name) == name {
			return w
		}
	}
	return nil
}
