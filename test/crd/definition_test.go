package crd

import (
	"strings"
)

// definition is a kind, and how the tests speak of it.
type definition struct {
	kind          string
	file          string // in config/crd/bases
	clusterScoped bool
	small         string // a small valid object, in YAML
	cases         func() []schemaCase
	// kubernetes are the fields of Kubernetes' own types, which bounds what is in them itself.
	kubernetes []string
}

func definitions() []definition {
	return []definition{rateLimitPolicies(), clusterRateLimitPolicies(), limiters()}
}

func rateLimitPolicies() definition {
	return definition{
		kind: "RateLimitPolicy", file: "weir.dev_ratelimitpolicies.yaml", cases: cases,
		small: "metadata: {name: small}\nspec: {axis: Tenant, limit: 10, window: 1m}\n", kubernetes: selectorsOfPolicies(),
	}
}

func clusterRateLimitPolicies() definition {
	return definition{
		kind: "ClusterRateLimitPolicy", file: "weir.dev_clusterratelimitpolicies.yaml", clusterScoped: true, cases: clusterCases,
		small: "metadata: {name: small}\nspec: {axis: Tenant, limit: 10, window: 1m}\n", kubernetes: selectorsOfPolicies(),
	}
}

func limiters() definition {
	return definition{
		kind: "Limiter", file: "weir.dev_limiters.yaml", cases: limiterCases,
		small:      "metadata: {name: small}\nspec: {redis: {addresses: [\"redis:6379\"]}}\n",
		kubernetes: []string{"spec.podTemplate.resources", "spec.podTemplate.tolerations[]", "spec.podTemplate.affinity"},
	}
}

// selectorsOfPolicies are the fields of a policy that are Kubernetes' own. That a tier's selector is not empty is ours.
func selectorsOfPolicies() []string {
	return append(withinSelector("spec.tiers[].when.namespaceSelector"), "spec.match.kubernetes.namespaceSelector")
}

// withinSelector are the fields of a selector that has rules of ours.
func withinSelector(at string) []string {
	return []string{at + ".matchLabels", at + ".matchExpressions", at + ".matchExpressions[]"}
}

// isKubernetes says whether a place lies within a type of Kubernetes' own.
func (d definition) isKubernetes(at string) bool {
	for _, field := range d.kubernetes {
		if at == field || strings.HasPrefix(at, field+".") {
			return true
		}
	}
	return false
}
