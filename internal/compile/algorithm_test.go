package compile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter"
)

func TestCompile_AcceptsOfEachAlgorithmWhatItsTraitsPermit(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		traits := algorithm.Traits()
		for field, test := range map[string]struct {
			set  func(*policyapi.RateLimitPolicySpec)
			want bool
		}{
			"":             {func(*policyapi.RateLimitPolicySpec) {}, true},
			"spec.burst":   {func(s *policyapi.RateLimitPolicySpec) { s.Burst = new(int64(5)) }, traits.Drains},
			"spec.overrun": {func(s *policyapi.RateLimitPolicySpec) { s.Overrun = policyapi.OverrunDebt }, traits.Debts},
			"spec.storage": {func(s *policyapi.RateLimitPolicySpec) { s.Storage = policyapi.StorageCompact }, algorithm.HasCompact()},
			"spec.lease":   {func(s *policyapi.RateLimitPolicySpec) { s.Lease = &policyapi.Lease{} }, !traits.Queues},
			"spec.window":  {func(s *policyapi.RateLimitPolicySpec) { s.Window = "31d" }, traits.MaxWindow > 31*24*time.Hour},
			"spec.limit":   {func(s *policyapi.RateLimitPolicySpec) { s.Limit = new(int64(limiter.MaxLogUnits + 1)) }, traits.MaxUnits > limiter.MaxLogUnits},
		} {
			policy := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "a"}}
			policy.Spec = policyapi.RateLimitPolicySpec{Axis: policyapi.AxisIP, Limit: new(int64(100)), Window: "1m", Algorithm: policyapi.Algorithm(algorithm)}
			test.set(&policy.Spec)
			set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, testIdentity())
			if accepted := len(problems) == 0; accepted != test.want || accepted && set.Rules[0].Algorithm != algorithm {
				t.Errorf("%s with %q: accepted %t, want %t: %v", algorithm, field, accepted, test.want, problems)
			}
			if !test.want && !slices.ContainsFunc(problems, func(p compile.Problem) bool { return p.Field == field }) {
				t.Errorf("%s: the problems %v do not name %s", algorithm, problems, field)
			}
		}
	}
}
