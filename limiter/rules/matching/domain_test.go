package matching_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// clusterRule returns a rule of a ClusterRateLimitPolicy for these domains, or for all domains if there are no arguments.
func clusterRule(name string, domains ...string) rules.Rule {
	r := rule("_cluster/" + name)
	r.Domain, r.Domains, r.AllDomains = "", domains, len(domains) == 0
	return r
}

func withoutDomain(r rules.Rule) rules.Rule {
	r.Domain = ""
	return r
}

// replacing returns r as a rule that replaces the defaults of these ClusterRateLimitPolicies.
func replacing(r rules.Rule, names ...string) rules.Rule {
	for _, name := range names {
		r.ReplacesDefaults = append(r.ReplacesDefaults, "_cluster/"+name)
	}
	return r
}

// asDefault returns r as a default, which rules of a single domain can replace.
func asDefault(r rules.Rule) rules.Rule {
	r.Default = true
	return r
}

func onAxis(axis string, r rules.Rule) rules.Rule {
	r.Axis = axis
	return r
}

func inShadow(r rules.Rule) rules.Rule {
	r.Shadow = true
	return r
}

// matchedPolicies returns the policies of the rules that match a request of domain.
func matchedPolicies(x *matching.Index, domain, path string) []string {
	var names []string
	for _, m := range x.NameEndpoints(x.Match(nil, &rules.Request{Domain: domain, Method: "GET", Path: path}), false) {
		names = append(names, m.Rule.Policy)
	}
	return names
}

