package crd

import (
	"strings"
)

// testedKind is a kind with a CRD, and what the tests need to test it.
type testedKind struct {
	kind          string
	file          string // in config/crd/bases
	clusterScoped bool
	small         string // a minimal valid object, in YAML
	cases         func() []schemaCase
	// kubernetesFields are the paths of fields that have a type from the Kubernetes API. The tests do not check the bounds inside such a type.
	kubernetesFields []string
}

func testedKinds() []testedKind {
	return []testedKind{rateLimitPolicies(), clusterRateLimitPolicies(), limiters()}
}

func rateLimitPolicies() testedKind {
	return testedKind{
		kind: "RateLimitPolicy", file: "weir.dev_ratelimitpolicies.yaml", cases: cases,
		small: "metadata: {name: small}\nspec: {axis: Tenant, limit: 10, window: 1m}\n",
	}
}

func clusterRateLimitPolicies() testedKind {
	return testedKind{
		kind: "ClusterRateLimitPolicy", file: "weir.dev_clusterratelimitpolicies.yaml", clusterScoped: true, cases: clusterCases,
		small: "metadata: {name: small}\nspec: {axis: Tenant, limit: 10, window: 1m}\n",
	}
}

func limiters() testedKind {
	return testedKind{
		kind: "Limiter", file: "weir.dev_limiters.yaml", cases: limiterCases,
		small: "metadata: {name: small}\nspec: {redis: {addresses: [\"redis:6379\"]}}\n",
		kubernetesFields: []string{
			"spec.podTemplate.resources", "spec.podTemplate.tolerations[]", "spec.podTemplate.affinity",
			"spec.networkPolicy.from.http[]", "spec.networkPolicy.from.grpc[]", "spec.networkPolicy.from.metrics[]", "spec.networkPolicy.from.throttle[]",
		},
	}
}

// isKubernetesField reports whether a path of the schema is inside a type from the Kubernetes API.
func (k testedKind) isKubernetesField(at string) bool {
	for _, field := range k.kubernetesFields {
		if at == field || strings.HasPrefix(at, field+".") {
			return true
		}
	}
	return false
}
