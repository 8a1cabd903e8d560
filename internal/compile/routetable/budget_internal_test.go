package routetable

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// Amounts of 0 would not be bounded. Routes without their matches have no regular expressions.
func TestBudgets_BoundEachAmountOfANamespaceAndOfAll(t *testing.T) {
	for name, budget := range map[string]budget.Budget{"the table": tableBudget(), "the rest": restBudget(), "listeners": listenerBudget()} {
		own, total := budget.PerNamespace, budget.Total
		if own.Bytes <= 0 || own.Bytes >= total.Bytes || own.Rules <= 0 || own.Rules >= total.Rules {
			t.Errorf("%s: a namespace has %+v of %+v", name, own, total)
		}
	}
	if own, total := tableBudget().PerNamespace, tableBudget().Total; own.RegularExpressions <= 0 || own.RegularExpressions >= total.RegularExpressions {
		t.Errorf("a namespace has %+v of %+v", own, total)
	}
}

// budgetRoute is a route with regular expressions in its path, in two headers and in a parameter.
func budgetRoute() *gateway.Route {
	path := func(kind rules.PathMatchType, value string) rules.RouteMatch {
		return rules.RouteMatch{Path: rules.PathMatch{Type: kind, Value: value}}
	}
	regex, exact := rules.HeaderMatch{Type: rules.HeaderRegex, Name: "x", Value: "a|b"}, rules.HeaderMatch{Type: rules.HeaderExact, Name: "y", Value: "a"}
	r := &gateway.Route{Kind: policyapi.TargetHTTPRoute, Namespace: "shop", Name: "checkout"}
	for i, match := range []rules.RouteMatch{path(rules.PathRegex, "/[0-9]+"), path(rules.PathExact, "/a"), path(rules.PathPrefix, "/b")} {
		match.Route = i
		r.Matches = append(r.Matches, gateway.RouteMatch{Rule: fmt.Sprint("rule-", i/2), RouteMatch: match}) // the first two belong to one rule
	}
	r.Matches[1].Headers = []rules.HeaderMatch{regex, exact, regex}
	r.Matches[2].Query = []rules.HeaderMatch{exact, regex}
	return r
}

func TestUsageOfRoute_CountsMatchesOfEachHostAndExpressions(t *testing.T) {
	r := budgetRoute()
	for _, test := range []struct {
		matches     []gateway.RouteMatch
		hosts       []string
		rules, regs int64
	}{{r.Matches, []string{"a", "b"}, 6, 4}, {r.Matches[:1], []string{"a"}, 1, 1}, {r.Matches[1:2], []string{"a"}, 1, 2}, {nil, []string{"a", "b"}, 2, 0}, {r.Matches, nil, 0, 4}} {
		if got := usageOfRoute(r, test.matches, test.hosts); got.Rules != test.rules || got.RegularExpressions != test.regs {
			t.Errorf("%d matches of %d hosts: %+v, want %d rules and %d regular expressions", len(test.matches), len(test.hosts), got, test.rules, test.regs)
		}
	}
}

// The budget must suffice for what a table of the largest size takes, and not be much larger.
func TestUsageOfRoute_CountsTheBytesOfTheLargestTable(t *testing.T) {
	size := func(entries ...any) (bytes int64) {
		for _, entry := range entries {
			data, err := json.Marshal(entry)
			if err != nil {
				t.Fatal(err)
			}
			bytes += int64(len(data) + len(","))
		}
		return bytes
	}
	const largest = 20_000 - 1 // index of a match
	within := func(what string, got, least int64, entries int) {
		t.Helper()
		if most := least + int64(entries*len("20000,")); got < least || got > most {
			t.Errorf("%s takes %d bytes, want %d to %d", what, got, least, most)
		}
	}
	r := budgetRoute()
	for n := range len(r.Matches) + 1 {
		matches := r.Matches[:n]
		alone := usageOfRoute(r, matches, nil)
		host := rules.RouteHost{Host: "shop.example", Matches: slices.Repeat([]int{largest}, n+1)}
		within(fmt.Sprintf("a host with %d matches", n), usageOfRoute(r, matches, []string{host.Host}).Bytes-alone.Bytes, size(host), 2)
		rest := restOf()
		rest.Route = largest
		entries := []any{rest, routeOfRule(r, "")}
		for i := range matches {
			match := matches[i].RouteMatch
			match.Route = largest
			entries = append(entries, match)
			if i%2 == 0 { // the first match of a rule
				entries = append(entries, routeOfRule(r, matches[i].Rule))
			}
		}
		within(fmt.Sprintf("a route with %d matches", n), alone.Bytes, size(entries...), len(entries))
	}
}

// Most ports of a Gateway share one entry of a host in the table. A port that a tenant has added does not.
func TestRouteHosts_CountsAHostOnceForTheGatewayAndOnceForEachAddedPort(t *testing.T) {
	r := &gateway.Route{
		Kind: policyapi.TargetHTTPRoute, Namespace: "shop", Name: "checkout", Hostnames: []string{"b.example", "a.example"},
		Matches: []gateway.RouteMatch{{RouteMatch: rules.RouteMatch{Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"}}}},
	}
	public, set := gateway.NewKey("infra", "public"), gateway.ListenerSetKey("shop", "set")
	r.Parents = []gateway.Parent{{Namespace: "infra", Gateway: "public"}, {Namespace: "shop", ListenerSet: "set"}}
	g := &gateway.Objects{
		Gateways: []gateway.Gateway{{Namespace: "infra", Name: "public", Listeners: []gateway.Listener{{HTTP: true, Port: 80}}}}, Routes: []gateway.Route{*r},
		ListenerSets: []gateway.ListenerSet{{Namespace: "shop", Name: "set", GatewayNamespace: "infra", Gateway: "public"}},
	}
	b := newTableBuilder(g, []policyapi.GatewayReference{{Namespace: "infra", Name: "public"}}, nil)
	count := func() map[string]int {
		all := map[string]int{}
		for _, names := range b.routeHosts() {
			for _, name := range names {
				all[name]++
			}
		}
		return all
	}
	for _, step := range []struct {
		owner gateway.Key
		port  int32
		want  int
	}{{public, 443, 1}, {public, 8443, 1}, {set, 9000, 2}, {set, 9001, 3}} {
		b.addListener(public, step.owner, &gateway.Listener{HTTP: true, Port: step.port})
		if got := count(); got["a.example"] != step.want || got["b.example"] != step.want || len(got) != 2 {
			t.Errorf("with port %d: %v, want %d of each host", step.port, got, step.want)
		}
	}
}
