package route_test

import (
	"strings"
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

// A Gateway has all ports above a bound in one group, so that requests at any port can belong to it. Only ports below 1024 can be higher in a pod.
func TestRoutesOf_FindsTheListenersOfAnyPort(t *testing.T) {
	for _, test := range []struct {
		groups []rules.RouteGroup
		port   string
		want   string
	}{
		{[]rules.RouteGroup{{Port: 80}, {Gateway: 1}}, "@80", "first second"},
		{[]rules.RouteGroup{{Port: 80}, {}}, "@80", "first second"},
		{[]rules.RouteGroup{{Port: 80}, {}}, "@10000", "first second"},
		{[]rules.RouteGroup{{Port: 80}, {}}, "", "first second"},
		{[]rules.RouteGroup{{Port: 1023}, {Port: 2000}}, "@11023", "first"},
		{[]rules.RouteGroup{{Port: 1024}, {Port: 2000}}, "@1024", "first"},
		{[]rules.RouteGroup{{Port: 1024}, {Port: 2000}}, "@11024", "first second"},
	} {
		table := tableOf(t, map[string]map[string][]string{"a.example": {"a.example": {"first: ^/"}}, "b.example": {"b.example": {"second: ^/"}}})
		table.Groups = test.groups
		for i := range table.Listeners {
			l := &table.Listeners[i]
			l.Groups = []int{int(l.Host[0] - 'a')}
			l.Host, l.Hosts[0].Host = "", ""
		}
		if got := routesFor(indexOfTable(t, table), "GET h/ "+test.port); got != test.want {
			t.Errorf("%+v at port %q: routes %s, want %s", test.groups, test.port, got, test.want)
		}
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

// Each port of a Gateway would otherwise take steps of the request again, until a comparison is unknown.
func TestRoutesOf_ComparesTheListenersOfSeveralPortsOnce(t *testing.T) {
	table := tableOf(t, map[string]map[string][]string{"": {"": {"slow: ~/(a|b|ab|ba)*c", "rest: ^/"}}})
	for port := range 100 {
		table.Groups = append(table.Groups, rules.RouteGroup{Port: int32(2000 + port)})
	}
	x := indexOfTable(t, table)
	path := strings.Repeat("ab", 200)
	for request, want := range map[string]string{"GET h/" + path + "c": "slow", "GET h/" + path + "d": "rest"} {
		if got := routesFor(x, request); got != want {
			t.Errorf("...%s: %s, want %s", request[len(request)-1:], got, want)
		}
	}
}

// Two tenants have ListenerSets at ports that are the same port in the pod of Envoy Gateway. As there, a request belongs to the more specific host.
func TestRoutesOf_SharedGroupsOfAPortInThePodAreOnePort(t *testing.T) {
	table := tableOf(t, map[string]map[string][]string{
		"": {"": {"any: ^/"}}, "*.example": {"*.example": {"wild: ^/"}}, "shop.example": {"shop.example": {"shop: ^/"}}, "same.example": {"same.example": {"same: ^/"}},
	})
	for _, first := range []int{0, 1} { // the group of shop
		second := 1 - first
		table.Groups = []rules.RouteGroup{{Shared: true}, {Shared: true}, {Gateway: 1, Port: 10443, Shared: true}}
		table.Groups[first].Port, table.Groups[second].Port = 443, 10443
		groups := map[string][]int{"": {second}, "*.example": {second}, "shop.example": {first}, "same.example": {0, 1}}
		for i := range table.Listeners {
			table.Listeners[i].Groups = groups[table.Listeners[i].Host]
		}
		x := indexOfTable(t, table)
		for request, want := range map[string]string{
			"shop.example/ @10443": "shop", "x.example/ @10443": "wild", "same.example/ @10443": "same", "other/ @10443": "any",
			"shop.example/ @443": "shop", "x.example/ @443": "", "other/ @443": "",
		} {
			if got := routesFor(x, "GET "+request); got != want {
				t.Errorf("%s, group %d: %q, want %q", request, first, got, want)
			}
		}
		if got := routesFor(x, "GET shop.example/ @8443"); got != "shop wild" && got != "wild shop" { // a Service can map the port
			t.Errorf("another port: %q, want both", got)
		}
	}
}
