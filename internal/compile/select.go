package compile

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-dev/weir/api/v1alpha1"
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
	refuses := func(match *v1alpha1.Match, namespace string) bool {
		return LimitsWrites(match) && admits(namespace) != ""
	}
	ofNamespace := func(policy v1alpha1.RateLimitPolicy) bool { return refuses(policy.Spec.Match, policy.Namespace) }
	if slices.ContainsFunc(selected.Namespaced, ofNamespace) {
		selected.Namespaced = slices.DeleteFunc(slices.Clone(selected.Namespaced), ofNamespace)
	}
	ofCluster := func(policy v1alpha1.ClusterRateLimitPolicy) bool { return refuses(policy.Spec.Match, "") }
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
	selected := Policies{Namespaces: p.Namespaces, Gateways: p.Gateways}
	within := p.namespaces(namespaces)
	for i := range p.Namespaced {
		if policy := &p.Namespaced[i]; policies.Matches(labels.Set(policy.Labels)) && within(policy.Namespace) {
			selected.Namespaced = append(selected.Namespaced, *policy)
		}
	}
	for i := range p.Cluster {
		if policy := &p.Cluster[i]; policies.Matches(labels.Set(policy.Labels)) {
			selected.Cluster = append(selected.Cluster, *policy)
		}
	}
	return selected, nil
}

// compileSelector returns a selector that selects everything if of is nil.
func compileSelector(of *v1alpha1.LabelSelector) (labels.Selector, error) {
	if of == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(of.Kubernetes())
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
