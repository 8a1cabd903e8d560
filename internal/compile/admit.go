package compile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// LimitsWrites reports whether the policy limits writes to the Kubernetes API.
func LimitsWrites(match *v1alpha1.Match) bool { return match != nil && match.Kubernetes != nil }

// throttles reports whether API servers may call the Limiter.
func throttles(spec *v1alpha1.LimiterSpec) bool {
	t := spec.KubernetesThrottle
	return t != nil && (t.Enabled == nil || *t.Enabled)
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
	selected, err := p.labeled(spec)
	if err != nil {
		return nil, err
	}
	refused := map[types.UID]string{}
	for i := range selected.Namespaced {
		if policy := &selected.Namespaced[i]; LimitsWrites(policy.Spec.Match) {
			if why := admits(policy.Namespace); why != "" {
				refused[policy.UID] = why
			}
		}
	}
	for i := range selected.Cluster {
		if policy := &selected.Cluster[i]; LimitsWrites(policy.Spec.Match) {
			if why := admits(""); why != "" {
				refused[policy.UID] = why
			}
		}
	}
	return refused, nil
}
