package report

import (
	"strings"

	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// notAdmitted returns why no Limiter limits writes by a policy that no Limiter enforces. It is empty if no Limiter refuses the policy.
func notAdmitted(p selection.Policy, states []LimiterState) string {
	var reasons []string
	for i := range states {
		if why := states[i].NotAdmitted[p.GetUID()]; why != "" && len(reasons) < maxLimiters {
			reasons = append(reasons, "Limiter "+states[i].Limiter.String()+" "+why)
		}
	}
	if len(reasons) == 0 {
		return ""
	}
	advice := "; set spec.kubernetesThrottle of a Limiter"
	if !p.Cluster {
		advice = "; use a ClusterRateLimitPolicy, or ask an administrator to select the namespace in spec.kubernetesThrottle of a Limiter"
	}
	return "the policy limits no writes: " + strings.Join(reasons, "; ") + advice
}
