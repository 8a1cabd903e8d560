package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

// limiterWith returns a Limiter whose budget admits that many policies in a namespace and in total.
func limiterWith(name string, perNamespace, total int64) v1alpha1.Limiter {
	l := v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir", Name: name}}
	l.Spec.PolicyBudget.PerNamespace.Rules, l.Spec.PolicyBudget.Total.Rules = &perNamespace, &total
	return l
}

func TestValidateCreate_RejectsAPolicyOverTheBudgetOfEveryLimiter(t *testing.T) {
	a, b, c := policytest.Stored(t, "a", validSpec), policytest.Stored(t, "b", `{axis: Tenant, limit: 10, window: 1m}`), policytest.Stored(t, "c", `{axis: IP, limit: 10, window: 1m}`)
	other := policytest.Stored(t, "other", validSpec)
	other.Namespace = "elsewhere"
	elsewhere := limiterWith("elsewhere", 1, 1)
	elsewhere.Spec.PolicySelector = &metav1.LabelSelector{MatchLabels: map[string]string{"at": "elsewhere"}}
	tests := map[string]struct {
		limiters []v1alpha1.Limiter
		want     string // in the error; empty if the policy is accepted
		warning  string
	}{
		"without Limiters": {nil, "", ""},
		"with room":        {[]v1alpha1.Limiter{limiterWith("default", 3, 4)}, "", ""},
		"not selected":     {[]v1alpha1.Limiter{elsewhere}, "", ""},
		"over the budget of the namespace": {
			[]v1alpha1.Limiter{limiterWith("default", 2, 9), elsewhere},
			"spec: Invalid value: with this policy, namespace " + c.Namespace + " needs 3 rules, and the policy budget of Limiter weir/default is 2 (this policy: 1): " +
				"shorten or delete policies, or raise spec.policyBudget.perNamespace.rules of the Limiter", "",
		},
		"over the total": {
			[]v1alpha1.Limiter{limiterWith("default", 9, 3)},
			"spec: Invalid value: with this policy, all policies need 4 rules, and the policy budget of Limiter weir/default is 3 (this policy: 1): " +
				"shorten or delete policies, or raise spec.policyBudget.total.rules of the Limiter", "",
		},
		"over the budget of one of two": {
			[]v1alpha1.Limiter{limiterWith("default", 9, 9), limiterWith("staging", 2, 9)},
			"",
			"with this policy, namespace " + c.Namespace + " needs 3 rules, and the policy budget of Limiter weir/staging is 2",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := newValidator(storedObjects{policies: []v1alpha1.RateLimitPolicy{a, b, other}, limiters: test.limiters})
			warnings, err := v.ValidateCreate(t.Context(), &c)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if (test.warning == "") != (len(warnings) == 0) || test.warning != "" && !strings.HasPrefix(warnings[0], test.warning) {
				t.Errorf("warnings %q, want %q", warnings, test.warning)
			}
		})
	}

	// An edit of a stored policy that needs no more than before is accepted, whatever the others use.
	v := newValidator(storedObjects{policies: []v1alpha1.RateLimitPolicy{a, b}, limiters: []v1alpha1.Limiter{limiterWith("default", 1, 1)}})
	for _, p := range []v1alpha1.RateLimitPolicy{a, b} { // a fits, b does not
		edited := p.DeepCopy()
		edited.Spec.Limit = new(*edited.Spec.Limit + 1)
		if _, err := v.ValidateUpdate(t.Context(), &p, edited); err != nil {
			t.Errorf("an edit of %s that needs no more: %v", p.Name, err)
		}
	}
}

func TestValidateCreate_LimitsTheNumberOfBudgetWarnings(t *testing.T) {
	all := storedObjects{policies: []v1alpha1.RateLimitPolicy{of(t, "shop", "a", 1, validSpec)}, limiters: []v1alpha1.Limiter{limiterWith("with-room", 9, 9)}}
	for i := range warningCount + 2 {
		all.limiters = append(all.limiters, limiterWith(fmt.Sprintf("full-%d", i), 1, 9))
	}
	p := of(t, "shop", "b", 0, `{axis: Tenant, limit: 10, window: 1m}`)
	if warnings, err := newValidator(all).ValidateCreate(t.Context(), &p); err != nil || len(warnings) != warningCount {
		t.Errorf("error %v, %d warnings: %q, want %d", err, len(warnings), warnings, warningCount)
	}
}

// of returns a policy with that namespace, name and age in minutes.
func of(t *testing.T, namespace, name string, age int, spec string) v1alpha1.RateLimitPolicy {
	t.Helper()
	p := policytest.Stored(t, name, spec)
	p.Namespace, p.CreationTimestamp = namespace, metav1.NewTime(time.Unix(1_800_000_000, 0).Add(-time.Duration(age)*time.Minute))
	return p
}

