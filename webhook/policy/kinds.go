package policy

import (
	"context"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

func rateLimitPolicies(config Config) validator[*v1alpha1.RateLimitPolicy] {
	return validator[*v1alpha1.RateLimitPolicy]{
		kind: v1alpha1.GroupVersion.WithKind("RateLimitPolicy").GroupKind(),
		spec: func(p *v1alpha1.RateLimitPolicy) any { return p.Spec },
		judge: func(ctx context.Context, p *v1alpha1.RateLimitPolicy) judgement {
			return config.judge(ctx, compile.Policies{Namespaced: []v1alpha1.RateLimitPolicy{*p}}, p.Namespace)
		},
	}
}

func clusterRateLimitPolicies(config Config) validator[*v1alpha1.ClusterRateLimitPolicy] {
	return validator[*v1alpha1.ClusterRateLimitPolicy]{
		kind: v1alpha1.GroupVersion.WithKind("ClusterRateLimitPolicy").GroupKind(),
		spec: func(p *v1alpha1.ClusterRateLimitPolicy) any { return p.Spec },
		judge: func(ctx context.Context, p *v1alpha1.ClusterRateLimitPolicy) judgement {
			// Those of a namespace are not asked about: none of them speaks for all that this one speaks for.
			return config.judge(ctx, compile.Policies{Cluster: []v1alpha1.ClusterRateLimitPolicy{*p}}, "")
		},
	}
}
