package compile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// A tenant creates routes for the Gateway of a platform. The policies of the platform must not grow until older policies do not fit.
func TestCompileWithin_RoutesOfATenantDisplaceNoPolicyOfAnother(t *testing.T) {
	g := &gateway.Objects{Gateways: []gateway.Gateway{{Namespace: "infra", Name: "public"}}}
	for i := range 6000 {
		g.Routes = append(g.Routes, gateway.Route{
			Kind: "HTTPRoute", Namespace: fmt.Sprintf("tenant-%d", i), Name: fmt.Sprint(strings.Repeat("r", 240), i),
			Parents: []gateway.Parent{{Namespace: "infra", Gateway: "public"}},
		})
	}
	victim := attached("shop/victim")
	victim.CreationTimestamp = time.Unix(1, 0)
	p := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{victim}, Gateways: g}
	for i, window := range []policyapi.Duration{"1s", "1m", "1h", "1d", "7d"} {
		c := attachedToCluster(fmt.Sprintf("platform-%d", i), "Gateway/infra:public")
		c.Spec.Window = window
		p.Cluster = append(p.Cluster, c)
		owner := attached(fmt.Sprintf("infra/owner-%d", i), "Gateway/public")
		owner.Spec.Window = window
		p.Namespaced = append(p.Namespaced, owner)
	}
	result := p.CompileWithin(testIdentity(), budget.Default())
	if len(result.Problems) > 0 || len(result.Set.Rules) != 11 {
		t.Errorf("%d rules, want 11; problems %v", len(result.Set.Rules), result.Problems)
	}
	for _, rule := range result.Set.Rules {
		if n := len(rule.Match.Routes); rule.Domain != "shop" && (n != 6000 || len(rule.Domains) != 6000) {
			t.Errorf("%s has %d routes in %d domains, want 6000", rule.Policy, n, len(rule.Domains))
		}
	}
	if result.Used.Bytes > 5*budget.InheritedBytes+11*1024 {
		t.Errorf("uses %d bytes of the budget, want at most a kilobyte for each rule, and 8 for each policy that is inherited", result.Used.Bytes)
	}
}

// The owner of a Gateway decides how many policies have the routes of others, and pays for them from the start: a route that others attach later must
// not displace a policy.
func TestCompileWithin_BoundsThePoliciesThatOthersInherit(t *testing.T) {
	for name, test := range map[string]struct {
		target string
		routes []gateway.Route
		most   int
	}{
		"with routes":                 {"Gateway/infra:public", gateways().Routes, 63},
		"without routes":              {"Gateway/infra:public", nil, 63},
		"a Gateway of another owner":  {"Gateway/shop:own", gateways().Routes, 200},
		"a route of the same owner":   {"HTTPRoute/posts", []gateway.Route{{Kind: "HTTPRoute", Namespace: "infra", Name: "posts"}}, 200},
		"unknown routes, as in files": {"Gateway/infra:public", nil, 63},
	} {
		t.Run(name, func(t *testing.T) {
			g := gateways()
			g.Routes, g.Grants = test.routes, []gateway.Grant{{Namespace: "shop", From: "infra"}}
			p := compile.Policies{Gateways: g}
			if strings.HasPrefix(name, "unknown") {
				p.Gateways = nil
			}
			for i := range 200 {
				a := attached(fmt.Sprintf("infra/p%03d", i), test.target)
				a.Spec.Window = policyapi.Duration(fmt.Sprintf("%ds", i+1))
				p.Namespaced = append(p.Namespaced, a)
			}
			result := p.CompileWithin(testIdentity(), budget.Default())
			if n := len(result.Set.Rules); n > test.most || n < test.most-3 {
				t.Errorf("%d rules fit the budget, want %d", n, test.most)
			}
		})
	}
}

// The owner of a policy in a namespace also owns the routes that it limits.
func TestCompileWithin_CountsTheRoutesOfANamespace(t *testing.T) {
	used := func(targets ...string) int64 {
		p := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{attached("shop/a", targets...)}, Gateways: gateways()}
		return p.CompileWithin(testIdentity(), budget.Default()).Used.Bytes
	}
	if one, two := used("HTTPRoute/checkout"), used("HTTPRoute/checkout", "HTTPRoute/draft"); two-one < int64(len("HTTPRoute/draft")) {
		t.Errorf("%d bytes for a route, %d for two", one, two)
	}
}

// A policy over budget limits nothing. The policy that its author writes to replace it must not conflict with it.
func TestCompileWithin_APolicyOverBudgetConflictsWithNoNewerOne(t *testing.T) {
	expression := []policyapi.Tier{{Name: "gold", Limit: new(int64(9)), When: policyapi.When{Expression: new(policyapi.Expression("request.method == 'GET'"))}}}
	var all []policyapi.RateLimitPolicy
	for i, name := range []string{"shop/first", "shop/old", "shop/new", "shop/newest"} {
		p := attached(name, "HTTPRoute/checkout")
		p.CreationTimestamp = time.Unix(int64(i), 0)
		if name == "shop/first" {
			p.Spec.Axis = policyapi.AxisTenant
		}
		if i < 2 {
			p.Spec.Tiers = expression
		}
		all = append(all, p)
	}
	p := compile.Policies{Namespaced: all, Gateways: gateways()}
	result := p.CompileWithin(testIdentity(), budget.Budget{PerNamespace: budget.Usage{Expressions: 1}})
	var got []string
	for _, rule := range result.Set.Rules {
		got = append(got, rule.Policy+" is enforced")
	}
	for _, problem := range result.Problems {
		got = append(got, problem.Policy+" "+problem.Reason)
	}
	want := "shop/first is enforced, shop/new is enforced, shop/newest Conflicted, shop/old OverBudget"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if message := result.Problems[0].Message; !strings.Contains(message, "policy shop/new, which is older") {
		t.Errorf("the conflict of the newest policy: %s", message)
	}
}
