package selection

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// A table that has only some routes of a policy does not find the others, so requests must name them.
func TestSetMatchedBy_RequiresAllRoutesInTheTable(t *testing.T) {
	route := func(namespace, target string) rules.Route { return rules.Route{Namespace: namespace, Target: target} }
	table := &rules.RouteTable{Routes: []rules.Route{route("shop", "HTTPRoute/checkout/pay"), route("shop", "GRPCRoute/cart")}}
	for name, test := range map[string]struct {
		table  *rules.RouteTable
		routes []rules.Route
		want   v1alpha1.MatchedBy
	}{
		"no targets":                {table, nil, ""},
		"targets without a route":   {table, []rules.Route{}, v1alpha1.MatchedByRouteName},
		"a route":                   {table, []rules.Route{route("shop", "GRPCRoute/cart")}, v1alpha1.MatchedByRequest},
		"a rule of a route":         {table, []rules.Route{route("shop", "HTTPRoute/checkout/pay")}, v1alpha1.MatchedByRequest},
		"the route of a rule":       {table, []rules.Route{route("shop", "HTTPRoute/checkout")}, v1alpha1.MatchedByRequest},
		"another rule of the route": {table, []rules.Route{route("shop", "HTTPRoute/checkout/other")}, v1alpha1.MatchedByRouteName},
		"another kind":              {table, []rules.Route{route("shop", "HTTPRoute/cart")}, v1alpha1.MatchedByRouteName},
		"another namespace":         {table, []rules.Route{route("bank", "GRPCRoute/cart")}, v1alpha1.MatchedByRouteName},
		"one of two routes":         {table, []rules.Route{route("shop", "GRPCRoute/cart"), route("shop", "GRPCRoute/new")}, v1alpha1.MatchedByRouteName},
		"no table":                  {nil, []rules.Route{route("shop", "GRPCRoute/cart")}, v1alpha1.MatchedByRouteName},
	} {
		rule := rules.Rule{Policy: "shop/a", Domain: "shop", Axis: "Tenant", Algorithm: limiter.FixedWindow, Units: 10, WindowSeconds: 60}
		rule.Match.Routes = test.routes
		set := compiler.indexSet(rules.Set{Rules: []rules.Rule{rule}, RouteTable: test.table})
		if got := set.Rules["shop/a"].Effective.MatchedBy; got != test.want {
			t.Errorf("%s: matched by %q, want %q", name, got, test.want)
		}
	}
}

func TestCompile_ReportsWhatTheTableOfRoutesLacks(t *testing.T) {
	l, all := limiterAt(1), policies(policy("daily", 1, 10))
	l.Spec.RouteMatching.Gateways = []v1alpha1.GatewayReference{{Namespace: "infra", Name: "gone"}}
	all.Gateways = &gateway.Objects{}
	if set := compiler.Compile(nil, l, all, Hashes{}); !strings.HasPrefix(set.LeftOut, "Gateway infra/gone in spec.routeMatching does not exist") {
		t.Errorf("left out: %q", set.LeftOut)
	}
}
