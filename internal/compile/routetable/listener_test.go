package routetable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
)

// The table has a route, a rule of it, and the rest of a route once, however many matches they have.
func TestRouteTable_HasEachRouteOnce(t *testing.T) {
	for text, want := range map[string]struct{ routes, matches int }{
		"shop/r a.example ^/1 #pay ^/2 #pay ^/3 #other ^/4 #pay": {2, 4}, "shop/r a.example ~( ~) ~[": {1, 1}, "shop/r a.example ^/1 ~( ^/2 ~)": {2, 3},
	} {
		table := tablePolicies([]gateway.Listener{{}}, tableRoute(text)).Compile(compile.DefaultIdentity()).Set.RouteTable
		if len(table.Routes) != want.routes || len(table.Matches) != want.matches {
			t.Errorf("%s: %d routes and %d matches, want %+v", text, len(table.Routes), len(table.Matches), want)
		}
	}
}

// A listener of a ListenerSet can take requests only at its own Gateway.
func TestRouteTable_HasTheHTTPListenersOfTheListenerSetsOfAGateway(t *testing.T) {
	p := tablePolicies([]gateway.Listener{{Hostname: "public.example"}})
	for _, of := range []string{"infra/other", "other/public", "infra/public", "infra/public"} {
		gatewayNamespace, gatewayName, _ := strings.Cut(of, "/")
		name := fmt.Sprint("set", len(p.Gateways.ListenerSets))
		p.Gateways.ListenerSets = append(p.Gateways.ListenerSets, gateway.ListenerSet{
			Namespace: "shop", Name: name, GatewayNamespace: gatewayNamespace, Gateway: gatewayName,
			Listeners: []gateway.Listener{{Name: "tcp", Hostname: "tcp." + name}, {Name: "http", Hostname: "http." + name, HTTP: true}},
		})
	}
	var got []string
	for _, l := range p.Compile(compile.DefaultIdentity()).Set.RouteTable.Listeners {
		got = append(got, l.Host)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"http.set2", "http.set3", "public.example"}, got); diff != "" {
		t.Error(diff)
	}
}

// The message names the oldest one, which a later fix does not change.
func TestRouteTable_NamesTheOldestListenerThatIsLeftOut(t *testing.T) {
	p := tablePolicies([]gateway.Listener{{Port: 443}})
	for n, name := range []string{"latest", "later", "first"} {
		set := gateway.ListenerSet{Namespace: "blog", Name: name, GatewayNamespace: "infra", Gateway: "public", Created: time.Unix(int64(3-n), 0)}
		for i := range 300 {
			set.Listeners = append(set.Listeners, gateway.Listener{Name: fmt.Sprint("l", i), Hostname: fmt.Sprintf("%d.%s.example", i, name), Port: 443, HTTP: true})
		}
		p.Gateways.ListenerSets = append(p.Gateways.ListenerSets, set)
	}
	const want = "400 listeners of ListenerSets are left out of the table of routes, such as one of ListenerSet blog/later, "
	if got := p.Compile(compile.DefaultIdentity()).LeftOut; !strings.HasPrefix(got, want) {
		t.Errorf("left out: %s", got)
	}
}

// The ports of one Gateway are no ports of another one.
func TestRouteTable_APortOfAnotherGatewayLeavesOutNoListener(t *testing.T) {
	set, route := mine(10443)
	p := tablePolicies([]gateway.Listener{{Port: 80}}, route)
	p.RouteMatching = append(p.RouteMatching, policyapi.GatewayReference{Namespace: "infra", Name: "other"})
	p.Gateways.Gateways = append(p.Gateways.Gateways, gateway.Gateway{Namespace: "infra", Name: "other", Listeners: []gateway.Listener{{Port: 443, HTTP: true}}})
	p.Gateways.ListenerSets = []gateway.ListenerSet{set}
	result := p.Compile(compile.DefaultIdentity())
	if got := findRoutesAt(t, result.Set, 10443, "shop.example", "/"); got != "blog" || result.LeftOut != "" {
		t.Errorf("routes %q, left out %q", got, result.LeftOut)
	}
}

// A Gateway with more ports than the table has groups shares the last one. Its first port keeps its own.
func TestRouteTable_ALaterListenerOfAPortJoinsItsGroup(t *testing.T) {
	var listeners []gateway.Listener
	for i := range 70 {
		listeners = append(listeners, gateway.Listener{Port: int32(2000 + i)})
	}
	listeners = append(listeners, gateway.Listener{Port: 2000, Hostname: "first.example"}, gateway.Listener{Port: 2001, Hostname: "second.example"})
	table := tablePolicies(listeners).Compile(compile.DefaultIdentity()).Set.RouteTable
	got := map[string]rules.RouteGroup{}
	for _, l := range table.Listeners {
		if l.Host != "" && len(l.Groups) == 1 {
			got[l.Host] = table.Groups[l.Groups[0]]
		}
	}
	if got["first.example"].Port != 2000 || got["second.example"].Port != 2001 {
		t.Errorf("%+v", got)
	}
}
