package matching_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// routed returns a rule of namespace shop for routes: "HTTPRoute/a" in shop, or "blog:HTTPRoute/a" in another namespace.
func routed(match rules.Match, routes ...string) rules.Rule {
	match.Routes = []rules.Route{}
	for _, route := range routes {
		namespace, target, found := strings.Cut(route, ":")
		if !found {
			namespace, target = "shop", route
		}
		match.Routes = append(match.Routes, rules.Route{Namespace: namespace, Target: target})
	}
	return ruleMatching(match)
}

func TestMatch_FindsTheRulesOfTheRouteThatTheGatewayNames(t *testing.T) {
	long := "HTTPRoute/" + strings.Repeat("a", 591)
	for name, test := range map[string]struct {
		rule    rules.Rule
		in, out []string
	}{
		"a route": {
			routed(rules.Match{}, "HTTPRoute/checkout"),
			[]string{"target=HTTPRoute/checkout", "target=HTTPRoute/checkout; target=HTTPRoute/checkout/pay", "target=HTTPRoute/checkout/pay", "plan=free; target=HTTPRoute/checkout", "domain=x,target=HTTPRoute/checkout"},
			[]string{"", "target=", "target=HTTPRoute/other", "target=GRPCRoute/checkout", "target=GRPCRoute/checkout/pay", "target=HTTPRoute/checkout2/pay", "target=HTTPRoute/other/checkout", "route=HTTPRoute/checkout", "target=httproute/checkout"},
		},
		"a rule of a route":    {routed(rules.Match{}, "HTTPRoute/a/pay"), []string{"target=HTTPRoute/a; target=HTTPRoute/a/pay", "target=HTTPRoute/a/pay"}, []string{"target=HTTPRoute/a", "target=HTTPRoute/a/payments"}},
		"several routes":       {routed(rules.Match{}, "HTTPRoute/a", "GRPCRoute/b"), []string{"target=HTTPRoute/a", "target=GRPCRoute/b"}, []string{"target=HTTPRoute/b"}},
		"a route and its rule": {routed(rules.Match{}, "HTTPRoute/a", "HTTPRoute/a/pay"), []string{"target=HTTPRoute/a/pay", "target=HTTPRoute/a"}, []string{"target=HTTPRoute/b/pay"}},
		"another namespace":    {routed(rules.Match{}, "blog:HTTPRoute/a"), nil, []string{"target=HTTPRoute/a"}},
		"no routes":            {routed(rules.Match{}), nil, []string{"", "target=", "target=HTTPRoute/a"}},
		"no routes, a path":    {routed(path(rules.PathPrefix, "/")), nil, []string{"", "target=HTTPRoute/a"}},
		"a path of the route":  {routed(path(rules.PathExact, "/"), "HTTPRoute/a"), []string{"target=HTTPRoute/a"}, []string{"", "target=HTTPRoute/b"}},
		"another path":         {routed(path(rules.PathPrefix, "/v1"), "HTTPRoute/a"), nil, []string{"target=HTTPRoute/a"}},
		"another method":       {routed(rules.Match{Methods: []string{"POST"}}, "HTTPRoute/a"), nil, []string{"target=HTTPRoute/a"}},
		"the longest target":   {routed(rules.Match{}, long[:600]), []string{"target=" + long[:600]}, []string{"target=" + long}},
	} {
		t.Run(name, func(t *testing.T) {
			x := index(t, test.rule)
			for _, text := range test.in {
				if got := x.Match(nil, requestWithDescriptors(text)); len(got) != 1 {
					t.Errorf("%q matched %d times, want 1", text, len(got))
				}
			}
			for _, text := range test.out {
				if got := x.Match(nil, requestWithDescriptors(text)); len(got) != 0 {
					t.Errorf("%q matched", text)
				}
			}
		})
	}
}

func TestMatch_FindsRoutesInTheDomainOfTheRequestOnly(t *testing.T) {
	x := index(t, routed(rules.Match{}, "HTTPRoute/a", "blog:HTTPRoute/a", "blog:HTTPRoute/b"))
	for domain, want := range map[string]int{"shop": 1, "blog": 1, "other": 0, "": 0} {
		r := requestWithDescriptors("target=HTTPRoute/a")
		r.Domain = domain
		if got := x.Match(nil, r); len(got) != want {
			t.Errorf("in domain %q, %d rules matched, want %d", domain, len(got), want)
		}
	}
}

