package routetable_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// findRoute returns the namespace and the target of the route that a limiter finds first for a request, such as "shop HTTPRoute/checkout".
func findRoute(t *testing.T, set rules.Set, host, path string) string {
	t.Helper()
	x, err := matching.NewIndex(set, "r", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	routes := x.RoutesOf(&route.Request{Method: "GET", Host: host, Target: path})
	if len(routes) == 0 {
		return "none"
	}
	return routes[0].Namespace + " " + routes[0].Target
}

// manyMatches returns a route with hosts h0.name.example, h1.name.example, and so on, and prefixes /0, /1, and so on.
func manyMatches(namespace, name string, hosts, matches int) gateway.Route {
	r := tableRoute(namespace + "/" + name)
	for h := range hosts {
		r.Hostnames = append(r.Hostnames, fmt.Sprintf("h%d.%s.example", h, name))
	}
	for i := range matches {
		path := rules.PathMatch{Type: rules.PathPrefix, Value: fmt.Sprintf("/%d", i)}
		r.Matches = append(r.Matches, gateway.RouteMatch{Rule: "rule", RouteMatch: rules.RouteMatch{Path: path}})
	}
	return r
}

// GRPCRoute.spec.rules can be empty. Gateways write nothing for such a route.
func TestRouteTable_RouteWithoutMatchesTakesNoHost(t *testing.T) {
	set := tablePolicies([]gateway.Listener{{Hostname: "*.example"}}, tableRoute("shop/all ^/"), tableRoute("blog/empty shop.example")).Compile(compile.DefaultIdentity()).Set
	if got := findRoute(t, set, "shop.example", "/pay"); got != "shop HTTPRoute/all" {
		t.Errorf("route %s", got)
	}
}

// Without a route, a request has no domain, and no policy of the Gateway matches it.
func TestRouteTable_LeftOutRouteKeepsItsHosts(t *testing.T) {
	listeners := []gateway.Listener{{}}
	within := func(routes ...gateway.Route) compile.Result {
		return tablePolicies(listeners, routes...).CompileWithin(compile.DefaultIdentity(), budget.Default())
	}
	big := manyMatches("tenant", "big", 16, 126)
	long := tableRoute("tenant/long long.example ~/0" + strings.Repeat("|/0", 200) + " #rule ^/short #rule")
	other := tableRoute("shop/other h0.big.example ^/")
	result := within(big, long, other)
	for request, want := range map[string]string{
		"h1.big.example /0": "tenant HTTPRoute/big", "h0.big.example /0": "shop HTTPRoute/other",
		"long.example /0": "tenant HTTPRoute/long", "long.example /short": "tenant HTTPRoute/long/rule",
	} {
		host, path, _ := strings.Cut(request, " ")
		if got := findRoute(t, result.Set, host, path); got != want {
			t.Errorf("%s: route %s, want %s; left out: %s", request, got, want, result.LeftOut)
		}
	}
}

// Old routes must not displace the hosts of a newer route by more matches.
func TestRouteTable_OldRoutesThatGrowKeepTheHostsOfNewRoutes(t *testing.T) {
	var routes []gateway.Route
	for n := range 10 {
		r := manyMatches(fmt.Sprintf("t%d", n), fmt.Sprintf("r%d", n), 16, 125)
		r.Created = time.Unix(1, 0)
		routes = append(routes, r)
	}
	newer := tableRoute("shop/all shop.example ^/")
	newer.Created = time.Unix(2, 0)
	result := tablePolicies([]gateway.Listener{{}}, append(routes, newer)...).CompileWithin(compile.DefaultIdentity(), budget.Default())
	if got := findRoute(t, result.Set, "shop.example", "/pay"); got != "shop HTTPRoute/all" || result.LeftOut == "" {
		t.Errorf("route %s; left out: %q", got, result.LeftOut)
	}
}

// The hosts have a bound too. Requests for hosts above it keep the limits of the Gateway, as requests of another route.
func TestRouteTable_HostsWithoutPlaceBelongToARoute(t *testing.T) {
	routes := []gateway.Route{tableRoute("tenant/wild *.r79.example ^/taken")}
	for n := range 80 {
		routes = append(routes, manyMatches("tenant", fmt.Sprintf("r%d", n), 16, 126))
	}
	result := tablePolicies([]gateway.Listener{{Hostname: "*.example"}}, routes...).CompileWithin(compile.DefaultIdentity(), budget.Default())
	for _, host := range []string{"h0.r0.example", "h1.r79.example"} {
		if got := findRoute(t, result.Set, host, "/0"); !strings.HasPrefix(got, "tenant ") {
			t.Errorf("%s: route %s, want one of the namespace", host, got)
		}
	}
}

func TestRouteTable_NamesAndHostsCountAsBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	label := func(n int) string {
		b := []byte{'a'}
		for len(b) < n {
			b = append(b, "abcdefghijklmnopqrstuvwxyz0123456789"[r.IntN(36)])
		}
		return string(b)
	}
	var routes []gateway.Route
	for range 125 {
		route := tableRoute("tenant/" + label(253))
		route.Hostnames = []string{label(60) + "." + label(60) + "." + label(60) + ".example"}
		for range 16 {
			path := rules.PathMatch{Type: rules.PathPrefix, Value: "/"}
			route.Matches = append(route.Matches, gateway.RouteMatch{Rule: label(253), RouteMatch: rules.RouteMatch{Path: path}})
		}
		routes = append(routes, route)
	}
	result := tablePolicies([]gateway.Listener{{}}, routes...).CompileWithin(compile.DefaultIdentity(), budget.Default())
	text, err := json.Marshal(result.Set.RouteTable)
	if err != nil || len(text) > 320<<10 || len(text) < 200<<10 {
		t.Errorf("the routes of one namespace take %d bytes (%v), want at most 256 KiB and 64 KiB for the routes that are left out", len(text), err)
	}
}

func TestRouteTable_TrailingSlashIsNoLongerPrefix(t *testing.T) {
	older, newer := tableRoute("shop/a shop.example ^/pay"), tableRoute("blog/b shop.example ^/pay/")
	older.Created, newer.Created = time.Unix(1, 0), time.Unix(2, 0)
	set := tablePolicies([]gateway.Listener{{}}, older, newer).Compile(compile.DefaultIdentity()).Set
	if got := findRoute(t, set, "shop.example", "/pay/now"); got != "shop HTTPRoute/a" {
		t.Errorf("route %s, want the older one", got)
	}
}
