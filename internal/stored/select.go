package stored

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// SelectedBy returns the policies that the Limiter enforces, and all namespaces: those that its selectors select, except policies with
// match.kubernetes that it does not admit. A policy in an unknown namespace is selected only if policyNamespaceSelector is empty. It returns
// an error if a selector is invalid: the CRD rejects those, but a Limiter can be older than the CRD.
func (p Policies) SelectedBy(spec *v1alpha1.LimiterSpec) (Policies, error) {
	selected, err := p.labeled(spec)
	if err != nil {
		return Policies{}, err
	}
	admits, err := p.admits(spec)
	if err != nil {
		return Policies{}, err
	}
	if p.NoWrites {
		return selected, nil
	}
	refuses := func(match *v1alpha1.Match, namespace string) bool {
		return compile.LimitsWrites(match) && admits(namespace) != ""
	}
	ofNamespace := func(policy *v1alpha1.RateLimitPolicy) bool { return refuses(policy.Spec.Match, policy.Namespace) }
	if slices.ContainsFunc(selected.Namespaced, ofNamespace) {
		selected.Namespaced = slices.DeleteFunc(slices.Clone(selected.Namespaced), ofNamespace)
	}
	ofCluster := func(policy *v1alpha1.ClusterRateLimitPolicy) bool { return refuses(policy.Spec.Match, "") }
	if slices.ContainsFunc(selected.Cluster, ofCluster) {
		selected.Cluster = slices.DeleteFunc(slices.Clone(selected.Cluster), ofCluster)
	}
	return selected, nil
}

// labeled returns the policies that the selectors of the Limiter select.
func (p Policies) labeled(spec *v1alpha1.LimiterSpec) (Policies, error) {
	policies, err := compileSelector(spec.PolicySelector)
	if err != nil {
		return Policies{}, fmt.Errorf("spec.policySelector: %w", err)
	}
	namespaces, err := compileSelector(spec.PolicyNamespaceSelector)
	if err != nil {
		return Policies{}, fmt.Errorf("spec.policyNamespaceSelector: %w", err)
	}
	if policies.Empty() && namespaces.Empty() {
		return p, nil
	}
	selected := p
	selected.Namespaced, selected.Cluster = nil, nil
	within := p.namespaces(namespaces)
	for _, policy := range p.Namespaced {
		if policies.Matches(labels.Set(policy.Labels)) && within(policy.Namespace) {
			selected.Namespaced = append(selected.Namespaced, policy)
		}
	}
	for _, policy := range p.Cluster {
		if policies.Matches(labels.Set(policy.Labels)) {
			selected.Cluster = append(selected.Cluster, policy)
		}
	}
	return selected, nil
}

// compileSelector returns a selector that selects everything if the given one is nil.
func compileSelector(selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// namespaces returns a function that reports whether a namespace is known and selected.
func (p Policies) namespaces(selector labels.Selector) func(string) bool {
	if selector.Empty() {
		return func(string) bool { return true }
	}
	selected := make(map[string]bool, len(p.Namespaces))
	for _, n := range p.Namespaces {
		selected[n.Name] = selector.Matches(labels.Set(n.Labels))
	}
	return func(name string) bool { return selected[name] }
}

// throttles reports whether API servers may call the Limiter.
func throttles(spec *v1alpha1.LimiterSpec) bool {
	t := spec.KubernetesThrottle
	return t != nil && t.Mode != v1alpha1.ThrottleModeDisabled
}

// A writer of a RateLimitPolicy with match.kubernetes can block the writes of every other user in its namespace, those of its
// administrators included. Therefore a Limiter enforces such a policy only if its spec admits the namespace. A Limiter that API servers do
// not call admits no policy with match.kubernetes: it could not enforce one.

// admits returns a function that returns why a Limiter does not limit writes by a policy in the namespace, or by a cluster policy if it is
// empty. It returns "" if the Limiter does. The reason completes "Limiter a/b ".
func (p Policies) admits(spec *v1alpha1.LimiterSpec) (func(namespace string) string, error) {
	if !throttles(spec) {
		return func(string) string { return "has no spec.kubernetesThrottle, so API servers do not call it" }, nil
	}
	throttle := spec.KubernetesThrottle
	if throttle.NamespacedPolicies != v1alpha1.NamespacedPoliciesSelected {
		return func(namespace string) string {
			if namespace == "" {
				return ""
			}
			return "lets only ClusterRateLimitPolicies limit writes: spec.kubernetesThrottle.namespacedPolicies is None"
		}, nil
	}
	selector := labels.Nothing()
	if throttle.NamespacedPolicySelector != nil {
		var err error
		if selector, err = compileSelector(throttle.NamespacedPolicySelector); err != nil {
			return nil, fmt.Errorf("spec.kubernetesThrottle.namespacedPolicySelector: %w", err)
		}
	}
	within := p.namespaces(selector)
	return func(namespace string) string {
		if namespace == "" || within(namespace) {
			return ""
		}
		return fmt.Sprintf("does not select namespace %s in spec.kubernetesThrottle.namespacedPolicySelector", namespace)
	}, nil
}

// NotAdmitted returns the policies that the selectors of the Limiter select, but with which it does not limit writes, and why. The reason
// completes "Limiter a/b ".
func (p Policies) NotAdmitted(spec *v1alpha1.LimiterSpec) (map[types.UID]string, error) {
	admits, err := p.admits(spec)
	if err != nil {
		return nil, err
	}
	refused := map[types.UID]string{}
	if p.NoWrites {
		return refused, nil
	}
	selected, err := p.labeled(spec)
	if err != nil {
		return nil, err
	}
	for i := range selected.Namespaced {
		if policy := selected.Namespaced[i]; compile.LimitsWrites(policy.Spec.Match) {
			if why := admits(policy.Namespace); why != "" {
				refused[policy.UID] = why
			}
		}
	}
	for i := range selected.Cluster {
		if policy := selected.Cluster[i]; compile.LimitsWrites(policy.Spec.Match) {
			if why := admits(""); why != "" {
				refused[policy.UID] = why
			}
		}
	}
	return refused, nil
}
