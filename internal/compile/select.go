package compile

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// SelectedBy are those of the policies that the Limiter enforces, and all that is known of namespaces. A policy whose
// namespace is not known is selected only where every namespace is. The error is that of a selector that is none.
func (p Policies) SelectedBy(spec *v1alpha1.LimiterSpec) (Policies, error) {
	policies, err := selector(spec.PolicySelector)
	if err != nil {
		return Policies{}, fmt.Errorf("spec.policySelector: %w", err)
	}
	namespaces, err := selector(spec.PolicyNamespaceSelector)
	if err != nil {
		return Policies{}, fmt.Errorf("spec.policyNamespaceSelector: %w", err)
	}
	if policies.Empty() && namespaces.Empty() {
		return p, nil
	}
	selected := Policies{Namespaces: p.Namespaces}
	within := p.namespaces(namespaces)
	for i := range p.Namespaced {
		if one := &p.Namespaced[i]; policies.Matches(labels.Set(one.Labels)) && within(one.Namespace) {
			selected.Namespaced = append(selected.Namespaced, *one)
		}
	}
	for i := range p.Cluster {
		if one := &p.Cluster[i]; policies.Matches(labels.Set(one.Labels)) {
			selected.Cluster = append(selected.Cluster, *one)
		}
	}
	return selected, nil
}

// selector is everything where there is none: for an absent one selects all, too.
func selector(of *v1alpha1.LabelSelector) (labels.Selector, error) {
	if of == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(of.Kubernetes())
}

// namespaces says of a name whether the namespace is known and selected.
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
