package lowering

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/labelselector"
	"github.com/weir-dev/weir/limiter/rules"
)

// isKubernetes reports whether a policy limits writes to the Kubernetes API.
func isKubernetes(spec *policyapi.RateLimitPolicySpec) bool { return LimitsWrites(spec.Match) }

func lowerKubernetesMatch(match *policyapi.KubernetesMatch) rules.Match {
	return rules.Match{
		Kubernetes: &rules.KubernetesMatch{
			Resources:         sorted(mapEach(match.Resources, lowerResources), compareResources),
			Namespaces:        sorted(mapEach(match.Namespaces, text[policyapi.NamespaceName]), strings.Compare),
			NamespaceSelector: labelselector.Lower(match.NamespaceSelector),
			Users:             sorted(mapEach(match.Users, text[policyapi.KubernetesUser]), strings.Compare),
			Groups:            sorted(mapEach(match.Groups, text[policyapi.KubernetesUser]), strings.Compare),
			ExceptUsers:       sorted(mapEach(match.ExceptUsers, text[policyapi.KubernetesUser]), strings.Compare),
			ExceptGroups:      sorted(mapEach(match.ExceptGroups, text[policyapi.KubernetesUser]), strings.Compare),
		},
		Expression: lowerExpression(match.Expression),
	}
}

func lowerResources(resources policyapi.KubernetesResources) rules.KubernetesResources {
	return rules.KubernetesResources{
		APIGroups:  sorted(mapEach(resources.APIGroups, text[policyapi.APIGroup]), strings.Compare),
		Resources:  sorted(mapEach(resources.Resources, text[policyapi.ResourceName]), strings.Compare),
		Operations: sorted(mapEach(operationsOf(resources), text[policyapi.Operation]), strings.Compare),
	}
}

// operationsOf returns the operations, or the default if the list is empty.
func operationsOf(resources policyapi.KubernetesResources) []policyapi.Operation {
	if len(resources.Operations) == 0 {
		return []policyapi.Operation{policyapi.OperationCreate}
	}
	return resources.Operations
}

func compareResources(a, b rules.KubernetesResources) int {
	return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources), slices.Compare(a.Operations, b.Operations))
}

// LimitsWrites reports whether the policy limits writes to the Kubernetes API.
func LimitsWrites(match *policyapi.Match) bool { return match != nil && match.Kubernetes != nil }
