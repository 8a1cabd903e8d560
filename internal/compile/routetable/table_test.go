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
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
)

// tableRoute returns a route of the Gateway infra/public: "shop/checkout a.example,*.b.example =/pay POST", where = stands for an exact path, ^ for a
// prefix, ~ for a regular expression and */ for a suffix. Each further path begins another match.
func tableRoute(text string) gateway.Route {
	words := strings.Fields(text)
	namespace, name, _ := strings.Cut(words[0], "/")
	r := gateway.Route{Kind: "HTTPRoute", Namespace: namespace, Name: name, Parents: []gateway.Parent{{Namespace: "infra", Gateway: "public"}}}
	for _, word := range words[1:] {
		kind, isPath := map[byte]rules.PathMatchType{'=': rules.PathExact, '^': rules.PathPrefix, '~': rules.PathRegex}[word[0]]
		last := len(r.Matches) - 1
		switch {
		case isPath:
			r.Matches = append(r.Matches, gateway.RouteMatch{RouteMatch: rules.RouteMatch{Path: rules.PathMatch{Type: kind, Value: word[1:]}}})
		case last < 0:
			r.Hostnames = strings.Split(word, ",")
		case strings.HasPrefix(word, "?"):
			r.Matches[last].Query = append(r.Matches[last].Query, headerMatch(word[1:]))
		case strings.HasPrefix(word, "x-"):
			r.Matches[last].Headers = append(r.Matches[last].Headers, headerMatch(word))
		case strings.HasPrefix(word, "*/"):
			r.Matches[last].Suffix = word[1:]
		case strings.HasPrefix(word, "#"):
			r.Matches[last].Rule = word[1:]
			r.Rules = append(r.Rules, word[1:])
		default:
			r.Matches[last].Method = word
		}
	}
	return r
}

// headerMatch returns a match for the value 1, with ~ at its end as a regular expression.
func headerMatch(text string) rules.HeaderMatch {
	if name, is := strings.CutSuffix(text, "~"); is {
		return rules.HeaderMatch{Type: rules.HeaderRegex, Name: name, Value: "1"}
	}
	return rules.HeaderMatch{Type: rules.HeaderExact, Name: text, Value: "1"}
}

// tablePolicies are policies of a Limiter with routeMatching for the Gateway infra/public with these listeners.
func tablePolicies(listeners []gateway.Listener, routes ...gateway.Route) compile.Policies {
	for i := range listeners {
		listeners[i].HTTP = true
	}
	return compile.Policies{
		RouteMatching: []policyapi.GatewayReference{{Namespace: "infra", Name: "public"}},
		Gateways:      &gateway.Objects{Routes: routes, Gateways: []gateway.Gateway{{Namespace: "infra", Name: "public", Listeners: listeners}}},
		Namespaces:    []compile.Namespace{{Name: "shop", Labels: map[string]string{"team": "a"}}, {Name: "blog"}},
	}
}

// tableText returns a line for each host: "listener host: route match, …".
func tableText(table *rules.RouteTable) (lines []string) {
	for _, l := range table.Listeners {
		for _, h := range l.Hosts {
			var matches []string
			for _, i := range h.Matches {
				m := table.Matches[i]
				route := table.Routes[m.Route]
				matches = append(matches, route.Namespace+"/"+strings.TrimPrefix(route.Target, "HTTPRoute/")+" "+m.Path.Value)
			}
			lines = append(lines, fmt.Sprintf("%s %s: %s", l.Host, h.Host, strings.Join(matches, ", ")))
		}
	}
	return lines
}

