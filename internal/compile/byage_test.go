package compile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
)

// agedPolicies returns n policies of a namespace. The last one by name is the oldest.
func agedPolicies(namespace string, n int) (all []policyapi.RateLimitPolicy) {
	for i := range n {
		p := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("p%03d", i), CreationTimestamp: time.Unix(int64(10_000-i), 0),
		}}
		p.Spec = policyapi.RateLimitPolicySpec{Axis: policyapi.AxisTenant, Limit: new(int64(1)), Window: "1m"}
		all = append(all, p)
	}
	return all
}

func TestCompile_ListsThePoliciesOfLargeNamespacesByAge(t *testing.T) {
	all := slices.Concat(agedPolicies("large", 33), agedPolicies("small", 32))
	result := compile.Policies{Namespaced: all}.Compile(compile.DefaultIdentity())
	if len(result.Set.ByAge) != 1 || len(result.Set.ByAge["large"]) != 33 || result.Set.ByAge["large"][0] != "p032" || result.Set.ByAge["large"][32] != "p000" {
		t.Errorf("%v", result.Set.ByAge)
	}
	slices.Reverse(all)
	if again := (compile.Policies{Namespaced: all}).Compile(compile.DefaultIdentity()); !slices.Equal(again.Set.ByAge["large"], result.Set.ByAge["large"]) {
		t.Errorf("another order of the objects: %v", again.Set.ByAge)
	}
	for i := range all {
		all[i].CreationTimestamp = time.Time{}
	}
	if files := (compile.Policies{Namespaced: all}).Compile(compile.DefaultIdentity()); files.Set.ByAge != nil {
		t.Errorf("policies without an age: %v", files.Set.ByAge)
	}
}

// The names of rules sort differently from those of policies: "a-00" is before "a:1d", and a before a-00.
func TestCompile_ListsTheRatesOfTheOldestPolicyFirst(t *testing.T) {
	all := agedPolicies("large", 31)
	for i := range all {
		all[i].Name, all[i].CreationTimestamp = fmt.Sprintf("a-%02d", i), time.Unix(int64(1+i), 0)
	}
	oldest := all[0]
	oldest.Name, oldest.CreationTimestamp = "a", time.Unix(0, 0)
	oldest.Spec = policyapi.RateLimitPolicySpec{Axis: policyapi.AxisTenant, Rates: []policyapi.Rate{{Limit: 1, Window: "1m"}, {Limit: 5, Window: "1d"}}}
	result := compile.Policies{Namespaced: append(all, oldest)}.Compile(compile.DefaultIdentity())
	if got := result.Set.ByAge["large"]; len(got) != 33 || got[0] != "a:1d" || got[1] != "a:1m" {
		t.Errorf("the rates of the oldest policy are not the first ones: %v", got)
	}
}

func TestCompileWithin_ListsOnlyPoliciesThatFit(t *testing.T) {
	all := compile.Policies{Namespaced: agedPolicies("large", 40)}
	budget := budget.Budget{PerNamespace: budget.Usage{Rules: 35}}
	if got := all.CompileWithin(compile.DefaultIdentity(), budget).Set.ByAge["large"]; len(got) != 35 || got[0] != "p039" || got[34] != "p005" {
		t.Errorf("%v", got)
	}
}
