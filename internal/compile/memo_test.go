package compile_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
)

// A policy with the same first rate and more of them, or fewer, leaves the rules of the others as they are.
func TestMemo_AnEditChangesTheNumberOfRates(t *testing.T) {
	var memo compile.Memo
	sources := make([]*compile.Source, 3)
	source := func(name string, generation int64, windows ...string) *compile.Source {
		spec := &policyapi.RateLimitPolicySpec{Axis: policyapi.AxisTenant}
		for _, window := range windows {
			spec.Rates = append(spec.Rates, policyapi.Rate{Limit: 10, Window: policyapi.Duration(window)})
		}
		return &compile.Source{UID: name, Generation: generation, Namespace: "shop", Name: name, Spec: spec}
	}
	for i, name := range []string{"a", "b", "c"} {
		sources[i] = source(name, 1, "1s", "1d")
	}
	for generation, windows := range [][]string{{"1s", "1h", "1d"}, {"1s", "1d"}, {"1s", "1m"}, {"1s", "1m", "1h", "1d"}} {
		sources = slices.Clone(sources)
		sources[1] = source("b", int64(generation+2), windows...)
		inputs := compile.Inputs{Policies: func(yield func(compile.Origin) bool) {
			for _, s := range sources {
				if !yield(s) {
					return
				}
			}
		}}
		got := memo.Compile(inputs, compile.DefaultIdentity(), budget.Default())
		want := new(compile.Memo).Compile(inputs, compile.DefaultIdentity(), budget.Default())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-from nothing +after an edit):\n%s", fmt.Sprint(windows), diff)
		}
		if len(got.Set.Rules) != 4+len(windows) {
			t.Errorf("%v: %d rules, want %d", windows, len(got.Set.Rules), 4+len(windows))
		}
	}
}