func TestRouteTable_IntersectsTheHostsOfListenersAndRoutes(t *testing.T) {
	for name, test := range map[string]struct {
		listeners []gateway.Listener
		route     string
		want      []string
	}{
		"no hosts":                    {[]gateway.Listener{{}}, "shop/r ^/", []string{" : shop/r /"}},
		"of the listener":             {[]gateway.Listener{{Hostname: "A.example"}}, "shop/r ^/", []string{"a.example a.example: shop/r /"}},
		"of the route":                {[]gateway.Listener{{}}, "shop/r A.example ^/", []string{" a.example: shop/r /"}},
		"equal":                       {[]gateway.Listener{{Hostname: "a.example"}}, "shop/r a.example,b.example ^/", []string{"a.example a.example: shop/r /"}},
		"a wildcard listener":         {[]gateway.Listener{{Hostname: "*.example"}}, "shop/r a.example,example,a.b.example,a.org ^/", []string{"*.example a.b.example: shop/r /", "*.example a.example: shop/r /"}},
		"a wildcard route":            {[]gateway.Listener{{Hostname: "a.b.example"}}, "shop/r *.example ^/", []string{"a.b.example a.b.example: shop/r /"}},
		"a narrow wildcard route":     {[]gateway.Listener{{Hostname: "*.example"}}, "shop/r *.b.example ^/", []string{"*.example *.b.example: shop/r /"}},
		"a narrow wildcard listener":  {[]gateway.Listener{{Hostname: "*.b.example"}}, "shop/r *.example ^/", []string{"*.b.example *.b.example: shop/r /"}},
		"equal wildcards":             {[]gateway.Listener{{Hostname: "*.example"}}, "shop/r *.example ^/", []string{"*.example *.example: shop/r /"}},
		"a suffix that is no label":   {[]gateway.Listener{{Hostname: "*.example"}}, "shop/r badexample,*.badexample ^/", nil},
		"the wildcard is too narrow":  {[]gateway.Listener{{Hostname: "example"}}, "shop/r *.example ^/", nil},
		"two listeners":               {[]gateway.Listener{{}, {Hostname: "*.example"}}, "shop/r a.example ^/", []string{" a.example: shop/r /", "*.example a.example: shop/r /"}},
		"two listeners with one host": {[]gateway.Listener{{Hostname: "a.example"}, {Hostname: "a.example"}}, "shop/r ^/", []string{"a.example a.example: shop/r /"}},
		"other namespaces":            {[]gateway.Listener{{SameNamespace: true}}, "shop/r ^/", nil},
		"the own namespace":           {[]gateway.Listener{{SameNamespace: true}}, "infra/r ^/", []string{" : infra/r /"}},
		"a selected namespace":        {[]gateway.Listener{{Namespaces: &policyapi.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}}, "shop/r ^/", []string{" : shop/r /"}},
		"another namespace":           {[]gateway.Listener{{Namespaces: &policyapi.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}}, "blog/r ^/", nil},
		"another kind":                {[]gateway.Listener{{Kinds: []policyapi.TargetKind{"GRPCRoute"}}}, "shop/r ^/", nil},
		"a kind":                      {[]gateway.Listener{{Kinds: []policyapi.TargetKind{"GRPCRoute", "HTTPRoute"}}}, "shop/r ^/", []string{" : shop/r /"}},
		"the name of a rule":          {[]gateway.Listener{{}}, "shop/r =/pay #pay ^/", []string{" : shop/r/pay /pay, shop/r /"}},
	} {
		result := tablePolicies(test.listeners, tableRoute(test.route)).Compile(compile.DefaultIdentity())
		if diff := cmp.Diff(test.want, tableText(result.Set.RouteTable)); diff != "" || result.LeftOut != "" {
			t.Errorf("%s: left out %q; -want +got:\n%s", name, result.LeftOut, diff)
		}
	}
}

