package policy

import (
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

// BenchmarkValidateUpdate measures the validation of an edit of one policy, after the edit before it, with one Limiter. The cache takes no time. The
// policies are in 100 namespaces or in one, and as many of them are ClusterRateLimitPolicies.
func BenchmarkValidateUpdate(b *testing.B) {
	for _, bench := range []struct {
		name       string
		namespaces int
		budget     int64 // in rules; 0 for more than there are
		spec       string
	}{
		{"in 100 namespaces", 100, 0, pathSpec},
		{"in one namespace", 1, 0, pathSpec},
		{"in one namespace with expressions", 1, 0, `{axis: User, limit: %d, window: 1m, match: {http: {expression: 'request.path == "/v1/%[1]d"'}}}`},
		{"in one namespace, the same match", 1, 0, `{axis: User, limit: %d, window: 1m}`},
		{"in one namespace, over the budget", 1, 50, pathSpec},
	} {
		for _, policies := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", bench.name, policies), func(b *testing.B) {
				cache := newFakeCache()
				l := limiterWith("default", 1_000_000, 1_000_000)
				if bench.budget > 0 {
					l = limiterWith("default", bench.budget, bench.budget)
				}
				l.Spec.PolicyBudget.PerNamespace.Bytes, l.Spec.PolicyBudget.Total.Bytes = new(int64(1<<30)), new(int64(1<<30))
				l.Spec.PolicyBudget.PerNamespace.Expressions, l.Spec.PolicyBudget.Total.Expressions = new(int64(1<<30)), new(int64(1<<30))
				l.UID, l.Generation = "limiter", 1
				cache.limiters = []v1alpha1.Limiter{l}
				for i := range bench.namespaces {
					cache.put(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%d", i)}})
				}
				for i := range policies {
					p := policytest.Stored(b, fmt.Sprintf("p%d", i), fmt.Sprintf(bench.spec, 1000+i))
					p.Namespace, p.UID, p.Generation = fmt.Sprintf("team-%d", i%bench.namespaces), types.UID(strconv.Itoa(i)), 1
					cache.put(&p)
				}
				v := cache.validator()
				p := cache.policies[types.NamespacedName{Namespace: fmt.Sprintf("team-%d", 7%bench.namespaces), Name: "p7"}]
				edit := func() {
					edited := p.DeepCopy()
					edited.Generation, edited.Spec.Limit = p.Generation+1, new(1_000_000+*p.Spec.Limit%1_000_000+1)
					if _, err := v.ValidateUpdate(b.Context(), p, edited); err != nil {
						b.Fatal(err)
					}
					cache.put(edited)
					p = edited
				}
				edit()
				b.ReportAllocs()
				for b.Loop() {
					edit()
				}
			})
		}
	}
}

const pathSpec = `{axis: User, limit: %d, window: 1m, match: {http: {paths: [{value: /v1/%[1]d}]}}}`

func (c *fakeCache) validator() validator[*v1alpha1.RateLimitPolicy] {
	return rateLimitPolicies(c.index())
}
