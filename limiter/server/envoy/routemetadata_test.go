package envoy

import (
	"log/slog"
	"slices"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// routed returns the attributes of a request with context extensions and the resources that Envoy Gateway names in route metadata.
func routed(t *testing.T, extensions, resources string) *authv3.AttributeContext {
	t.Helper()
	var a authv3.AttributeContext
	text := `{"context_extensions": ` + extensions + `, "route_metadata_context": {"filter_metadata": {"envoy-gateway": {"resources": ` + resources + `}}}}`
	if err := protojson.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return &a
}

func TestParseAttributes_ReadsTheRouteThatTheGatewayNames(t *testing.T) {
	const checkout = `[{"kind": "HTTPRoute", "namespace": "shop", "name": "checkout", "annotations": {"a": "b"}}]`
	target := func(values ...string) (all []rules.Descriptor) {
		for _, value := range values {
			all = append(all, rules.Descriptor{{Key: "target", Value: value}})
		}
		return all
	}
	for name, test := range map[string]struct {
		extensions, resources string
		domain                string
		descriptors           []rules.Descriptor
	}{
		"a route":         {`{}`, checkout, "shop", target("HTTPRoute/checkout")},
		"a rule":          {`{}`, `[{"kind": "GRPCRoute", "namespace": "shop", "name": "pay", "sectionName": "fast"}]`, "shop", target("GRPCRoute/pay", "GRPCRoute/pay/fast")},
		"the first route": {`{}`, `[{"kind": "Gateway"}, {"kind": "HTTPRoute", "namespace": "a", "name": "b"}, {"kind": "HTTPRoute", "namespace": "c", "name": "d"}]`, "a", target("HTTPRoute/b")},
		"other extensions": {
			`{"plan": "free"}`, checkout, "shop", append([]rules.Descriptor{{{Key: "plan", Value: "free"}}}, target("HTTPRoute/checkout")...),
		},
		"the same domain":    {`{"domain": "shop"}`, checkout, "shop", target("HTTPRoute/checkout")},
		"another domain":     {`{"domain": "bank"}`, checkout, "bank", nil},
		"an empty domain":    {`{"domain": ""}`, checkout, "shop", target("HTTPRoute/checkout")},
		"an own target":      {`{"target": "HTTPRoute/other"}`, checkout, "shop", target("HTTPRoute/other")},
		"no kind":            {`{}`, `[{"namespace": "shop", "name": "checkout"}]`, "fallback", nil},
		"no namespace":       {`{}`, `[{"kind": "HTTPRoute", "name": "checkout"}]`, "fallback", nil},
		"no name":            {`{}`, `[{"kind": "HTTPRoute", "namespace": "shop"}]`, "fallback", nil},
		"no list":            {`{}`, `{"kind": "HTTPRoute", "namespace": "shop", "name": "checkout"}`, "fallback", nil},
		"no resources":       {`{}`, `[]`, "fallback", nil},
		"a name of a number": {`{}`, `[{"kind": "HTTPRoute", "namespace": "shop", "name": 7}]`, "fallback", nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newAuthEndpoint(&Options{Engine: &engine.Engine{}, DefaultDomain: "fallback", Log: slog.New(slog.DiscardHandler)})
			got, _, err := d.parseAttributes(decoded(t, routed(t, test.extensions, test.resources)))
			if err != nil {
				t.Fatal(err)
			}
			if got.Request.Domain != test.domain {
				t.Errorf("domain %s, want %s", got.Request.Domain, test.domain)
			}
			if diff := cmp.Diff(test.descriptors, got.Request.Descriptors); diff != "" {
				t.Errorf("descriptors (-want +got):\n%s", diff)
			}
		})
	}
}

// Other metadata of the route names nothing, and neither does metadata that filters add to a request.
func TestParseAttributes_ReadsTheRouteFromOnePlace(t *testing.T) {
	for _, text := range []string{
		`{"route_metadata_context": {"filter_metadata": {"other": {"resources": [{"kind": "HTTPRoute", "namespace": "shop", "name": "checkout"}]}}}}`,
		`{"metadata_context": {"filter_metadata": {"envoy-gateway": {"resources": [{"kind": "HTTPRoute", "namespace": "shop", "name": "checkout"}]}}}}`,
	} {
		var a authv3.AttributeContext
		if err := protojson.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		d := newAuthEndpoint(&Options{Engine: &engine.Engine{}, Log: slog.New(slog.DiscardHandler)})
		got, _, err := d.parseAttributes(decoded(t, &a))
		if err != nil || got.Request.Domain != "" || len(got.Request.Descriptors) > 0 {
			t.Errorf("%s: %+v, %v", text, got.Request, err)
		}
	}
}