// clusterPolicy returns a ClusterRateLimitPolicy with that age in minutes.
func clusterPolicy(t *testing.T, name string, age int) v1alpha1.ClusterRateLimitPolicy {
	t.Helper()
	p := of(t, "", name, age, validSpec)
	c := v1alpha1.ClusterRateLimitPolicy{ObjectMeta: p.ObjectMeta}
	c.Spec.RateLimitPolicySpec = p.Spec
	return c
}

// A namespace can store more than its share, for example while no operator answers. The operator enforces only the share.
func TestValidateCreate_CountsOnlyPoliciesThatFit(t *testing.T) {
	all := storedObjects{limiters: []v1alpha1.Limiter{limiterWith("default", 2, 3)}}
	for i, name := range []string{"a", "b", "c", "d"} {
		all.policies = append(all.policies, of(t, "greedy", name, 9-i, validSpec))
	}
	first, second := of(t, "shop", "first", 1, validSpec), of(t, "shop", "second", 0, validSpec)
	if _, err := newValidator(all).ValidateCreate(t.Context(), &first); err != nil {
		t.Errorf("the first policy of another namespace: %v", err)
	}
	all.policies = append(all.policies, first)
	_, err := newValidator(all).ValidateCreate(t.Context(), &second)
	if want := "with this policy, all policies need 4 rules, and the policy budget of Limiter weir/default is 3"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a policy that does not fit: error %v, want %q", err, want)
	}
}

func TestValidateCreate_ClusterPoliciesTakePrecedence(t *testing.T) {
	all := storedObjects{
		limiters: []v1alpha1.Limiter{limiterWith("default", 9, 2)},
		policies: []v1alpha1.RateLimitPolicy{of(t, "cluster", "a", 9, validSpec), of(t, "shop", "b", 8, validSpec)},
		cluster:  []v1alpha1.ClusterRateLimitPolicy{clusterPolicy(t, "a", 7)},
	}
	v := func() validator[*v1alpha1.ClusterRateLimitPolicy] {
		return clusterRateLimitPolicies(all.index())
	}
	second, third := clusterPolicy(t, "b", 1), clusterPolicy(t, "c", 0)
	if _, err := v().ValidateCreate(t.Context(), &second); err != nil {
		t.Errorf("a ClusterRateLimitPolicy, and the total is used up by namespaces: %v", err)
	}
	all.cluster = append(all.cluster, second)
	_, err := v().ValidateCreate(t.Context(), &third)
	const want = "with this policy, all policies need 3 rules, and the policy budget of Limiter weir/default is 2"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a ClusterRateLimitPolicy, and the total is used up by such: error %v, want %q", err, want)
	}
	all.policies = nil
	if _, err := v().ValidateCreate(t.Context(), &third); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the same without a RateLimitPolicy: error %v, want %q", err, want)
	}
}

