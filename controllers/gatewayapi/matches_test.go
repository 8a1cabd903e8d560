package gatewayapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestHTTPMatches_HaveTheDefaultsOfTheGatewayAPI(t *testing.T) {
	got := httpMatches("pay", []gatewayv1.HTTPRouteMatch{
		{Path: &gatewayv1.HTTPPathMatch{Value: new("/a")}},
		{
			Path:   &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchExact), Value: new("/b")},
			Method: new(gatewayv1.HTTPMethodPost),
			Headers: []gatewayv1.HTTPHeaderMatch{
				{Name: "X-Plan", Value: "free"}, {Name: "x-plan", Value: "paid"}, {Type: new(gatewayv1.HeaderMatchRegularExpression), Name: "x-b", Value: "c.*"},
			},
			QueryParams: []gatewayv1.HTTPQueryParamMatch{{Name: "Q", Value: "1"}, {Name: "q", Type: new(gatewayv1.QueryParamMatchRegularExpression), Value: "2"}},
		},
	})
	var matches []rules.RouteMatch
	for _, m := range got {
		if m.Rule != "pay" {
			t.Errorf("rule %q", m.Rule)
		}
		matches = append(matches, m.RouteMatch)
	}
	want := []rules.RouteMatch{
		{Path: rules.PathMatch{Type: "PathPrefix", Value: "/a"}},
		{
			Path: rules.PathMatch{Type: "Exact", Value: "/b"}, Method: "POST",
			Headers: []rules.HeaderMatch{{Type: "Exact", Name: "x-plan", Value: "free"}, {Type: "RegularExpression", Name: "x-b", Value: "c.*"}},
			Query:   []rules.HeaderMatch{{Type: "Exact", Name: "Q", Value: "1"}, {Type: "RegularExpression", Name: "q", Value: "2"}},
		},
	}
	if diff := cmp.Diff(want, matches); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestGRPCPath_IsThePathOfTheCall(t *testing.T) {
	method := func(kind, service, name string) *gatewayv1.GRPCMethodMatch {
		m := &gatewayv1.GRPCMethodMatch{}
		for _, part := range []struct {
			text string
			of   **string
		}{{service, &m.Service}, {name, &m.Method}} {
			if part.text != "" {
				*part.of = &part.text
			}
		}
		if kind != "" {
			m.Type = new(gatewayv1.GRPCMethodMatchType(kind))
		}
		return m
	}
	for name, test := range map[string]struct {
		method *gatewayv1.GRPCMethodMatch
		want   string
	}{
		"no method":      {nil, "PathPrefix / "},
		"a service":      {method("", "shop.Stock", ""), "PathPrefix /shop.Stock "},
		"a method":       {method("Exact", "", "Get"), "PathPrefix / /Get"},
		"both":           {method("Exact", "shop.Stock", "Get"), "Exact /shop.Stock/Get "},
		"neither":        {method("Exact", "", ""), "PathPrefix / "},
		"an expression":  {method("RegularExpression", "shop.*", "Get|Put"), "RegularExpression /shop.*/Get|Put "},
		"of the service": {method("RegularExpression", "shop.*", ""), "RegularExpression /shop.*/[A-Za-z_][A-Za-z_0-9.]* "},
		"of the method":  {method("RegularExpression", "", "Get"), "RegularExpression /[A-Za-z_][A-Za-z_0-9.]*/Get "},
	} {
		path, suffix := grpcPath(test.method)
		if got := string(path.Type) + " " + path.Value + " " + suffix; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