func TestMatch_AppliesRulesToSeveralDomains(t *testing.T) {
	for name, tc := range map[string]struct {
		rules  []rules.Rule
		domain string
		want   []string
	}{
		"a rule for all domains matches in a domain without policies": {
			[]rules.Rule{clusterRule("all"), rule("shop/own")}, "unknown", []string{"_cluster/all"},
		},
		"a rule for all domains matches together with the domain's own": {[]rules.Rule{clusterRule("all"), rule("shop/own")}, "shop", []string{"_cluster/all", "shop/own"}},
		"only a rule for all domains matches a request without a domain": {
			[]rules.Rule{clusterRule("all"), clusterRule("some", "shop"), withoutDomain(rule("none/own")), rule("shop/own")}, "", []string{"_cluster/all"},
		},
		"a rule for some domains matches in each of them": {
			[]rules.Rule{clusterRule("some", "billing", "shop"), rule("shop/own")}, "billing", []string{"_cluster/some"},
		},
		"a rule for some domains matches in no other":                   {[]rules.Rule{clusterRule("some", "billing", "shop")}, "search", nil},
		"a default matches where no other rule does":                    {[]rules.Rule{asDefault(clusterRule("all")), rule("shop/own")}, "billing", []string{"_cluster/all"}},
		"the domain's own rule replaces a default for all domains":      {[]rules.Rule{asDefault(clusterRule("all")), replacing(rule("shop/own"), "all")}, "shop", []string{"shop/own"}},
		"the domain's own rule replaces a default for some domains":     {[]rules.Rule{asDefault(clusterRule("some", "shop")), replacing(rule("shop/own"), "some")}, "shop", []string{"shop/own"}},
		"a rule that does not name a default does not replace it":       {[]rules.Rule{asDefault(clusterRule("all")), replacing(rule("shop/own"), "more")}, "shop", []string{"_cluster/all", "shop/own"}},
		"a rule on another axis replaces a default that it names":       {[]rules.Rule{asDefault(clusterRule("all")), replacing(onAxis("User", rule("shop/own")), "all")}, "shop", []string{"shop/own"}},
		"a cluster rule that is no default is not replaced":             {[]rules.Rule{clusterRule("all"), replacing(rule("shop/own"), "all")}, "shop", []string{"_cluster/all", "shop/own"}},
		"a shadow rule, which never denies, does not replace a default": {[]rules.Rule{asDefault(clusterRule("all")), replacing(inShadow(rule("shop/own")), "all")}, "shop", []string{"_cluster/all", "shop/own"}},
		"a cluster rule replaces a default that it names":               {[]rules.Rule{replacing(clusterRule("always", "shop"), "all"), asDefault(clusterRule("all"))}, "shop", []string{"_cluster/always"}},
		"a cluster rule does not replace a default":                     {[]rules.Rule{clusterRule("always"), asDefault(clusterRule("all"))}, "shop", []string{"_cluster/all", "_cluster/always"}},
		"a default does not replace another default":                    {[]rules.Rule{asDefault(clusterRule("all")), asDefault(clusterRule("more"))}, "shop", []string{"_cluster/all", "_cluster/more"}},
		"one rule replaces several defaults":                            {[]rules.Rule{asDefault(clusterRule("all")), asDefault(clusterRule("more")), asDefault(clusterRule("user")), replacing(rule("shop/own"), "all", "more")}, "shop", []string{"_cluster/user", "shop/own"}},
	} {
		t.Run(name, func(t *testing.T) {
			slices.SortFunc(tc.rules, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
			if diff := cmp.Diff(tc.want, matchedPolicies(index(t, tc.rules...), tc.domain, "/")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMatch_DropsADefaultOnlyIfAnotherRuleMatchesTheRequest(t *testing.T) {
	own := replacing(rule("shop/own"), "all")
	own.Match = path(rules.PathPrefix, "/v1")
	x := index(t, asDefault(clusterRule("all")), own)
	for path, want := range map[string]string{"/v1/search": "shop/own", "/v2/search": "_cluster/all"} {
		if got := matchedPolicies(x, "shop", path); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
}

// A client must not replace a strict default by a lax rule whose condition it makes too expensive to evaluate.
func TestMatch_KeepsADefaultIfTheMatchOfAnotherRuleIsUncertain(t *testing.T) {
	const costly = "/(a|b|ab)*x"
	long := "/" + strings.Repeat("ab", 5<<10)
	plan := rules.HeaderMatch{Name: "x-plan", Type: rules.HeaderRegex, Value: costly}
	size := rules.HeaderMatch{Name: "x-size", Type: rules.HeaderPresent}
	for name, tc := range map[string]struct {
		match              rules.Match
		certain, uncertain string
	}{
		"a header":            {header(plan), "GET - / x-plan=/abx", "GET - / x-plan=" + long},
		"one of two headers":  {rules.Match{Headers: []rules.HeaderMatch{plan, size}}, "GET - / x-size=1 x-plan=/abx", "GET - / x-size=1 x-plan=" + long},
		"a path":              {path(rules.PathRegex, costly), "GET - /abx", "GET - " + long},
		"an expression":       {rules.Match{Expression: `int(request.headers["x-size"]) > 100`}, "GET - / x-size=101", "GET - / x-size=many"},
		"a header, not a CEL": {rules.Match{Headers: []rules.HeaderMatch{plan}, Expression: `request.method == "GET"`}, "GET - / x-plan=/abx", "GET - / x-plan=" + long},
	} {
		t.Run(name, func(t *testing.T) {
			own := replacing(rule("shop/own"), "all")
			own.Match = tc.match
			x := index(t, asDefault(clusterRule("all")), own)
			wantPolicies(t, x, request(tc.certain), "shop/own")
			wantPolicies(t, x, request(tc.uncertain), "_cluster/all", "shop/own")
		})
	}
}

func TestMatch_KeepsADefaultForWritesIfTheMatchOfAnotherRuleIsUncertain(t *testing.T) {
	own := replacing(writeRule("shop/own", matchCreates("/pods")), "all")
	own.Match.Expression = `int(request.name) > 100`
	x := index(t, asDefault(writeRule("_cluster/all", matchCreates("/pods"))), own)
	for name, want := range map[string][]string{"101": {"shop/own"}, "many": {"_cluster/all", "shop/own"}, "99": {"_cluster/all"}} {
		r := writeRequest("CREATE /pods shop alice")
		r.Kubernetes.Name = name
		wantPolicies(t, x, r, want...)
	}
}

func wantPolicies(t *testing.T, x *matching.Index, r *rules.Request, want ...string) {
	t.Helper()
	var got []string
	for _, m := range x.Match(nil, r) {
		got = append(got, m.Rule.Policy)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The same rule can match by one path and be uncertain by another.
func TestMatch_DropsADefaultIfOneOfSeveralPathsMatches(t *testing.T) {
	own := replacing(rule("shop/own"), "all")
	own.Match = path(rules.PathRegex, "/(a?){240}x", "/a+") // a short text takes the first more than all steps
	matched := index(t, asDefault(clusterRule("all")), own).Match(nil, request("GET - /"+strings.Repeat("a", 30)))
	if len(matched) != 1 || matched[0].Rule.Policy != "shop/own" || matched[0].Endpoint != "/a+" {
		t.Errorf("matched %+v, want shop/own by the second path", matched)
	}
}

func TestMatch_KeepsThePreviousElementsOfTheSlice(t *testing.T) {
	x := index(t, asDefault(clusterRule("all")), replacing(rule("shop/own"), "all"))
	request := &rules.Request{Domain: "billing", Path: "/"}
	dst := x.Match(x.Match(nil, request), &rules.Request{Domain: "shop", Path: "/"})
	var got []string
	for _, m := range dst {
		got = append(got, m.Rule.Policy)
	}
	if diff := cmp.Diff([]string{"_cluster/all", "shop/own"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMatch_CountsNoPathsForADroppedDefault(t *testing.T) {
	all := asDefault(clusterRule("all"))
	all.PerEndpoint = true
	x := index(t, all, replacing(rule("shop/own"), "all"))
	for i := range 1100 { // more than the number of paths that a rule counts separately
		matchedPolicies(x, "shop", "/"+strings.Repeat("x", i))
	}
	matched := x.NameEndpoints(x.Match(nil, &rules.Request{Domain: "billing", Path: "/v1"}), false)
	if len(matched) != 1 || matched[0].Endpoint != "/v1" {
		t.Errorf("got %+v, want endpoint /v1", matched)
	}
}

// TestMatch_AgreesWithTheDefinitionOfDomainsAndDefaults compares the index with the definition in Rule:
// it matches each rule alone, then removes the replaced defaults.
func TestMatch_AgreesWithTheDefinitionOfDomainsAndDefaults(t *testing.T) {
	domains := []string{"billing", "search", "shop"}
	rapid.Check(t, func(t *rapid.T) {
		var list []rules.Rule
		for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
			name := string(rune('a' + i))
			r := rule(rapid.SampledFrom(domains).Draw(t, "domain") + "/" + name)
			if rapid.Bool().Draw(t, "cluster rule") {
				r = clusterRule(name, rapid.SliceOfNDistinct(rapid.SampledFrom(domains), 0, 2, rapid.ID).Draw(t, "domains")...)
				r.Default = rapid.Bool().Draw(t, "default")
			} else if rapid.Bool().Draw(t, "on a Gateway") {
				r = inherited(r, rapid.SliceOfNDistinct(rapid.SampledFrom(domains), 1, 2, rapid.ID).Draw(t, "namespaces of the routes")...)
			}
			if !r.Default {
				r = replacing(r, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2, rapid.ID).Draw(t, "replaces")...)
			}
			r.Shadow = rapid.Bool().Draw(t, "shadow")
			if rapid.Bool().Draw(t, "on a path") {
				r.Match.Paths = path(rules.PathPrefix, "/v1").Paths
			}
			list = append(list, r)
		}
		slices.SortFunc(list, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
		domain := rapid.SampledFrom(append(domains, "unknown")).Draw(t, "domain of the request")
		requestPath := rapid.SampledFrom([]string{"/v1/x", "/v2"}).Draw(t, "path of the request")

		matches := func(r rules.Rule) bool {
			inDomain := r.AllDomains || len(r.Domains) == 0 && r.Domain == domain || slices.Contains(r.Domains, domain)
			return inDomain && (len(r.Match.Paths) == 0 || requestPath == "/v1/x")
		}
		var want []string
		for _, r := range list {
			replaced := r.Default && slices.ContainsFunc(list, func(o rules.Rule) bool {
				return !o.Default && slices.Contains(o.ReplacesDefaults, r.Policy) && !o.Shadow && matches(o) &&
					(o.Domain == "" || o.Domain == domain) // the owner of a Gateway loosens nothing for the routes of others
			})
			if matches(r) && !replaced {
				want = append(want, r.Policy)
			}
		}
		x, err := matching.NewIndex(rules.Set{Rules: list}, "", "weir:")
		if err != nil {
			t.Fatal(err)
		}
		on := &rules.Request{Domain: domain, Method: "GET", Path: requestPath, Descriptors: []rules.Descriptor{{{Key: rules.RouteEntry, Value: "HTTPRoute/a"}}}}
		var got []string
		for _, e := range x.Explain(on) {
			if e.Charged() {
				got = append(got, e.Rule.Policy)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("explained (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, policiesOf(x.Match(nil, on))); diff != "" {
			t.Errorf("matched (-want +got):\n%s", diff)
		}
	})
}

// inherited returns r as the rule of a policy for a Gateway that has a route HTTPRoute/a in each of the namespaces.
func inherited(r rules.Rule, namespaces ...string) rules.Rule {
	r.Domains = slices.Sorted(slices.Values(namespaces))
	for _, namespace := range r.Domains {
		r.Match.Routes = append(r.Match.Routes, rules.Route{Namespace: namespace, Target: "HTTPRoute/a"})
	}
	return r
}

func TestReplaces_APolicyOfAGatewayLoosensNothingForTheRoutesOfOtherNamespaces(t *testing.T) {
	x := index(t, asDefault(clusterRule("all")), inherited(replacing(rule("infra/gateway"), "all"), "infra", "shop"))
	for domain, want := range map[string][]string{"shop": {"_cluster/all", "infra/gateway"}, "infra": {"infra/gateway"}, "blog": {"_cluster/all"}} {
		r := requestWithDescriptors("target=HTTPRoute/a")
		r.Domain = domain
		wantPolicies(t, x, r, want...)
		if got := x.Explain(r)[0]; (got.ReplacedBy == "infra/gateway") != (domain == "infra") {
			t.Errorf("domain %s: the default is explained as replaced by %q", domain, got.ReplacedBy)
		}
	}
}

func TestNewIndex_RejectsContradictoryDomains(t *testing.T) {
	domainAndList, listAndAll, defaultOfDomain := clusterRule("a", "shop"), clusterRule("a"), asDefault(rule("shop/a"))
	domainAndList.Domain, listAndAll.Domains = "shop", []string{"shop"}
	for name, r := range map[string]rules.Rule{"domain and domains": domainAndList, "domains and all": listAndAll, "a default of one domain": defaultOfDomain} {
		if _, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{r}}, "", "weir:"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDecode_ReturnsDomainsAndDefaults(t *testing.T) {
	data, revision := rules.Encode(rules.Set{Rules: []rules.Rule{asDefault(clusterRule("all")), clusterRule("some", "shop")}})
	set, err := rules.DecodeAs(data, revision)
	if err != nil || len(set.Rules) != 2 || !set.Rules[0].AllDomains || !set.Rules[0].Default || !slices.Equal(set.Rules[1].Domains, []string{"shop"}) {
		t.Errorf("decoded %+v, %v", set, err)
	}
}