func TestValidateUpdate_RejectsGrowthThatDisplacesAnEnforcedPolicy(t *testing.T) {
	const expressionSpec = `{axis: User, limit: 10, window: 1m, match: {http: {expression: 'request.method == "GET"'}}}`
	l := limiterWith("default", 9, 9)
	l.Spec.PolicyBudget.PerNamespace.Expressions, l.Spec.PolicyBudget.Total.Expressions = new(int64(1)), new(int64(2))
	before, after := of(t, "shop", "old", 9, validSpec), of(t, "shop", "old", 9, expressionSpec)
	tests := map[string]struct {
		others []v1alpha1.RateLimitPolicy
		want   string // in the error; empty if the edit is accepted
	}{
		"in the same namespace": {
			[]v1alpha1.RateLimitPolicy{of(t, "shop", "young", 1, expressionSpec)},
			"with this policy, namespace shop needs 2 expressions, and the policy budget of Limiter weir/default is 1 (this policy: 1)",
		},
		"in another namespace": {
			[]v1alpha1.RateLimitPolicy{of(t, "a", "x", 2, expressionSpec), of(t, "b", "x", 1, expressionSpec)},
			"with this policy, all policies need 3 expressions, and the policy budget of Limiter weir/default is 2 (this policy: 1)",
		},
		"that is not enforced anyway": {
			[]v1alpha1.RateLimitPolicy{of(t, "a", "x", 2, expressionSpec), of(t, "a", "y", 1, expressionSpec), of(t, "a", "z", 0, expressionSpec)},
			"",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := newValidator(storedObjects{policies: append(test.others, before), limiters: []v1alpha1.Limiter{l}})
			_, err := v.ValidateUpdate(t.Context(), &before, &after)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// The number of rules is the first amount of a budget. Here it is used up, but not exceeded.
func TestValidateCreate_ReportsTheAmountThatExceedsTheBudget(t *testing.T) {
	const expressionSpec = `{axis: User, limit: 10, window: 1m, match: {http: {expression: 'request.method == "GET"'}}}`
	l := limiterWith("default", 2, 9)
	l.Spec.PolicyBudget.PerNamespace.Expressions = new(int64(1))
	p := of(t, "shop", "b", 0, expressionSpec)
	all := storedObjects{policies: []v1alpha1.RateLimitPolicy{of(t, "shop", "a", 1, expressionSpec)}, limiters: []v1alpha1.Limiter{l}}
	_, err := newValidator(all).ValidateCreate(t.Context(), &p)
	if want := "with this policy, namespace shop needs 2 expressions, and the policy budget of Limiter weir/default is 1"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestValidateCreate_ChecksBudgetsOfLimitersThatSelectTheNamespace(t *testing.T) {
	for team, want := range map[string]bool{"retail": false, "money": true} { // namespace shop has team: retail
		l := limiterWith("default", 1, 9)
		l.Spec.PolicyNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
		p := of(t, "shop", "b", 0, validSpec)
		all := storedObjects{policies: []v1alpha1.RateLimitPolicy{of(t, "shop", "a", 1, validSpec)}, limiters: []v1alpha1.Limiter{l}}
		if _, err := newValidator(all).ValidateCreate(t.Context(), &p); (err == nil) != want {
			t.Errorf("a full Limiter for namespaces of team %s: error %v, want accepted %t", team, err, want)
		}
	}
}

// Otherwise a user could store policies that no Limiter selects, and then label them: the oldest policies take precedence.
func TestValidateUpdate_ChecksBudgetsWhenLabelsChange(t *testing.T) {
	l := limiterWith("default", 1, 9)
	l.Spec.PolicySelector = &metav1.LabelSelector{MatchLabels: map[string]string{"limiter": "default"}}
	labeled := func(p v1alpha1.RateLimitPolicy, label string) *v1alpha1.RateLimitPolicy {
		p.Labels = map[string]string{"limiter": "default", "team": label}
		return &p
	}
	old, enforced, invalid := of(t, "shop", "old", 9, validSpec), *labeled(of(t, "shop", "young", 1, validSpec), "a"), of(t, "shop", "invalid", 9, invalidSpec)
	all := storedObjects{policies: []v1alpha1.RateLimitPolicy{old, enforced, invalid}, limiters: []v1alpha1.Limiter{l}}
	v := newValidator(all)
	_, err := v.ValidateUpdate(t.Context(), &old, labeled(old, "a"))
	if want := "with this policy, namespace shop needs 2 rules, and the policy budget of Limiter weir/default is 1"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a label that selects the policy: error %v, want %q", err, want)
	}
	if _, err := v.ValidateUpdate(t.Context(), &enforced, labeled(enforced, "b")); err != nil {
		t.Errorf("another label on a selected policy: %v", err)
	}
	if _, err := v.ValidateUpdate(t.Context(), &invalid, labeled(invalid, "a")); err != nil {
		t.Errorf("a label on an invalid policy, which uses nothing: %v", err)
	}

	all.cluster = []v1alpha1.ClusterRateLimitPolicy{clusterPolicy(t, "all", 9)}
	l.Spec.PolicyBudget.Total.Bytes = new(int64(1))
	cluster := all.cluster[0].DeepCopy()
	cluster.Labels = map[string]string{"limiter": "default"}
	clusters := clusterRateLimitPolicies(storedObjects{cluster: all.cluster, limiters: []v1alpha1.Limiter{l}}.index())
	if _, err := clusters.ValidateUpdate(t.Context(), &all.cluster[0], cluster); err == nil {
		t.Error("a label that selects a ClusterRateLimitPolicy over the total is accepted")
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

// The edit needs fewer bytes and more rules. So an older policy of another namespace fits into the total again, and displaces a younger one there.
func TestValidateUpdate_RejectsAnEditThatMakesRoomForAPolicyThatDisplacesAnother(t *testing.T) {
	const twoRates = `{axis: User, rates: [{limit: 10, window: 1m}, {limit: 100, window: 1h}]}`
	var paths []string
	for i := range 16 {
		paths = append(paths, fmt.Sprintf("{value: /a-long-path-%032d}", i))
	}
	before, after := of(t, "shop", "own", 9, `{axis: User, limit: 10, window: 1m, match: {http: {paths: [`+strings.Join(paths, ", ")+`]}}}`), of(t, "shop", "own", 9, twoRates)
	old, young := of(t, "bank", "old", 8, twoRates), of(t, "bank", "young", 7, validSpec)
	bytes := func(p v1alpha1.RateLimitPolicy) int64 {
		return newEntry(&p, compile.DefaultIdentity()).result.Used.Bytes
	}
	l := limiterWith("default", 2, 99)
	l.Spec.PolicyBudget.Total.Bytes = new(bytes(before) + bytes(young))
	if bytes(after)+bytes(old)+bytes(young) > *l.Spec.PolicyBudget.Total.Bytes {
		t.Fatal("the edit does not make room")
	}
	all := storedObjects{policies: []v1alpha1.RateLimitPolicy{before, old, young}, limiters: []v1alpha1.Limiter{l}}
	_, err := newValidator(all).ValidateUpdate(t.Context(), &before, &after)
	const want = "with this policy, namespace bank needs 3 rules, and the policy budget of Limiter weir/default is 2 (this policy: 2)"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
