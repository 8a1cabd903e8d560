package policy

import (
	"context"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/stored"
)

func rateLimitPolicies(config Config) validator[*v1alpha1.RateLimitPolicy] {
	return validator[*v1alpha1.RateLimitPolicy]{
		kind: v1alpha1.GroupVersion.WithKind("RateLimitPolicy").GroupKind(),
		spec: func(p *v1alpha1.RateLimitPolicy) any { return p.Spec },
		validate: func(ctx context.Context, p *v1alpha1.RateLimitPolicy) verdict {
			found := config.compile(ctx, stored.Policies{Namespaced: []*v1alpha1.RateLimitPolicy{p}}, p.Namespace)
			if len(found.problems) == 0 {
				found.warnings = append(config.warnNotAdmitted(ctx, p), found.warnings...)
			}
			return found
		},
		checkBudget: func(ctx context.Context, p *v1alpha1.RateLimitPolicy) (found verdict) {
			config.addBudgets(ctx, stored.Policies{Namespaced: []*v1alpha1.RateLimitPolicy{p}}, &found)
			return found
		},
	}
}

func clusterRateLimitPolicies(config Config) validator[*v1alpha1.ClusterRateLimitPolicy] {
	return validator[*v1alpha1.ClusterRateLimitPolicy]{
		kind: v1alpha1.GroupVersion.WithKind("ClusterRateLimitPolicy").GroupKind(),
		spec: func(p *v1alpha1.ClusterRateLimitPolicy) any { return p.Spec },
		validate: func(ctx context.Context, p *v1alpha1.ClusterRateLimitPolicy) verdict {
			// Namespaced policies are not read, because none of them applies to every domain of a cluster-scoped policy.
			return config.compile(ctx, stored.Policies{Cluster: []*v1alpha1.ClusterRateLimitPolicy{p}}, "")
		},
		checkBudget: func(ctx context.Context, p *v1alpha1.ClusterRateLimitPolicy) (found verdict) {
			config.addBudgets(ctx, stored.Policies{Cluster: []*v1alpha1.ClusterRateLimitPolicy{p}}, &found)
			return found
		},
	}
}