func TestMatch_NamesTheMostSpecificPathOfARoute(t *testing.T) {
	m := path(rules.PathPrefix, "/", "/v1")
	x := index(t, routed(m, "HTTPRoute/a", "HTTPRoute/a/pay"))
	r := requestWithDescriptors("target=HTTPRoute/a; target=HTTPRoute/a/pay")
	r.Path = "/v1/x"
	if got := x.Match(nil, r); len(got) != 1 || got[0].Endpoint != "/v1" {
		t.Errorf("matched %+v, want endpoint /v1 once", got)
	}
}

// Descriptors without an HTTP request have no headers: all of them would share the counter of requests without an identifier.
func TestKinds_ARouteWithAnIdentifierOfHTTPMatchesNoDescriptorsAlone(t *testing.T) {
	r := requestWithDescriptors("target=HTTPRoute/a")
	r.NoHTTP = true
	for from, want := range map[rules.IdentifierSource]int{rules.FromHeader: 0, rules.FromClientIP: 1} {
		one := routed(rules.Match{}, "HTTPRoute/a")
		one.Identifier = rules.Identifier{From: from, Name: "x-user"}
		if got := index(t, one).Match(nil, r); len(got) != want {
			t.Errorf("identifier from %s: %d rules matched, want %d", from, len(got), want)
		}
	}
}

func TestExplain_NamesARouteThatDoesNotMatch(t *testing.T) {
	one := routed(path(rules.PathPrefix, "/v1"), "HTTPRoute/a")
	for name, test := range map[string]struct {
		text, path string
		want       matching.Condition
	}{
		"nothing fails": {"target=HTTPRoute/a", "/v1", matching.NoCondition},
		"no route":      {"plan=free", "/v1", matching.ConditionRoutes},
		"no descriptor": {"", "/v1", matching.ConditionRoutes},
		"another route": {"target=HTTPRoute/b", "/v1", matching.ConditionRoutes},
		"another path":  {"target=HTTPRoute/a", "/v2", matching.ConditionPaths},
	} {
		r := requestWithDescriptors(test.text)
		r.Path = test.path
		if test.text == "" {
			r.Descriptors = nil // the request is of a kind that no rule for routes matches
		}
		if got := explainOne(t, one, r); got.Failed != test.want {
			t.Errorf("%s: failed condition %d, want %d", name, got.Failed, test.want)
		}
	}
}

func TestNewIndex_RejectsRoutesWithOtherConditionsOfTheIndex(t *testing.T) {
	anywhere := routed(rules.Match{}, "HTTPRoute/a")
	anywhere.Domain, anywhere.AllDomains = "", true
	for name, r := range map[string]rules.Rule{
		"hosts":        routed(rules.Match{Hosts: []string{"a.example"}}, "HTTPRoute/a"),
		"descriptors":  routed(rules.Match{Descriptors: descriptorMatches("a=1")}, "HTTPRoute/a"),
		"all domains":  anywhere,
		"no namespace": routed(rules.Match{}, ":HTTPRoute/a"),
		"no name":      routed(rules.Match{}, "HTTPRoute"),
	} {
		if _, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{r}}, "", "weir:"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A rule for no routes matches nothing, and a rule without routes matches everything: encoding must not confuse them.
func TestEncode_KeepsAnEmptyListOfRoutes(t *testing.T) {
	list := []rules.Rule{routed(rules.Match{}), ruleMatching(rules.Match{}), routed(rules.Match{}, "HTTPRoute/a")}
	for i := range list {
		list[i].Policy = "shop/" + string(rune('a'+i))
	}
	data, rev := rules.Encode(rules.Set{Rules: list})
	set, err := rules.DecodeAs(data, rev)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range list {
		if got := set.Rules[i].Match.Routes; (got == nil) != (want.Match.Routes == nil) || !slices.Equal(got, want.Match.Routes) {
			t.Errorf("rule %d has the routes %#v, want %#v", i, got, want.Match.Routes)
		}
	}
}
