package matching_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func explainOne(t *testing.T, r rules.Rule, request *rules.Request) matching.Explained {
	t.Helper()
	list := index(t, r).Explain(request)
	if len(list) != 1 || list[0].Rule.Policy != r.Policy {
		t.Fatalf("explains %d rules", len(list))
	}
	return list[0]
}

func TestExplain_NamesTheFirstConditionThatFails(t *testing.T) {
	all := rules.Match{
		Hosts: []string{"*.a.example"}, Paths: path(rules.PathPrefix, "/v1").Paths, Methods: []string{"GET"},
		Headers: []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "a"}, {Type: rules.HeaderPresent, Name: "b"}},
		CIDRs:   []string{"192.0.2.0/24"}, ExceptCIDRs: []string{"192.0.2.128/25"}, Expression: `request.method == "GET"`,
	}
	all.Expression = `request.query[?"x"].orValue([]).size() > 0`
	met := func() *rules.Request {
		r := request("GET b.a.example /v1/x a=1 b=1")
		r.ClientIP, r.Query = netip.MustParseAddr("192.0.2.1"), map[string][]string{"x": {"1"}}
		return r
	}
	for name, test := range map[string]struct {
		change func(*rules.Request)
		want   matching.Condition
		header int
	}{
		"nothing fails":     {func(*rules.Request) {}, matching.NoCondition, 0},
		"domain":            {func(r *rules.Request) { r.Domain = "elsewhere" }, matching.ConditionDomain, 0},
		"no domain":         {func(r *rules.Request) { r.Domain = "" }, matching.ConditionDomain, 0},
		"kind":              {func(r *rules.Request) { r.NoHTTP = true }, matching.ConditionKind, 0},
		"host":              {func(r *rules.Request) { r.Host = "a.example" }, matching.ConditionHosts, 0},
		"host and path":     {func(r *rules.Request) { r.Host, r.Path = "a.example", "/" }, matching.ConditionHosts, 0},
		"path":              {func(r *rules.Request) { r.Path = "/v10" }, matching.ConditionPaths, 0},
		"path and method":   {func(r *rules.Request) { r.Path, r.Method = "/v10", "PUT" }, matching.ConditionPaths, 0},
		"method":            {func(r *rules.Request) { r.Method = "PUT" }, matching.ConditionMethods, 0},
		"the first header":  {func(r *rules.Request) { delete(r.Headers, "a") }, matching.ConditionHeaders, 0},
		"the second header": {func(r *rules.Request) { delete(r.Headers, "b") }, matching.ConditionHeaders, 1},
		"address":           {func(r *rules.Request) { r.ClientIP = netip.MustParseAddr("192.0.3.1") }, matching.ConditionCIDRs, 0},
		"excepted address":  {func(r *rules.Request) { r.ClientIP = netip.MustParseAddr("192.0.2.200") }, matching.ConditionExceptCIDRs, 0},
		"expression":        {func(r *rules.Request) { r.Query = nil }, matching.ConditionExpression, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := met()
			test.change(r)
			got := explainOne(t, ruleMatching(all), r)
			if got.Failed != test.want || got.Header != test.header || (got.Matched != nil) != (test.want == matching.NoCondition) {
				t.Errorf("failed condition %d at %d, matched %v; want condition %d at %d", got.Failed, got.Header, got.Matched != nil, test.want, test.header)
			}
		})
	}
}

func TestExplain_NamesDescriptors(t *testing.T) {
	byEntry := ruleMatching(rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "generic_key", Value: "login"}}})
	withPath := byEntry
	withPath.Match.Paths = path(rules.PathExact, "/login").Paths
	for _, r := range []rules.Rule{byEntry, withPath} {
		in := request("GET - /login")
		in.Descriptors = []rules.Descriptor{{{Key: "generic_key", Value: "logout"}}}
		if got := explainOne(t, r, in); got.Failed != matching.ConditionDescriptors {
			t.Errorf("failed condition %d, want descriptors", got.Failed)
		}
		in.Descriptors[0][0].Value = "login"
		if got := explainOne(t, r, in); got.Failed != matching.NoCondition || got.Matched == nil {
			t.Errorf("failed condition %d of a rule that matches", got.Failed)
		}
	}
}

