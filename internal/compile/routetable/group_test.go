package routetable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// findRoutesAt returns the namespaces of the routes that a limiter finds for a request at a port, 0 if it is unknown.
func findRoutesAt(t *testing.T, set rules.Set, port int32, host, path string) string {
	t.Helper()
	x, err := matching.NewIndex(set, "r", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range x.RoutesOf(&route.Request{Method: "GET", Host: host, Target: path, Port: port}) {
		found = append(found, r.Namespace)
	}
	return strings.Join(found, " ")
}

// mine is a ListenerSet of blog for the host of shop, with a route.
func mine(port int32) (gateway.ListenerSet, gateway.Route) {
	r := tableRoute("blog/mine ^/")
	r.Parents = []gateway.Parent{{Namespace: "blog", ListenerSet: "mine"}}
	return gateway.ListenerSet{
		Namespace: "blog", Name: "mine", GatewayNamespace: "infra", Gateway: "public",
		Listeners: []gateway.Listener{{Name: "x", Hostname: "Shop.example", Port: port, HTTP: true, SameNamespace: true}},
	}, r
}

// A tenant with a ListenerSet on another port must not take the requests of a host, and with them the limits of their namespace.
func TestRouteTable_ListenerSetTakesNoRequestsOfOtherPorts(t *testing.T) {
	for _, test := range []struct {
		listeners []gateway.Listener
		port      int32 // of the ListenerSet
		want      map[int32]string
	}{
		{[]gateway.Listener{{Name: "https", Port: 443}}, 9999, map[int32]string{443: "shop", 10443: "shop", 9999: "shop blog", 0: "shop blog", 8443: "shop blog"}},
		{[]gateway.Listener{{Name: "http", Port: 80}, {Name: "https", Port: 443}}, 80, map[int32]string{443: "shop", 80: "blog", 10080: "blog", 0: "blog shop"}},
		{[]gateway.Listener{{Name: "https", Port: 443}}, 443, map[int32]string{443: "blog", 0: "blog"}}, // the listener is more specific, as in the gateway
	} {
		set, route := mine(test.port)
		p := tablePolicies(test.listeners, tableRoute("shop/all shop.example ^/"), route)
		p.Gateways.ListenerSets = []gateway.ListenerSet{set}
		compiled := p.Compile(compile.DefaultIdentity()).Set
		for port, want := range test.want {
			if got := findRoutesAt(t, compiled, port, "shop.example", "/pay"); got != want {
				t.Errorf("ListenerSet at %d, request at %d: %s, want %s", test.port, port, got, want)
			}
		}
	}
}

func TestRouteTable_RouteOfAnotherGatewayTakesNoRequestsOfItsPort(t *testing.T) {
	other := tableRoute("blog/b shop.example =/pay")
	other.Parents = []gateway.Parent{{Namespace: "blog", Gateway: "own"}}
	p := tablePolicies([]gateway.Listener{{Port: 443}}, tableRoute("shop/a shop.example ^/"), other)
	p.RouteMatching = append(p.RouteMatching, policyapi.GatewayReference{Namespace: "blog", Name: "own"})
	p.Gateways.Gateways = append(p.Gateways.Gateways, gateway.Gateway{Namespace: "blog", Name: "own", Listeners: []gateway.Listener{{Port: 8080, HTTP: true, SameNamespace: true}}})
	set := p.Compile(compile.DefaultIdentity()).Set
	// Both Gateways can have Services that map ports in another way, so that the request counts for both. Only one has other paths.
	for request, want := range map[string]string{"443 /pay": "shop blog", "8080 /pay": "shop blog", "443 /": "shop", "0 /": "shop"} {
		port, path, _ := strings.Cut(request, " ")
		var number int32
		if _, err := fmt.Sscan(port, &number); err != nil {
			t.Fatal(err)
		}
		if got := findRoutesAt(t, set, number, "shop.example", path); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

func TestRouteTable_PortsShareEqualListeners(t *testing.T) {
	routes := []gateway.Route{tableRoute("shop/all ^/"), tableRoute("blog/http ^/blog")}
	routes[1].Parents[0].Listener = "http"
	listeners := func() []gateway.Listener {
		return []gateway.Listener{
			{Name: "http", Port: 80},
			{Name: "https", Port: 443},
			{Name: "alt", Port: 8443},
			{Name: "Sub", Hostname: "SUB.example", Port: 443},
			{Name: "sub", Hostname: "sub.example", Port: 80},
			{Name: "sub2", Hostname: "sub.example", Port: 8443},
		}
	}
	table := tablePolicies(listeners(), routes...).Compile(compile.DefaultIdentity()).Set.RouteTable
	want := []rules.RouteGroup{{Port: 80}, {Port: 443}, {Port: 8443}}
	if diff := cmp.Diff(want, table.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	var got []string
	for _, l := range table.Listeners {
		got = append(got, fmt.Sprint(l.Host, l.Groups, len(l.Hosts[0].Matches)))
	}
	if diff := cmp.Diff([]string{"[0] 2", "sub.example[] 1", "[1 2] 1"}, got); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
}

// Tenants choose the ports of ListenerSets.
func TestRouteTable_BoundsThePorts(t *testing.T) {
	routes := []gateway.Route{tableRoute("shop/all shop.example ^/")}
	p := tablePolicies([]gateway.Listener{{Port: 443}})
	for i := range 100 {
		name := fmt.Sprintf("s%02d", i)
		p.Gateways.ListenerSets = append(p.Gateways.ListenerSets, gateway.ListenerSet{
			Namespace: "blog", Name: name, GatewayNamespace: "infra", Gateway: "public",
			Listeners: []gateway.Listener{{Name: "x", Hostname: name + ".example", Port: int32(2000 + i), HTTP: true, SameNamespace: true}},
		})
		r := tableRoute("blog/" + name + " ^/")
		r.Parents = []gateway.Parent{{Namespace: "blog", ListenerSet: name}}
		routes = append(routes, r)
	}
	p.Gateways.Routes = routes
	set := p.Compile(compile.DefaultIdentity()).Set
	if n := len(set.RouteTable.Groups); n != 64 {
		t.Errorf("%d groups, want 64", n)
	}
	for request, want := range map[string]string{
		"443 shop.example": "shop", "443 s00.example": "", "2000 s00.example": "blog", "2099 s99.example": "blog", "443 s99.example": "", "2050 s99.example": "", "2098 s99.example": "blog",
	} {
		port, host, _ := strings.Cut(request, " ")
		var number int32
		if _, err := fmt.Sscan(port, &number); err != nil {
			t.Fatal(err)
		}
		if got := findRoutesAt(t, set, number, host, "/"); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}

// The hosts of ListenerSets use up the room of their namespace only. Above it, requests keep the limits of the Gateway.
func TestRouteTable_BoundsTheListenersOfANamespace(t *testing.T) {
	p := tablePolicies([]gateway.Listener{{Port: 443}, {Port: 443, Hostname: "*.example"}})
	p.Gateways.Routes = []gateway.Route{tableRoute("shop/all shop.example ^/")}
	add := func(namespace, name string, created, listeners int) {
		set := gateway.ListenerSet{Namespace: namespace, Name: name, GatewayNamespace: "infra", Gateway: "public", Created: time.Unix(int64(created), 0)}
		for i := range listeners {
			set.Listeners = append(set.Listeners, gateway.Listener{Name: fmt.Sprint("l", i), Hostname: fmt.Sprintf("%d.%s.example", i, name), Port: 443, HTTP: true, SameNamespace: true})
		}
		set.Listeners = append(set.Listeners, gateway.Listener{Name: "tcp", Port: 9})
		p.Gateways.ListenerSets = append(p.Gateways.ListenerSets, set)
		r := tableRoute(namespace + "/" + name + " ^/")
		r.Parents = []gateway.Parent{{Namespace: namespace, ListenerSet: name}}
		p.Gateways.Routes = append(p.Gateways.Routes, r)
	}
	add("blog", "late", 3, 10)
	add("blog", "many", 2, 495)
	add("bank", "new", 4, 2)
	result := p.Compile(compile.DefaultIdentity())
	for host, want := range map[string]string{
		"shop.example": "shop", "0.many.example": "blog", "494.many.example": "blog", "4.late.example": "blog", "5.late.example": "blog", "9.late.example": "blog",
		"1.new.example": "bank",
	} {
		if got := findRoutesAt(t, result.Set, 443, host, "/"); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	const want = "5 listeners of ListenerSets are left out of the table of routes, such as one of ListenerSet blog/late, because a namespace can have 500"
	if !strings.HasPrefix(result.LeftOut, want) {
		t.Errorf("left out: %s", result.LeftOut)
	}
	if n := len(result.Set.RouteTable.Listeners); n != 504 {
		t.Errorf("%d listeners, want 2 of the Gateway and 502", n)
	}
}

// A Gateway with many ports leaves no room for those of ListenerSets. They must not join the group of its further ports, which any request can have.
func TestRouteTable_ManyPortsOfAGatewayGiveListenerSetsNoRequests(t *testing.T) {
	var listeners []gateway.Listener
	for i := range 64 {
		listeners = append(listeners, gateway.Listener{Port: int32(2000 + i)})
	}
	set, route := mine(9999)
	p := tablePolicies(listeners, tableRoute("shop/all shop.example ^/"), route)
	p.Gateways.ListenerSets = []gateway.ListenerSet{set}
	compiled := p.Compile(compile.DefaultIdentity()).Set
	for port, want := range map[int32]string{2000: "shop", 2063: "shop blog", 9999: "shop blog"} { // 2063 and 9999 have no group of their own
		if got := findRoutesAt(t, compiled, port, "shop.example", "/pay"); got != want {
			t.Errorf("request at %d: %s, want %s", port, got, want)
		}
	}
	if n := len(compiled.RouteTable.Groups); n != 64 {
		t.Errorf("%d groups, want 64", n)
	}
}

// Envoy Gateway serves a listener at 443 at 10443 in the pod.
func TestRouteTable_ListenerSetTakesNoRequestsOfAPortInThePod(t *testing.T) {
	for _, ports := range [][2]int32{{443, 10443}, {10443, 443}} {
		set, route := mine(ports[1])
		set.Listeners = append(set.Listeners, gateway.Listener{Name: "y", Hostname: "blog.example", Port: ports[1], HTTP: true, SameNamespace: true})
		p := tablePolicies([]gateway.Listener{{Port: ports[0]}}, tableRoute("shop/all shop.example ^/"), route)
		p.Gateways.ListenerSets = []gateway.ListenerSet{set}
		result := p.Compile(compile.DefaultIdentity())
		for host, want := range map[string]string{"shop.example": "shop", "blog.example": "blog"} { // the limits of the Gateway hold for the latter
			if got := findRoutesAt(t, result.Set, 10443, host, "/pay"); got != want {
				t.Errorf("ListenerSet at %d: a request for %s belongs to %s, want %s", ports[1], host, got, want)
			}
		}
		const want = "2 listeners of ListenerSets are left out of the table of routes, such as one of ListenerSet blog/mine, because requests for a listener"
		if !strings.HasPrefix(result.LeftOut, want) || !strings.Contains(result.LeftOut, fmt.Sprintf(" port %d,", ports[1])) {
			t.Errorf("left out: %s", result.LeftOut)
		}
	}
}

// The Gateway has no listener for the host, and no other route.
func TestRouteTable_RequestsOfAListenerThatIsLeftOutBelongToItsRoute(t *testing.T) {
	for _, listener := range []string{"shop.example", "*.example", ""} {
		set, route := mine(10443)
		set.Listeners[0].Hostname = "blog.example"
		p := tablePolicies([]gateway.Listener{{Port: 443, Hostname: listener}}, route)
		p.Gateways.ListenerSets = []gateway.ListenerSet{set}
		if got := findRoutesAt(t, p.Compile(compile.DefaultIdentity()).Set, 10443, "blog.example", "/"); got != "blog" {
			t.Errorf("listener %q: routes %q", listener, got)
		}
	}
}

// The same route can be on a Gateway of Istio and on one of Envoy Gateway, which order routes in different ways.
func TestRouteTable_OrderDependsOnTheControllerOfTheGateway(t *testing.T) {
	older, newer := tableRoute("shop/pay shop.example ^/pay"), tableRoute("blog/pay shop.example ^/pay/")
	older.Created, newer.Created = time.Unix(1, 0), time.Unix(2, 0)
	for _, r := range []*gateway.Route{&older, &newer} {
		r.Parents[0].Controller = "istio.io/gateway-controller"
	}
	newer.Parents = append(newer.Parents, gateway.Parent{Namespace: "infra", Gateway: "z", Controller: "gateway.envoyproxy.io/gatewayclass-controller"})
	older.Parents = append(older.Parents, newer.Parents[1])
	p := tablePolicies([]gateway.Listener{{Port: 443}}, older, newer)
	p.RouteMatching = append(p.RouteMatching, policyapi.GatewayReference{Namespace: "infra", Name: "z"})
	p.Gateways.Gateways = append(p.Gateways.Gateways, gateway.Gateway{Namespace: "infra", Name: "z", Listeners: []gateway.Listener{{Port: 9000, HTTP: true}}})
	table := p.Compile(compile.DefaultIdentity()).Set.RouteTable
	var first []string
	for _, l := range table.Listeners {
		first = append(first, fmt.Sprint(l.Groups, table.Routes[table.Matches[l.Hosts[0].Matches[0]].Route].Namespace))
	}
	if diff := cmp.Diff([]string{"[0]shop", "[1]blog"}, first); diff != "" {
		t.Errorf("first routes of Istio and of Envoy Gateway (-want +got):\n%s", diff)
	}
}

// Neither 443 nor 10443 is a port of the Gateway, and both are one port in the pods of Envoy Gateway. One tenant must not deny the requests of another.
func TestRouteTable_ListenerSetsTakeNoRequestsOfEachOther(t *testing.T) {
	for _, ports := range [][2]int32{{443, 10443}, {10443, 443}} {
		for _, test := range []struct{ host, newerHost, want, wantNewer, leftOut string }{
			{"shop.example", "shop.example", "shop", "", "1 listeners"}, // the older one keeps the host
			{"shop.example", "Shop.Example", "shop", "", "1 listeners"},
			{"shop.example", "", "shop", "blog", ""},
			{"shop.example", "*.example", "shop", "blog", ""},
			{"*.example", "", "shop", "blog", ""},
			{"", "", "shop", "", "1 listeners"},
		} {
			set := func(namespace, host string, created int64, port int32) (gateway.ListenerSet, gateway.Route) {
				r := tableRoute(namespace + "/r ^/")
				r.Parents = []gateway.Parent{{Namespace: namespace, ListenerSet: "s"}}
				return gateway.ListenerSet{
					Namespace: namespace, Name: "s", GatewayNamespace: "infra", Gateway: "public", Created: time.Unix(created, 0),
					Listeners: []gateway.Listener{{Name: "x", Hostname: host, Port: port, HTTP: true, SameNamespace: true}},
				}, r
			}
			older, route := set("shop", test.host, 1, ports[0])
			newer, newerRoute := set("blog", test.newerHost, 2, ports[1])
			p := tablePolicies([]gateway.Listener{{Port: 80}}, route, newerRoute)
			p.Gateways.ListenerSets = []gateway.ListenerSet{newer, older}
			result := p.Compile(compile.DefaultIdentity())
			name := fmt.Sprintf("%q at %d and %q at %d", test.host, ports[0], test.newerHost, ports[1])
			if got := findRoutesAt(t, result.Set, 10443, "shop.example", "/pay"); got != test.want {
				t.Errorf("%s: a request for shop.example belongs to %q, want %q", name, got, test.want)
			}
			if got := findRoutesAt(t, result.Set, 10443, "other", "/"); test.newerHost == "" && test.wantNewer != "" && got != test.wantNewer {
				t.Errorf("%s: a request for another host belongs to %q, want %q", name, got, test.wantNewer)
			}
			if !strings.HasPrefix(result.LeftOut, test.leftOut) || test.leftOut == "" && result.LeftOut != "" {
				t.Errorf("%s: left out: %q, want %q", name, result.LeftOut, test.leftOut)
			}
		}
	}
}

func TestRouteTable_ListenerSetsOfANamespaceShareAHost(t *testing.T) {
	set, route := mine(443)
	again := set
	again.Name, again.Listeners = "again", []gateway.Listener{{Name: "y", Hostname: "shop.example", Port: 10443, HTTP: true, SameNamespace: true}}
	route.Parents = append(route.Parents, gateway.Parent{Namespace: "blog", ListenerSet: "again"})
	p := tablePolicies([]gateway.Listener{{Port: 80}}, route)
	p.Gateways.ListenerSets = []gateway.ListenerSet{set, again}
	result := p.Compile(compile.DefaultIdentity())
	for _, port := range []int32{443, 10443} {
		if got := findRoutesAt(t, result.Set, port, "shop.example", "/"); got != "blog" || result.LeftOut != "" {
			t.Errorf("port %d: %q, left out: %q", port, got, result.LeftOut)
		}
	}
}
