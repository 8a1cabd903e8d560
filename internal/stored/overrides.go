package stored

import (
	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// MaxOverriddenBy is the maximum number of domains in status.overriddenBy.
const MaxOverriddenBy = 16

// OverriddenBy returns the policies that decide in the first domains of the overrides of one policy.
func OverriddenBy(overrides []redundancy.Override) (all []v1alpha1.PolicyOverride) {
	for _, o := range overrides[:min(len(overrides), MaxOverriddenBy)] {
		by := v1alpha1.PolicyOverride{Domain: o.Domain, Kind: v1alpha1.PolicyKindNamespaced}
		if o.Reason == v1alpha1.ReasonStricterPolicy {
			by.Kind = v1alpha1.PolicyKindCluster
		}
		_, by.Name = policyname.Split(o.By)
		all = append(all, by)
	}
	return all
}
