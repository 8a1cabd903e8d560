package policy

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/stored"
)

func TestUsages_RemembersAPolicyInOneGenerationAndIdentity(t *testing.T) {
	p := of(t, "shop", "a", 1, validSpec)
	one, two := stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{p})}, stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{p, of(t, "shop", "b", 1, validSpec)})}
	other := compile.DefaultIdentity()
	other.IPv6PrefixLength = 56
	u := &usages{}
	rulesOf := func(uid types.UID, generation int64, all stored.Policies, identity compile.Identity) int64 {
		return u.usage(&v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: generation}}, all, identity).Rules
	}
	rulesOf("a", 1, one, compile.DefaultIdentity())
	for name, test := range map[string]struct{ got, want int64 }{
		"the same":           {rulesOf("a", 1, two, compile.DefaultIdentity()), 1},
		"another generation": {rulesOf("a", 2, two, compile.DefaultIdentity()), 2},
		"another identity":   {rulesOf("a", 1, two, other), 2},
		"another policy":     {rulesOf("b", 1, two, compile.DefaultIdentity()), 2},
		"a policy in a file": {rulesOf("", 1, two, compile.DefaultIdentity()), 2},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d rules, want %d", name, test.got, test.want)
		}
	}
	if rulesOf("", 1, one, compile.DefaultIdentity()) != 1 {
		t.Error("remembers a policy without UID")
	}
	if got := (*usages)(nil).usage(&p, two, compile.DefaultIdentity()); got.Rules != 2 {
		t.Errorf("%d rules without a memory, want 2", got.Rules)
	}
}

func TestUsages_AreBounded(t *testing.T) {
	u := &usages{byKey: map[usageKey]budget.Usage{}}
	for i := range 99_999 {
		u.byKey[usageKey{generation: int64(i)}] = budget.Usage{}
	}
	for i, want := range []int{100_000, 1, 2} {
		u.usage(&v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{UID: types.UID(strconv.Itoa(i))}}, stored.Policies{}, compile.DefaultIdentity())
		if len(u.byKey) != want {
			t.Errorf("%d policies are remembered, want %d", len(u.byKey), want)
		}
	}
}

// A Limiter with an invalid selector keeps its previous selection, which the webhook does not know.
func TestValidateCreate_SkipsLimitersWithInvalidSelectors(t *testing.T) {
	invalid := limiterWith("invalid", 1, 1)
	invalid.Spec.PolicySelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	all := storedObjects{policies: []v1alpha1.RateLimitPolicy{of(t, "shop", "a", 1, validSpec)}, limiters: []v1alpha1.Limiter{invalid, limiterWith("default", 1, 9)}}
	p := of(t, "shop", "b", 0, validSpec)
	if _, err := newValidator(all).ValidateCreate(t.Context(), &p); err == nil || !strings.Contains(err.Error(), "Limiter weir/default is 1") {
		t.Errorf("error %v, want the budget of the other Limiter", err)
	}
	all.limiters = all.limiters[:1]
	if _, err := newValidator(all).ValidateCreate(t.Context(), &p); err != nil {
		t.Errorf("only Limiters with invalid selectors: %v", err)
	}
}
