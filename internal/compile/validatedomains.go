package compile

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// validateNames validates the names of the policy and of its namespace.
func (v *validator) validateNames(policy candidate) {
	if policy.cluster == nil {
		v.validateName("metadata.namespace", policy.namespace)
		if policy.namespace == clusterScope {
			v.report("metadata.namespace", "namespace %s is reserved: a policy there would share its name and its counters with a ClusterRateLimitPolicy; "+
				"move the policy to another namespace, or use a ClusterRateLimitPolicy with this domain", clusterScope)
		}
	}
	v.validateName("metadata.name", policy.objectName)
}

func (v *validator) validateCluster(spec *v1alpha1.ClusterRateLimitPolicySpec) {
	for i, domain := range spec.Domains {
		if domain == "" || strings.ContainsFunc(string(domain), isSpaceOrControl) {
			v.report(fmt.Sprintf("spec.domains[%d]", i),
				"%q: a domain must be one or more characters without spaces: the name of a namespace, or the domain that your proxy sends", domain)
		}
	}
	validateEnum(v, "spec.precedence", spec.Precedence, v1alpha1.PrecedenceOverride, v1alpha1.PrecedenceDefault)
}

func isSpaceOrControl(r rune) bool {
	return r <= unicode.MaxASCII && (unicode.IsSpace(r) || unicode.IsControl(r))
}
