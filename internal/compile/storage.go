package compile

import (
	"github.com/weir-dev/weir/api/v1alpha1"
)

func (v *validator) validateStorage(spec *v1alpha1.RateLimitPolicySpec) {
	validateEnum(v, "spec.storage", spec.Storage, v1alpha1.StorageExact, v1alpha1.StorageCompact)
	if how := countingOf(spec); spec.Storage == v1alpha1.StorageCompact && how.valid() && !how.algorithm.HasCompact() {
		v.report("spec.storage", "storage must be Exact with this algorithm, because only the counts of a window are small enough; "+
			"use Exact, or algorithm SlidingWindowCounter or FixedWindow")
	}
}