func TestExplain_NamesTheConditionsOfWrites(t *testing.T) {
	match := matchCreates("/pods")
	match.Users, match.Groups = []string{"alice", "bob", "carol"}, []string{"dev"}
	match.ExceptUsers, match.ExceptGroups = []string{"bob"}, []string{"ops"}
	match.Namespaces = []string{"shop", "blog"}
	match.NamespaceSelector = rules.Selector{{Key: "tier", Operator: rules.SelectorIn, Values: []string{"free"}}}
	r := writeRule("_cluster/it", match)
	r.Match.Expression = `request.name == ""`
	r.Identifier = rules.Identifier{From: rules.FromServiceAccount}
	x := indexSet(t, rules.Set{Rules: []rules.Rule{r}, Namespaces: []rules.Namespace{
		{Name: "shop", Labels: map[string]string{"tier": "free"}}, {Name: "blog", Labels: map[string]string{"tier": "paid"}},
	}})
	for text, want := range map[string]matching.Condition{
		"UPDATE /pods shop alice dev":     matching.ConditionResources,
		"CREATE /secrets shop alice dev":  matching.ConditionResources,
		"CREATE /pods away alice dev":     matching.ConditionNamespaces,
		"CREATE /pods shop mallory dev":   matching.ConditionUsers,
		"CREATE /pods shop alice guest":   matching.ConditionGroups,
		"CREATE /pods shop bob dev":       matching.ConditionExceptUsers,
		"CREATE /pods shop alice dev ops": matching.ConditionExceptGroups,
		"CREATE /pods blog alice dev":     matching.ConditionNamespaceSelector,
		"CREATE /pods shop alice dev":     matching.ConditionIdentifier,
	} {
		if got := x.Explain(writeRequest(text)); got[0].Failed != want {
			t.Errorf("%s: failed condition %d, want %d", text, got[0].Failed, want)
		}
	}
	if got := x.Explain(request("GET - /")); got[0].Failed != matching.ConditionKind {
		t.Errorf("an HTTP request: failed condition %d, want the kind", got[0].Failed)
	}
}

func TestExplain_NamesThePolicyThatReplacesADefault(t *testing.T) {
	fallback, own, other := rule("_cluster/default"), replacing(rule("shop/own"), "default"), replacing(rule("shop/post"), "default")
	fallback.Domain, fallback.AllDomains, fallback.Default = "", true, true
	other.Match.Methods = []string{"POST"}
	x := index(t, fallback, own, other)
	got := x.Explain(request("GET - /"))
	if e := got[0]; e.ReplacedBy != "shop/own" || e.Matched == nil || e.Charged() || e.LeftOut {
		t.Errorf("%s: %+v, want replaced by shop/own", e.Rule.Policy, e)
	}
	if e := got[1]; !e.Charged() || e.ReplacedBy != "" {
		t.Errorf("%s: %+v, want charged", e.Rule.Policy, e)
	}
}

func TestExplain_ReportsRulesThatAreLeftOut(t *testing.T) {
	var list []rules.Rule
	for i := range 33 {
		list = append(list, rule(fmt.Sprintf("shop/%02d", i)))
	}
	for i, e := range index(t, list...).Explain(request("GET - /")) {
		if e.LeftOut != (i == 32) || e.Charged() == (i == 32) {
			t.Errorf("%s: left out %v, charged %v", e.Rule.Policy, e.LeftOut, e.Charged())
		}
	}
}

// TestExplain_AgreesWithMatch compares all rules that Explain reports as charged with those of Match. A rule that does not match has a
// failed condition, and one that matches does not.
func TestExplain_AgreesWithMatch(t *testing.T) {
	word := rapid.SampledFrom([]string{"/", "/a", "/a/b", "/b"})
	rapid.Check(t, func(rt *rapid.T) {
		var list []rules.Rule
		for i := range rapid.IntRange(1, 8).Draw(rt, "rules") {
			r := rule(fmt.Sprintf("shop/%02d", i))
			r.Match.Hosts = rapid.SliceOfN(rapid.SampledFrom([]string{"a.example", "*.a.example", "*.example"}), 0, 2).Draw(rt, "hosts")
			r.Match.Methods = rapid.SliceOfN(rapid.SampledFrom([]string{"GET", "PUT"}), 0, 1).Draw(rt, "methods")
			for range rapid.IntRange(0, 2).Draw(rt, "paths") {
				kind := rapid.SampledFrom([]rules.PathMatchType{rules.PathExact, rules.PathPrefix, rules.PathRegex}).Draw(rt, "type")
				r.Match.Paths = append(r.Match.Paths, rules.PathMatch{Type: kind, Value: word.Draw(rt, "path")})
			}
			if rapid.IntRange(0, 3).Draw(rt, "descriptor") == 0 {
				r.Match.Descriptors = []rules.DescriptorMatch{{Key: "k", Value: rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "value")}}
			}
			list = append(list, r)
		}
		r := request("GET " + rapid.SampledFrom([]string{"a.example", "b.a.example", "-"}).Draw(rt, "host") + " " + word.Draw(rt, "path"))
		for _, value := range rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2"}), 0, 2).Draw(rt, "descriptors") {
			r.Descriptors = append(r.Descriptors, rules.Descriptor{{Key: "k", Value: value}})
		}
		x := index(t, list...)
		var want, got []string
		for _, m := range x.Match(nil, r) {
			want = append(want, m.Rule.Policy)
		}
		for _, e := range x.Explain(r) {
			if e.Charged() {
				got = append(got, e.Rule.Policy)
			}
			if e.Charged() == (e.Failed != matching.NoCondition) {
				rt.Fatalf("%s: charged %v, failed condition %d", e.Rule.Policy, e.Charged(), e.Failed)
			}
		}
		if !slices.Equal(want, got) {
			rt.Fatalf("%+v: Match finds %v, Explain %v", r, want, got)
		}
	})
}
