package compile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// isKubernetes reports whether a policy limits writes to the Kubernetes API.
func isKubernetes(spec *v1alpha1.RateLimitPolicySpec) bool { return LimitsWrites(spec.Match) }

func lowerKubernetesMatch(match *v1alpha1.KubernetesMatch) rules.Match {
	return rules.Match{
		Kubernetes: &rules.KubernetesMatch{
			Resources:         sorted(mapEach(match.Resources, lowerResources), compareResources),
			Namespaces:        sorted(mapEach(match.Namespaces, text[v1alpha1.NamespaceName]), strings.Compare),
			NamespaceSelector: lowerSelector(match.NamespaceSelector),
			Users:             sorted(mapEach(match.Users, text[v1alpha1.KubernetesUser]), strings.Compare),
			Groups:            sorted(mapEach(match.Groups, text[v1alpha1.KubernetesUser]), strings.Compare),
			ExceptUsers:       sorted(mapEach(match.ExceptUsers, text[v1alpha1.KubernetesUser]), strings.Compare),
			ExceptGroups:      sorted(mapEach(match.ExceptGroups, text[v1alpha1.KubernetesUser]), strings.Compare),
		},
		Expression: lowerExpression(match.Expression),
	}
}

func lowerResources(resources v1alpha1.KubernetesResources) rules.KubernetesResources {
	return rules.KubernetesResources{
		APIGroups:  sorted(mapEach(resources.APIGroups, text[v1alpha1.APIGroup]), strings.Compare),
		Resources:  sorted(mapEach(resources.Resources, text[v1alpha1.ResourceName]), strings.Compare),
		Operations: sorted(mapEach(operationsOf(resources), text[v1alpha1.Operation]), strings.Compare),
	}
}

// operationsOf returns the operations, or the default if the list is empty.
func operationsOf(resources v1alpha1.KubernetesResources) []v1alpha1.Operation {
	if len(resources.Operations) == 0 {
		return []v1alpha1.Operation{v1alpha1.OperationCreate}
	}
	return resources.Operations
}

func compareResources(a, b rules.KubernetesResources) int {
	return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources), slices.Compare(a.Operations, b.Operations))
}

// lowerSelector converts matchLabels to requirements. A nil selector and an empty selector both select everything.
func lowerSelector(selector *metav1.LabelSelector) rules.Selector {
	if selector == nil {
		return nil
	}
	var requirements rules.Selector
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		requirements = append(requirements, rules.Requirement{Key: key, Operator: rules.SelectorIn, Values: []string{selector.MatchLabels[key]}})
	}
	for _, r := range selector.MatchExpressions {
		requirements = append(requirements, rules.Requirement{
			Key: r.Key, Operator: rules.SelectorOperator(r.Operator), Values: sorted(slices.Clone(r.Values), strings.Compare),
		})
	}
	return sorted(requirements, compareRequirements)
}

func compareRequirements(a, b rules.Requirement) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
}
