package compile_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter"
)

func TestCompile_AcceptsOfEachAlgorithmWhatItsTraitsPermit(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		traits := algorithm.Traits()
		for field, test := range map[string]struct {
			set  func(*v1alpha1.RateLimitPolicySpec)
			want bool
		}{
			"":             {func(*v1alpha1.RateLimitPolicySpec) {}, true},
			"spec.burst":   {func(s *v1alpha1.RateLimitPolicySpec) { s.Burst = new(int64(5)) }, traits.Drains},
			"spec.overrun": {func(s *v1alpha1.RateLimitPolicySpec) { s.Overrun = v1alpha1.OverrunDebt }, traits.Debts},
			"spec.storage": {func(s *v1alpha1.RateLimitPolicySpec) { s.Storage = v1alpha1.StorageCompact }, algorithm.HasCompact()},
			"spec.lease":   {func(s *v1alpha1.RateLimitPolicySpec) { s.Lease = &v1alpha1.Lease{} }, !traits.Queues},
			"spec.window":  {func(s *v1alpha1.RateLimitPolicySpec) { s.Window = "31d" }, traits.MaxWindow > 31*24*time.Hour},
			"spec.limit":   {func(s *v1alpha1.RateLimitPolicySpec) { s.Limit = limiter.MaxLogUnits + 1 }, traits.MaxUnits > limiter.MaxLogUnits},
		} {
			policy := v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
			policy.Spec = v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisIP, Limit: 100, Window: "1m", Algorithm: v1alpha1.Algorithm(algorithm)}
			test.set(&policy.Spec)
			set, problems := compile.Compile([]v1alpha1.RateLimitPolicy{policy}, testIdentity())
			if accepted := len(problems) == 0; accepted != test.want || accepted && set.Rules[0].Algorithm != algorithm {
				t.Errorf("%s with %q: accepted %t, want %t: %v", algorithm, field, accepted, test.want, problems)
			}
			if !test.want && !slices.ContainsFunc(problems, func(p compile.Problem) bool { return p.Field == field }) {
				t.Errorf("%s: the problems %v do not name %s", algorithm, problems, field)
			}
		}
	}
}
