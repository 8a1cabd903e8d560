package policy

import (
	"context"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func rateLimitPolicies(x *index) validator[*v1alpha1.RateLimitPolicy] {
	return validator[*v1alpha1.RateLimitPolicy]{
		kind: v1alpha1.GroupVersion.WithKind("RateLimitPolicy").GroupKind(),
		spec: func(p *v1alpha1.RateLimitPolicy) any { return p.Spec },
		validate: func(ctx context.Context, p *v1alpha1.RateLimitPolicy) verdict {
			found := x.compile(ctx, p)
			if len(found.problems) == 0 {
				found.warnings = append(x.warnNotAdmitted(ctx, p), found.warnings...)
			}
			return found
		},
		checkBudget: func(ctx context.Context, p *v1alpha1.RateLimitPolicy) (found verdict) {
			x.addBudgets(ctx, newEntry(p, x.identity), &found)
			return found
		},
	}
}

func clusterRateLimitPolicies(x *index) validator[*v1alpha1.ClusterRateLimitPolicy] {
	return validator[*v1alpha1.ClusterRateLimitPolicy]{
		kind: v1alpha1.GroupVersion.WithKind("ClusterRateLimitPolicy").GroupKind(),
		spec: func(p *v1alpha1.ClusterRateLimitPolicy) any { return p.Spec },
		validate: func(ctx context.Context, p *v1alpha1.ClusterRateLimitPolicy) verdict {
			// Namespaced policies are not compared, because none of them applies to every domain of a cluster-scoped policy.
			return x.compile(ctx, p)
		},
		checkBudget: func(ctx context.Context, p *v1alpha1.ClusterRateLimitPolicy) (found verdict) {
			x.addBudgets(ctx, newEntry(p, x.identity), &found)
			return found
		},
	}
}