func TestRouteTable_HasOnlyRoutesOfTheListeners(t *testing.T) {
	r := tableRoute("shop/r ^/")
	on := func(change func(*gateway.Parent)) gateway.Route {
		route := r
		route.Parents = []gateway.Parent{r.Parents[0]}
		change(&route.Parents[0])
		return route
	}
	both := []gateway.Listener{{Name: "a", Hostname: "a.example", Port: 80}, {Name: "b", Hostname: "b.example", Port: 81}}
	for name, test := range map[string]struct {
		route   gateway.Route
		section *string
		want    []string
	}{
		"all":                     {r, nil, []string{"a.example a.example: shop/r /", "b.example b.example: shop/r /"}},
		"a selected listener":     {r, new("b"), []string{"b.example b.example: shop/r /"}},
		"a listener of the route": {on(func(p *gateway.Parent) { p.Listener = "a" }), nil, []string{"a.example a.example: shop/r /"}},
		"a port of the route":     {on(func(p *gateway.Parent) { p.Port = 81 }), nil, []string{"b.example b.example: shop/r /"}},
		"another Gateway":         {on(func(p *gateway.Parent) { p.Gateway = "other" }), nil, nil},
		"a listener set":          {on(func(p *gateway.Parent) { *p = gateway.Parent{Namespace: "shop", ListenerSet: "set"} }), nil, []string{"c.example c.example: shop/r /"}},
		"another listener set":    {on(func(p *gateway.Parent) { *p = gateway.Parent{Namespace: "shop", ListenerSet: "other"} }), nil, nil},
		"of another section":      {on(func(p *gateway.Parent) { *p = gateway.Parent{Namespace: "shop", ListenerSet: "set"} }), new("a"), nil},
	} {
		p := tablePolicies(both, test.route)
		p.RouteMatching[0].SectionName = test.section
		p.Gateways.ListenerSets = []gateway.ListenerSet{{
			Namespace: "shop", Name: "set", GatewayNamespace: "infra", Gateway: "public", Listeners: []gateway.Listener{{Name: "c", Hostname: "c.example", HTTP: true}},
		}}
		p.Gateways.Gateways[0].Listeners = append(p.Gateways.Gateways[0].Listeners, gateway.Listener{Name: "tcp", Hostname: "tcp.example"})
		if diff := cmp.Diff(test.want, tableText(p.Compile(compile.DefaultIdentity()).Set.RouteTable)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestRouteTable_OrdersMatchesByPrecedence(t *testing.T) {
	for name, test := range map[string]struct {
		controller string
		routes     []string // the second one is older
		want       string
	}{
		"an exact path":            {"", []string{"shop/a ^/pay x-a", "shop/b =/pay"}, "b a"},
		"the longer prefix":        {"", []string{"shop/a ^/pay", "shop/b ^/pay/now"}, "b a"},
		"a method before headers":  {"", []string{"shop/a ^/ x-a x-b", "shop/b ^/ POST"}, "b a"},
		"more headers":             {"", []string{"shop/a ^/ x-a", "shop/b ^/ x-a x-b"}, "b a"},
		"headers before the query": {"", []string{"shop/a ^/ ?a ?b", "shop/b ^/ x-a"}, "b a"},
		"a longer query":           {"", []string{"shop/a ^/ ?a", "shop/b ^/ ?a ?b"}, "b a"},
		"the older route":          {"", []string{"shop/a ^/", "shop/b ^/"}, "b a"},
		"a method of any service":  {"", []string{"shop/a ^/", "shop/b ^/ */Get"}, "b a"},
		"a slash in Envoy Gateway": {"gateway.envoyproxy.io/gatewayclass-controller", []string{"shop/a ^/pay", "shop/b ^/pay/"}, "b a"},
		"expressions last":         {"", []string{"shop/a ~/pay.*", "shop/b ^/"}, "b a"},
		"expressions first in Envoy Gateway": {
			"gateway.envoyproxy.io/gatewayclass-controller", []string{"shop/a ^/pay/now", "shop/b ~/pay.*"}, "b a",
		},
		"headers before a method in Envoy Gateway": {
			"gateway.envoyproxy.io/gatewayclass-controller", []string{"shop/a ^/ POST", "shop/b ^/ x-a x-b"}, "b a",
		},
		"a method is an exact header in Envoy Gateway": {
			"gateway.envoyproxy.io/gatewayclass-controller", []string{"shop/a ^/ x-a~", "shop/b ^/ POST"}, "b a",
		},
		"exact headers in Envoy Gateway": {
			"gateway.envoyproxy.io/gatewayclass-controller", []string{"shop/a ^/ x-a x-b~", "shop/b ^/ x-a x-b"}, "b a",
		},
		"a longer query in Envoy Gateway": {
			"gateway.envoyproxy.io/gatewayclass-controller", []string{"shop/a ^/ ?a", "shop/b ^/ ?a~ ?b~"}, "b a",
		},
		"an exact query in Envoy Gateway": {
			"gateway.envoyproxy.io/gatewayclass-controller", []string{"shop/a ^/ ?a ?b~", "shop/b ^/ ?a ?b"}, "b a",
		},
	} {
		for _, reverse := range []bool{false, true} {
			var routes []gateway.Route
			for i, text := range test.routes {
				r := tableRoute(text)
				r.Created, r.Parents[0].Controller = time.Unix(int64(9-i), 0), test.controller
				if reverse && test.want != "" && name != "the older route" {
					r.Created = time.Unix(int64(i), 0)
				}
				routes = append(routes, r)
			}
			table := tablePolicies([]gateway.Listener{{}}, routes...).Compile(compile.DefaultIdentity()).Set.RouteTable
			var got []string
			for _, i := range table.Listeners[0].Hosts[0].Matches {
				got = append(got, strings.TrimPrefix(table.Routes[table.Matches[i].Route].Target, "HTTPRoute/"))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%s: %v, want %s", name, got, test.want)
			}
		}
	}
}

// The owner of a namespace must not fill the table, and a new route must not displace an older one.
func TestRouteTable_IsBounded(t *testing.T) {
	var routes []gateway.Route
	for i := range 600 {
		r := tableRoute("tenant/many ^/1 ^/2 ^/3 ^/4")
		r.Name, r.Created = fmt.Sprintf("r%d", 600-i), time.Unix(int64(i), 0)
		routes = append(routes, r)
	}
	late := tableRoute("shop/late ^/late")
	late.Created = time.Unix(10_000, 0)
	result := tablePolicies([]gateway.Listener{{}}, append(routes, late)...).CompileWithin(compile.DefaultIdentity(), budget.Default())
	table := result.Set.RouteTable
	if n := len(table.Matches); n != 2101 || table.Matches[2100].Path.Value != "/late" {
		t.Errorf("%d matches, want the 2000 of the 500 oldest routes, one for each of the others, and the one of another namespace", n)
	}
	const want = "100 routes of spec.routeMatching are left out of the table of routes, such as HTTPRoute tenant/r100, because the older routes use its " +
		"262144 bytes, 2000 matches or 100 regular expressions (perNamespace)"
	if !strings.HasPrefix(result.LeftOut, want) {
		t.Errorf("left out: %s", result.LeftOut)
	}
}

func TestRouteTable_ReportsWhatLimitersCannotFind(t *testing.T) {
	p := tablePolicies([]gateway.Listener{{}}, tableRoute("shop/a ~/( ^/b"))
	result := p.Compile(compile.DefaultIdentity())
	if diff := cmp.Diff([]string{" : shop/a /b, shop/a /"}, tableText(result.Set.RouteTable)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !strings.HasPrefix(result.LeftOut, "1 matches of routes are left out") || !strings.Contains(result.LeftOut, "HTTPRoute shop/a: ") {
		t.Errorf("left out: %s", result.LeftOut)
	}
	p.RouteMatching = append(p.RouteMatching, policyapi.GatewayReference{Namespace: "infra", Name: "gone"})
	if left := p.Compile(compile.DefaultIdentity()).LeftOut; !strings.HasPrefix(left, "Gateway infra/gone in spec.routeMatching does not exist") {
		t.Errorf("left out: %s", left)
	}
	slices.Reverse(p.RouteMatching)
	if n := len(p.Compile(compile.DefaultIdentity()).Set.RouteTable.Routes); n == 0 {
		t.Error("a Gateway that does not exist hides the routes of the next one")
	}
	p.Gateways.Unreadable, p.Gateways.Previous.RouteTable = gateway.ErrGatewaysPending, &rules.RouteTable{Routes: []rules.Route{{Namespace: "kept"}}}
	if table := p.Compile(compile.DefaultIdentity()).Set.RouteTable; table != p.Gateways.Previous.RouteTable {
		t.Errorf("while the objects cannot be read, the table is %+v", table)
	}
	for name, p := range map[string]compile.Policies{"no Gateway": {Gateways: &gateway.Objects{}}, "no objects": {RouteMatching: p.RouteMatching}} {
		if result := p.Compile(compile.DefaultIdentity()); result.Set.RouteTable != nil || result.LeftOut != "" {
			t.Errorf("%s: %+v, %s", name, result.Set.RouteTable, result.LeftOut)
		}
	}
}
