package report

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

func TestCountsSeparately_NamesALimiterOnTheSameRedisWithoutACommonGroup(t *testing.T) {
	of := func(name, group, policy string, addresses ...v1alpha1.RedisAddress) LimiterState {
		l := &v1alpha1.Limiter{}
		l.Spec.Redis.Addresses, l.Spec.CounterGroup = addresses, group
		return LimiterState{
			Limiter: types.NamespacedName{Namespace: "weir", Name: name}, Counters: CountersOf(l),
			RuleSet: &selection.RuleSet{Rules: map[string]selection.Rule{policy: {}, "own/" + name: {}}},
		}
	}
	in := func(mode v1alpha1.RedisMode) LimiterState {
		state, l := of("b", "", "shop/x"), &v1alpha1.Limiter{}
		l.Spec.Redis = v1alpha1.Redis{Mode: mode, Addresses: []v1alpha1.RedisAddress{"r1:6379", "r2:6379"}}
		state.Counters = CountersOf(l)
		return state
	}
	for name, test := range map[string]struct {
		other LimiterState
		want  bool
	}{
		"the same Redis, whose mode is named": {in(v1alpha1.RedisCluster), true},
		"the same Redis":                      {of("b", "", "shop/x", "r2:6379", "r1:6379"), true},
		"another group":                       {of("b", "other", "shop/x", "r1:6379", "r2:6379"), true},
		"the same group":                      {of("b", "g", "shop/x", "r1:6379", "r2:6379"), false},
		"another Redis":                       {of("b", "", "shop/x", "r3:6379"), false},
		"other policies":                      {of("b", "", "shop/y", "r1:6379", "r2:6379"), false},
	} {
		states := NewLimiterStates()
		own := of("a", "g", "shop/x", "r1:6379", "r2:6379")
		states.Set(own)
		states.Set(test.other)
		got := states.CountsSeparately(own.Limiter)
		if (got != "") != test.want || test.want && !strings.HasPrefix(got, "Limiter weir/b selects 1 of the same policies") {
			t.Errorf("%s: %q", name, got)
		}
	}
	alone := NewLimiterStates()
	alone.Set(of("a", "", "shop/x", "r1:6379"))
	alone.Set(of("b", "", "shop/x", "r1:6379"))
	if alone.CountsSeparately(types.NamespacedName{Namespace: "weir", Name: "a"}) == "" {
		t.Error("two Limiters without a group do not share counters")
	}
}
