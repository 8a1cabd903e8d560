package compile

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// checkPlace checks what of a policy says which domains it is for.
func (c *checker) checkPlace(policy candidate) {
	if policy.cluster == nil {
		c.checkName("metadata.namespace", policy.namespace)
		if policy.namespace == clusterScope {
			c.add("metadata.namespace", "in a namespace called %s policies would have the names, and the counters, of ClusterRateLimitPolicies; "+
				"move the policy, or write a ClusterRateLimitPolicy with this domain", clusterScope)
		}
	}
	c.checkName("metadata.name", policy.objectName)
}

func (c *checker) checkCluster(spec *v1alpha1.ClusterRateLimitPolicySpec) {
	for i, domain := range spec.Domains {
		if domain == "" || strings.ContainsFunc(string(domain), isSpaceOrControl) {
			c.add(fmt.Sprintf("spec.domains[%d]", i),
				"%q is no domain: one is the name of a namespace, or whatever the proxies call theirs, without spaces", domain)
		}
	}
	checkEnum(c, "spec.precedence", spec.Precedence, v1alpha1.PrecedenceOverride, v1alpha1.PrecedenceDefault)
}

func isSpaceOrControl(r rune) bool {
	return r <= unicode.MaxASCII && (unicode.IsSpace(r) || unicode.IsControl(r))
}
