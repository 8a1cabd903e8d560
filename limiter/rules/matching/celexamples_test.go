package matching_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
)

// TestMatch_ExpressionsThatGrowAtRunTimeEndWithinTheBound evaluates values of unknown type, whose growth no estimate can see.
func TestMatch_ExpressionsThatGrowAtRunTimeEndWithinTheBound(t *testing.T) {
	for _, text := range []string{
		`dyn(request.claims.list) + dyn(request.claims.list) == dyn([])`,
		`request.claims == request.claims`,
		`request.claims.list.exists(a, request.claims.list[request.path] == 1)`,
		`dyn(request)[request.path] == 1 || dyn(request)[request.headers["x"]] == 1`,
		`request.headers.all(h, request.descriptors[0][0].value != h)`,
		`request.headers.all(h, request.query.all(q, q != h))`,
		`request.headers.map(h, request.headers[h]).map(v, v + v) == []`,
	} {
		if err := expr.Validate(text, expr.ResultBool); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		checkBound(t, text, expr.ResultBool, worstRequests())
	}
}

// TestMatch_TheExpressionsOfARequestShareABound has 100 policies of a namespace, the default of the policy budget, and as many cluster policies.
// Each has an expression that is as expensive as possible for the request.
func TestMatch_TheExpressionsOfARequestShareABound(t *testing.T) {
	req := request("GET - /v1/search x-tenant-id=a")
	for i := range 120 {
		req.Headers[fmt.Sprintf("x-header-%d", i)] = strings.Repeat("a", 400)
	}
	list := func(policies int) (all []rules.Rule) {
		for i := range policies {
			r := clusterRule(fmt.Sprintf("p%03d", i))
			r.Match.Expression = fmt.Sprintf(`request.headers.all(h, !request.headers[h].endsWith("b%d") && !request.headers[h].contains("c"))`, i)
			all = append(all, r)
		}
		for i := range policies {
			r := ruleWith(fmt.Sprintf("p%03d", i), fmt.Sprintf(`request.headers.all(h, !request.headers[h].contains("b%d"))`, i), expr.ResultBool)
			all = append(all, r)
		}
		return all
	}
	one, hundred := index(t, list(1)...), index(t, list(100)...)
	if n := len(hundred.Match(nil, req)); n != 200 {
		t.Fatalf("%d policies match, want 200: one that is not evaluated matches", n)
	}
	took, bytes := measureEvaluation(hundred, req)
	if most := 2 * slowdown * maxEvaluation; took > most || bytes > 2*maxEvaluationBytes {
		t.Errorf("%v and %d bytes, want at most %v and %d bytes", took, bytes, most, 2*maxEvaluationBytes)
	}
	alone, _ := measureEvaluation(one, req)
	t.Logf("1 policy of each kind: %v, 100: %v and %d bytes", alone, took, bytes)
	// What a namespace spends leaves the cluster policies theirs, and the last cheap expression is decided.
	cheap := ruleWith("z", `request.path == "/other"`, expr.ResultBool)
	cluster := clusterRule("a")
	cluster.Match.Expression = `request.headers.all(h, h != "none") && request.path == "/other"`
	rules := append([]rules.Rule{cluster}, append(list(100)[100:], cheap)...)
	matched := policiesOf(index(t, rules...).Match(nil, req))
	if len(matched) != 100 || strings.Contains(strings.Join(matched, " "), "_cluster/a") || slices.Contains(matched, "shop/z") {
		t.Errorf("matched %v, want the 100 policies whose expressions are true or too expensive", matched)
	}
}

// TestTerms_TheRegularExpressionsOfARequestShareABound has policies whose tier has a lower limit, for headers that are not those of the request. The
// tier of a policy that cannot be decided applies.
func TestTerms_TheRegularExpressionsOfARequestShareABound(t *testing.T) {
	req := request("GET - /v1/search x-tenant-id=a")
	req.Headers["x-plan"] = strings.Repeat("ab", 800)
	withTier := func(r rules.Rule) rules.Rule {
		r.Tiers = []rules.Tier{{Name: "low", Units: 1, When: rules.When{Header: &rules.HeaderMatch{Name: "x-plan", Type: rules.HeaderRegex, Value: "(a|b)*c"}}}}
		return r
	}
	decided := func(list ...rules.Rule) (namespaced, cluster int) {
		for _, m := range index(t, list...).Match(nil, req) {
			switch {
			case m.Terms(req, "a").Tier != "":
			case m.Rule.Domain == "":
				cluster++
			default:
				namespaced++
			}
		}
		return namespaced, cluster
	}
	var list []rules.Rule
	for i := range 100 {
		r := withTier(ruleWith(fmt.Sprintf("p%03d", i), "true", expr.ResultBool))
		r.Match.Expression = ""
		list = append(list, r)
	}
	alone, _ := decided(list[0])
	together, cluster := decided(append([]rules.Rule{withTier(clusterRule("a"))}, list...)...)
	if alone != 1 || together < 5 || together > 20 || cluster != 1 {
		t.Errorf("decided: %d of 1 policy, %d of 100 policies and %d of 1 cluster policy, want 1, 5 to 20 and 1", alone, together, cluster)
	}
}

