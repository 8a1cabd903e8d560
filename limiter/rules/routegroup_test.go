package rules_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

// A request can have arrived only at the ports of its Gateway that the pods of the gateway serve at its port.
func TestRoutesOf_FindsTheListenersOfThePort(t *testing.T) {
	table := tableOf(t, map[string]map[string][]string{
		"a.example": {"a.example": {"http: ^/"}}, "b.example": {"b.example": {"https: ^/"}}, "c.example": {"c.example": {"shared: ^/"}},
		"d.example": {"d.example": {"other: ^/"}}, "e.example": {"e.example": {"rest: ^/"}},
	})
	table.Groups = []rules.RouteGroup{{Port: 80}, {Port: 443}, {Port: 9999, Shared: true}, {Gateway: 1, Port: 9000}, {Gateway: 2, Shared: true}}
	for i := range table.Listeners {
		l := &table.Listeners[i]
		l.Groups = []int{int(l.Host[0] - 'a')}
		l.Host, l.Hosts[0].Host = "", ""
	}
	x := indexOfTable(t, table)
	const all, others = "http https shared other rest", "http https shared other" // rest has the ports that tenants choose and no group has
	for request, want := range map[string]string{
		"GET h/ @80": "http other", "GET h/ @10080": "http other", // another Gateway can have a Service that maps its port to 80
		"GET h/ @443": "https other", "GET h/ @10443": "https other",
		"GET h/ @9999": others, // tenants choose it, and it can be that of another port in the pod
		"GET h/ @9000": others, // that of the other Gateway
		"GET h/ @8080": all, "GET h/": all, "GET h/ @11024": all, "GET h/ @19000": all, "GET h/ @19999": all, "GET h/ @10000": all,
	} {
		if got := routesFor(x, request); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

// A Gateway has all ports above a bound in one group, so that requests at any port can belong to it.
func TestRoutesOf_FindsTheListenersOfAnyPort(t *testing.T) {
	table := tableOf(t, map[string]map[string][]string{"a.example": {"a.example": {"http: ^/"}}, "b.example": {"b.example": {"any: ^/"}}})
	table.Groups = []rules.RouteGroup{{Port: 80}, {Gateway: 1}}
	for i := range table.Listeners {
		l := &table.Listeners[i]
		l.Groups = []int{int(l.Host[0] - 'a')}
		l.Host, l.Hosts[0].Host = "", ""
	}
	if got := routesFor(indexOfTable(t, table), "GET h/ @80"); got != "http any" {
		t.Errorf("routes %s, want both", got)
	}
}

// Ports that have the same listeners find a route once.
func TestRoutesOf_FindsARouteOfSeveralPortsOnce(t *testing.T) {
	table := tableOf(t, map[string]map[string][]string{"": {"": {"a: ^/", "b: ^/ x=1"}}})
	table.Groups = []rules.RouteGroup{{Port: 80}, {Port: 443}}
	for _, groups := range [][]int{nil, {0, 1}} {
		table.Listeners[0].Groups = groups
		x := indexOfTable(t, table)
		for _, port := range []string{"", " @80", " @443", " @7"} {
			if got := routesFor(x, "GET h/"+port); got != "a" {
				t.Errorf("groups %v%s: %s", groups, port, got)
			}
		}
	}
	table.Listeners[0].Groups = []int{1}
	x := indexOfTable(t, table)
	if http, https := routesFor(x, "GET h/ @80"), routesFor(x, "GET h/ @443"); http != "" || https != "a" {
		t.Errorf("port 80: %q, port 443: %q", http, https)
	}
}
