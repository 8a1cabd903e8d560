package compile

import (
	"github.com/weir-dev/weir/api/v1alpha1"
)

// validateOverrun reports debts on counters that cannot hold more units than their limit, and on leased units.
func (v *validator) validateOverrun(spec *v1alpha1.RateLimitPolicySpec) {
	validateEnum(v, "spec.overrun", spec.Overrun, v1alpha1.OverrunDeny, v1alpha1.OverrunDebt)
	if spec.Overrun != v1alpha1.OverrunDebt {
		return
	}
	if how := countingOf(spec); how.algorithmErr == nil && !how.algorithm.Traits().Debts {
		v.report("spec.overrun", "overrun: Debt is valid only with algorithm FixedWindow or SlidingWindowCounter, whose counters can hold more "+
			"units than the limit; use one of these algorithms or remove overrun")
	}
	if spec.Consistency == v1alpha1.ConsistencyLeased {
		v.report("spec.overrun", "overrun: Debt is invalid with consistency: Leased, because a replica cannot admit a debt from memory; "+
			"remove overrun or consistency")
	}
}