// A policy for a route counts the requests of this route only.
func TestExtAuthz_LimitsTheRouteThatTheGatewayNames(t *testing.T) {
	perRoute := search()
	perRoute.Match = rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "target", Value: "HTTPRoute/checkout"}}}
	w := limiterOf(t, perRoute)
	var codes []int32
	for _, name := range []string{"checkout", "checkout", "checkout", "other"} {
		a := attributes("GET", "/any")
		from := routed(t, `{}`, `[{"kind": "HTTPRoute", "namespace": "shop", "name": "`+name+`", "sectionName": "all"}]`)
		a.ContextExtensions, a.RouteMetadataContext = nil, from.GetRouteMetadataContext()
		codes = append(codes, w.check(t, a).GetStatus().GetCode())
	}
	if want := []int32{0, 0, 8, 0}; !slices.Equal(codes, want) {
		t.Errorf("%v, want %v", codes, want)
	}
}

// routeTable has routes of two namespaces for the host shop.example.
func routeTable() *rules.RouteTable {
	return &rules.RouteTable{
		Routes: []rules.Route{
			{Namespace: "shop", Target: "HTTPRoute/checkout/pay"}, {Namespace: "shop", Target: "HTTPRoute/checkout/list"}, {Namespace: "blog", Target: "GRPCRoute/posts"},
		},
		Matches: []rules.RouteMatch{
			{Route: 0, Path: rules.PathMatch{Type: rules.PathExact, Value: "/pay"}, Method: "POST"},
			{Route: 1, Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/pay"}},
			{Route: 2, Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"}, Headers: []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-blog", Value: "1"}}},
		},
		Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Host: "shop.example", Matches: []int{0, 1, 2}}}}},
	}
}

func TestParseAttributes_FindsTheRouteThatTheGatewayDoesNotName(t *testing.T) {
	target := func(values ...string) (all []rules.Descriptor) {
		for _, value := range values {
			all = append(all, rules.Descriptor{{Key: "target", Value: value}})
		}
		return all
	}
	index, err := matching.NewIndex(rules.Set{RouteTable: routeTable()}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, &clock{})
	e.Swap(index)
	for name, test := range map[string]struct {
		http, extensions, metadata string
		domain                     string
		descriptors                []rules.Descriptor
	}{
		"a rule of a route": {`{"method": "POST", "host": "Shop.example:80", "path": "/pay"}`, `{}`, `[]`, "shop", target("HTTPRoute/checkout", "HTTPRoute/checkout/pay")},
		"another rule":      {`{"method": "GET", "host": "shop.example", "path": "/pay?a=b"}`, `{}`, `[]`, "shop", target("HTTPRoute/checkout", "HTTPRoute/checkout/list")},
		"a route by a header": {
			`{"method": "GET", "host": "shop.example", "path": "/", "headers": {"x-blog": "1"}}`, `{}`, `[]`, "blog", target("GRPCRoute/posts"),
		},
		"the path is not normalized": {`{"method": "GET", "host": "shop.example", "path": "/%70ay"}`, `{}`, `[]`, "fallback", nil},
		"no route":                   {`{"method": "GET", "host": "shop.example", "path": "/"}`, `{}`, `[]`, "fallback", nil},
		"a host with a trailing dot": {`{"method": "POST", "host": "shop.example.:80", "path": "/pay"}`, `{}`, `[]`, "fallback", nil},
		"another host":               {`{"method": "POST", "host": "other.example", "path": "/pay"}`, `{}`, `[]`, "fallback", nil},
		"the same domain": {
			`{"method": "POST", "host": "shop.example", "path": "/pay"}`, `{"domain": "shop"}`, `[]`, "shop", target("HTTPRoute/checkout", "HTTPRoute/checkout/pay"),
		},
		"another domain": {`{"method": "POST", "host": "shop.example", "path": "/pay"}`, `{"domain": "bank"}`, `[]`, "bank", nil},
		"a named route": {
			`{"method": "POST", "host": "shop.example", "path": "/pay"}`, `{}`, `[{"kind": "HTTPRoute", "namespace": "blog", "name": "b"}]`, "blog", target("HTTPRoute/b"),
		},
		"a target":            {`{"method": "POST", "host": "shop.example", "path": "/pay"}`, `{"domain": "shop", "target": "HTTPRoute/x"}`, `[]`, "shop", target("HTTPRoute/x")},
		"a target, no domain": {`{"method": "POST", "host": "shop.example", "path": "/pay"}`, `{"target": "HTTPRoute/x"}`, `[]`, "fallback", target("HTTPRoute/x")},
		"a header with a domain and a target": {
			`{"method": "GET", "host": "other.example", "path": "/pay", "headers": {"domain": "shop", "target": "HTTPRoute/checkout"}}`, `{}`, `[]`, "fallback", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := routed(t, test.extensions, test.metadata)
			a.Request = &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{}}
			if err := protojson.Unmarshal([]byte(test.http), a.GetRequest().GetHttp()); err != nil {
				t.Fatal(err)
			}
			d := newAuthEndpoint(&Options{Engine: e, DefaultDomain: "fallback", Log: slog.New(slog.DiscardHandler)})
			got, _, err := d.parseAttributes(decoded(t, a))
			if err != nil {
				t.Fatal(err)
			}
			if got.Request.Domain != test.domain {
				t.Errorf("domain %s, want %s", got.Request.Domain, test.domain)
			}
			if diff := cmp.Diff(test.descriptors, got.Request.Descriptors); diff != "" {
				t.Errorf("descriptors (-want +got):\n%s", diff)
			}
		})
	}
}
