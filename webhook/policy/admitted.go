package policy

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
)

// warnNotAdmitted returns a warning if the policy has match.kubernetes and there are Limiters, but no Limiter lets it limit writes. The policy is
// stored nevertheless: an administrator can admit it later.
func (x *index) warnNotAdmitted(ctx context.Context, p *v1alpha1.RateLimitPolicy) []string {
	if !compile.LimitsWrites(p.Spec.Match) {
		return nil
	}
	admitted, err := x.isAdmitted(ctx, p)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not determine whether a Limiter admits a policy for writes", "policy", stored.Name(p))
	}
	if err != nil || admitted {
		return nil
	}
	return []string{fmt.Sprintf("spec.match.kubernetes: no Limiter lets policies of namespace %s limit writes; see the condition Ready", p.Namespace)}
}

func (x *index) isAdmitted(ctx context.Context, p *v1alpha1.RateLimitPolicy) (bool, error) {
	var limiters v1alpha1.LimiterList
	if err := x.cache.List(ctx, &limiters, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list Limiters: %w", err)
	}
	if err := x.follow(ctx); err != nil {
		return false, err
	}
	one := stored.Policies{Namespaced: []*v1alpha1.RateLimitPolicy{p}, Namespaces: x.namespace(p.Namespace)}
	for i := range limiters.Items {
		if selected, err := one.SelectedBy(&limiters.Items[i].Spec); err == nil && len(selected.Namespaced) > 0 { // its own status reports an error
			return true, nil
		}
	}
	return len(limiters.Items) == 0, nil
}
