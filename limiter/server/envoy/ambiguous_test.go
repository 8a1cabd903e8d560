package envoy

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// versions returns a limiter with 40 routes of two namespaces, by the version in a header. Version v00 to v38 have the limit 1000, and v39 has 1.
// Each namespace also has the limit 3 for all of its requests.
func versions(t *testing.T) (w *world, check func(version string) int32) {
	t.Helper()
	table := &rules.RouteTable{Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Host: "shop.example"}}}}}
	set := rules.Set{RouteTable: table}
	for i := range 40 {
		route := rules.Route{Namespace: fmt.Sprintf("n%d", i%2), Target: fmt.Sprintf("HTTPRoute/v%02d", i)}
		table.Routes = append(table.Routes, route)
		table.Matches = append(table.Matches, rules.RouteMatch{
			Route: i, Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"},
			Headers: []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-version", Value: fmt.Sprintf("v%02d", i)}},
		})
		table.Listeners[0].Hosts[0].Matches = append(table.Listeners[0].Hosts[0].Matches, i)
		r := search()
		r.Policy, r.Domain, r.Units, r.Match = route.Namespace+"/p"+route.Target[len("HTTPRoute/"):], route.Namespace, 1000, rules.Match{Routes: []rules.Route{route}}
		if i == 39 {
			r.Units = 1
		}
		set.Rules = append(set.Rules, r)
	}
	for _, namespace := range []string{"n0", "n1"} {
		r := search()
		r.Policy, r.Domain, r.Units, r.Match = namespace+"/all", namespace, 3, rules.Match{}
		set.Rules = append(set.Rules, r)
	}
	slices.SortFunc(set.Rules, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	index, err := matching.NewIndex(set, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	w = limiterOf(t)
	w.engine.Swap(index)
	return w, func(version string) int32 {
		a := attributes("GET", "/any")
		a.ContextExtensions = nil
		a.Request.Http.Host, a.Request.Http.Headers = "shop.example", map[string]string{"x-version": version, "x-tenant-id": "a"}
		return int32(w.check(t, a).GetDeniedResponse().GetStatus().GetCode())
	}
}

// A client must not choose the namespace that a request counts for, nor push out the policy of its route, by a header that routes match.
func TestExtAuthz_CountsARequestForEachRouteThatItCanBelongTo(t *testing.T) {
	for version, want := range map[string][]int32{
		"v39":                            {0, 429}, // its own limit
		"v39" + strings.Repeat(",x", 17): {0, 429},
		"v38,v39":                        {0, 429},       // the limit of one of two routes
		"v38,v36":                        {0, 0, 0, 429}, // both are in one namespace, for which the request counts once
		"v00,v01":                        {0, 0, 0, 429},
		"x":                              {0, 0, 0, 0, 0},
		"x,y":                            {0, 0, 0, 0, 0},
		"v38,v37,v36,v35,v34":            {400, 400}, // too many
	} {
		_, check := versions(t)
		for i, status := range want {
			if got := check(version); got != status {
				t.Errorf("%.20s, request %d: status %d, want %d", version, i, got, status)
			}
		}
	}
	_, check := versions(t)
	for i, version := range []string{"v39,v38", "v37,v36", "v35,v34", "v33", "v32"} {
		want := int32(0)
		if i >= 3 {
			want = 429 // the three requests have counted for both namespaces
		}
		if got := check(version); got != want {
			t.Errorf("%s after requests of two namespaces: status %d, want %d", version, got, want)
		}
	}
}

// A denied request costs nothing in the other namespace.
func TestExtAuthz_DeniesARequestOfSeveralRoutesWithoutCounting(t *testing.T) {
	_, check := versions(t)
	for range 3 {
		check("v01")
	}
	for range 5 {
		if got := check("v00,v01"); got != 429 {
			t.Errorf("status %d, want 429", got)
		}
	}
	for i := range 3 {
		if got := check("v00"); got != 0 {
			t.Errorf("request %d of the other namespace: status %d", i, got)
		}
	}
}

// The context extension domain names the policies, so that the routes of other namespaces do not matter.
func TestExtAuthz_TheDomainOfTheGatewaySelectsTheRoutesOfARequest(t *testing.T) {
	w, _ := versions(t)
	for domain, want := range map[string][]int32{"n0": {0, 0, 0, 429}, "n1": {0, 429}, "other": {0, 0, 0, 0, 0}} {
		for i, status := range want {
			a := attributes("GET", "/any")
			a.ContextExtensions = map[string]string{"domain": domain}
			a.Request.Http.Host, a.Request.Http.Headers = "shop.example", map[string]string{"x-version": "v38,v39", "x-tenant-id": "b"}
			if got := int32(w.check(t, a).GetDeniedResponse().GetStatus().GetCode()); got != status {
				t.Errorf("domain %s, request %d: status %d, want %d", domain, i, got, status)
			}
		}
	}
}

// With encode_raw_headers, Envoy sends the lines as they are, and with the port, the limiter knows the listener.
func TestExtAuthz_ReadsLinesAndThePort(t *testing.T) {
	table := routeTable()
	table.Groups = []rules.RouteGroup{{Port: 80}, {Port: 443}}
	table.Listeners[0].Groups = []int{1}
	table.Routes = append(table.Routes, rules.Route{Namespace: "old", Target: "HTTPRoute/redirect"})
	table.Matches = append(table.Matches, rules.RouteMatch{Route: 3, Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"}})
	table.Listeners = append(table.Listeners, rules.RouteListener{Groups: []int{0}, Hosts: []rules.RouteHost{{Matches: []int{3}}}})
	index, err := matching.NewIndex(rules.Set{RouteTable: table}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, &clock{})
	e.Swap(index)
	d := newAuthEndpoint(&Options{Engine: e, Log: slog.New(slog.DiscardHandler)})
	for text, want := range map[string]string{
		`"host": "shop.example", "path": "/", "headers": {"x-blog": "1"}`:                                                              "posts@443 redirect@80",
		`"host": "shop.example", "path": "/", "headers": {"x-blog": "1,2"}`:                                                            "posts@443 redirect@80",
		`"host": "shop.example", "path": "/", "headerMap": {"headers": [{"key": "X-Blog", "rawValue": "MQ=="}]}`:                       "posts@443 redirect@80",
		`"host": "shop.example", "path": "/", "headerMap": {"headers": [{"key": "x-blog", "rawValue": "MSwy"}]}`:                       "@443 redirect@80",
		`"host": "shop.example", "path": "/", "headerMap": {"headers": [{"key": "x-blog", "value": "2"}, {"key": "b", "value": "1"}]}`: "@443 redirect@80",
	} {
		var got []string
		for _, port := range []string{"443", "80"} {
			var a authv3.AttributeContext
			attributes := `{"request": {"http": {"method": "GET", ` + text + `}}, "destination": {"address": {"socketAddress": {"portValue": ` + port + `}}}}`
			if err := protojson.Unmarshal([]byte(attributes), &a); err != nil {
				t.Fatal(err)
			}
			_, routes, err := d.parseAttributes(decoded(t, &a))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range routes {
				names = append(names, r.name)
			}
			got = append(got, strings.Join(names, "+")+"@"+port)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", text, strings.Join(got, " "), want)
		}
	}
}
