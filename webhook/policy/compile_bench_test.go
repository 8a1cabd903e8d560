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

const pathSpec = `{axis: User, limit: %d, window: 1m, match: {http: {paths: [{value: /v1/%[1]d}]}}}`

// BenchmarkValidateUpdate measures the validation of an edit of one policy and the event about it, with one Limiter. The cache takes no time.
func BenchmarkValidateUpdate(b *testing.B) {
	for _, bench := range []struct {
		name       string
		namespaces int
		budget     int64 // in rules; 0 for more than there are
		spec       string
	}{
		{"in 100 namespaces", 100, 0, pathSpec},
		{"in one namespace", 1, 0, pathSpec},
		{"in one namespace, expressions", 1, 0, `{axis: User, limit: %d, window: 1m, match: {http: {expression: 'request.path == "/v1/%[1]d"'}}}`},
		{"in one namespace, the same match", 1, 0, `{axis: User, limit: %d, window: 1m}`},
		{"in one namespace, over the budget", 1, 50, pathSpec},
	} {
		for _, policies := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", bench.name, policies), func(b *testing.B) {
				edit := newEdits(b, policies, bench.namespaces, bench.budget, bench.spec)
				edit()
				b.ReportAllocs()
				for b.Loop() {
					edit()
				}
			})
		}
	}
}

// BenchmarkValidateCreate measures the rejection of a policy of a namespace that uses its whole budget. The webhook then fits all policies to the budget.
func BenchmarkValidateCreate(b *testing.B) {
	for _, policies := range []int{100, 1000, 10_000} {
		b.Run(strconv.Itoa(policies), func(b *testing.B) {
			cache := newCacheOf(b, policies, 1, int64(policies), pathSpec)
			v := rateLimitPolicies(cache.index())
			p := policytest.Stored(b, "z", fmt.Sprintf(pathSpec, 1))
			p.Namespace, p.CreationTimestamp = "team-0", metav1.Now()
			create := func() {
				if _, err := v.ValidateCreate(b.Context(), &p); err == nil {
					b.Fatal("the policy is accepted")
				}
			}
			create()
			b.ReportAllocs()
			for b.Loop() {
				create()
			}
		})
	}
}

// newCacheOf returns a cache with that many policies and one Limiter, whose budget in rules is 0 for more than there are.
func newCacheOf(tb testing.TB, policies, namespaces int, rules int64, spec string) *fakeCache {
	tb.Helper()
	cache := newFakeCache()
	if rules == 0 {
		rules = 1_000_000
	}
	l := limiterWith("default", rules, rules)
	l.UID, l.Generation = "limiter", 1
	for _, limits := range []*v1alpha1.BudgetLimits{&l.Spec.PolicyBudget.PerNamespace, &l.Spec.PolicyBudget.Total} {
		limits.Bytes, limits.Expressions = new(int64(1<<30)), new(int64(1<<30))
	}
	cache.limiters = []v1alpha1.Limiter{l}
	for i := range namespaces {
		cache.put(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%d", i)}})
	}
	for i := range policies {
		p := policytest.Stored(tb, fmt.Sprintf("p%d", i), fmt.Sprintf(spec, 1000+i))
		p.Namespace, p.UID, p.Generation = fmt.Sprintf("team-%d", i%namespaces), types.UID(strconv.Itoa(i)), 1
		cache.put(&p)
	}
	return cache
}

// newEdits returns a function that validates an edit of one policy, and then stores it.
func newEdits(tb testing.TB, policies, namespaces int, rules int64, spec string) (edit func()) {
	tb.Helper()
	cache := newCacheOf(tb, policies, namespaces, rules, spec)
	v := rateLimitPolicies(cache.index())
	p := cache.policies[types.NamespacedName{Namespace: fmt.Sprintf("team-%d", 7%namespaces), Name: "p7"}]
	return func() {
		edited := p.DeepCopy()
		edited.Generation, edited.Spec.Limit = p.Generation+1, new(1_000_000+*p.Spec.Limit%1_000_000+1)
		if _, err := v.ValidateUpdate(tb.Context(), p, edited); err != nil {
			tb.Fatal(err)
		}
		cache.put(edited)
		p = edited
	}
}