// The owner of a Gateway must not make the policies of the namespaces that use it undecided.
func TestTerms_ThePoliciesOfAGatewayUseNoUnitsOfOthers(t *testing.T) {
	req := request("GET - /v1/search x-tenant-id=a")
	req.Headers["x-plan"] = strings.Repeat("ab", 800)
	req.Descriptors = requestWithDescriptors("target=HTTPRoute/a").Descriptors
	withTier := func(r rules.Rule) rules.Rule {
		r.Tiers = []rules.Tier{{Name: "low", Units: 1, When: rules.When{Header: &rules.HeaderMatch{Name: "x-plan", Type: rules.HeaderRegex, Value: "(a|b)*c"}}}}
		return r
	}
	var list []rules.Rule
	for i := range 100 {
		list = append(list, withTier(inherited(rule(fmt.Sprintf("infra/p%03d", i)), "shop")))
	}
	list = append(list, withTier(inherited(rule("other/a"), "shop")), withTier(rule("shop/a")))
	undecided := map[string]int{}
	for _, m := range index(t, list...).Match(nil, req) {
		if m.Terms(req, "a").Tier != "" {
			undecided[m.Rule.Domain]++
		}
	}
	if undecided["infra"] < 80 || undecided["other"] > 0 || undecided["shop"] > 0 {
		t.Errorf("undecided: %v of 100 policies of infra, and one of each other namespace", undecided)
	}
}

func TestTerms_ARequestThatIsTooLargeToEvaluateGetsNoAdvantage(t *testing.T) {
	large, small := request("GET - /v1/"+strings.Repeat("x", 60<<10)), request("GET - /v1")
	const expensive = `request.path.reverse().reverse().reverse() == "1v/"`
	for name, tc := range map[string]struct {
		change func(*rules.Rule)
		units  int64 // of the limit
		cost   int64
	}{
		"a lower tier applies": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "low", Units: 3, When: rules.When{Expression: expensive}}}
		}, 3, 1},
		"the lowest of several tiers applies": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{
				{Name: "low", Units: 3, When: rules.When{Expression: expensive}}, {Name: "lower", Units: 2, When: rules.When{Expression: expensive}},
			}
		}, 2, 1},
		"a higher tier does not apply": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "high", Units: 1000, When: rules.When{Expression: expensive}}}
		}, 10, 1},
		"an unlimited tier does not apply": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "free", Unlimited: true, When: rules.When{Expression: expensive}}}
		}, 10, 1},
		"a lower tier applies before one that matches": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{
				{Name: "low", Units: 3, When: rules.When{Expression: expensive}}, {Name: "free", Unlimited: true, When: rules.When{Expression: "true"}},
			}
		}, 3, 1},
		"a lower tier applies if the client sends junk": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "low", Units: 3, When: rules.When{Expression: `int(request.path) > 1`}}}
		}, 3, 1},
		"a tier that reads what the request lacks does not apply": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "low", Units: 3, When: rules.When{Expression: `request.headers["none"] == ""`}}}
		}, 10, 1},
		"the cost is the limit": {func(r *rules.Rule) { r.Cost = &rules.Cost{Expression: expensive + ` ? 1 : 2`} }, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("shop/it")
			r.Units = 10
			tc.change(&r)
			m := index(t, r).Match(nil, large)[0]
			if terms := m.Terms(large, "a"); terms.Unlimited || terms.Limit.Units() != tc.units || terms.Cost != tc.cost {
				t.Errorf("unlimited %v, limit %d, cost %d, want limit %d, cost %d", terms.Unlimited, terms.Limit.Units(), terms.Cost, tc.units, tc.cost)
			}
		})
	}
	r := rule("shop/it")
	r.Identifier = rules.Identifier{From: rules.FromExpression, Name: `request.path.reverse().reverse().reverse()`}
	x := index(t, r)
	if m := x.Match(nil, large)[0]; m.Identify(large) != "" || !m.Unreadable(large) {
		t.Error("the identifier of the large request is readable")
	}
	if m := x.Match(nil, small)[0]; m.Identify(small) != "1v/" {
		t.Errorf("identifier %q", m.Identify(small))
	}
}
