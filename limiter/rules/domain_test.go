package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules"
)

// everywhere is a rule of a policy that belongs to no namespace, for these domains; for none: all.
func everywhere(name string, domains ...string) rules.Rule {
	r := rule("cluster/" + name)
	r.Domain, r.Domains, r.AllDomains = "", domains, len(domains) == 0
	return r
}

func byDefault(r rules.Rule) rules.Rule {
	r.Default = true
	return r
}

func on(axis string, r rules.Rule) rules.Rule {
	r.Axis = axis
	return r
}

func inShadow(r rules.Rule) rules.Rule {
	r.Shadow = true
	return r
}

// policiesFor are the names of the rules that a request of domain is charged to.
func policiesFor(x *rules.Index, domain, path string) []string {
	var names []string
	for _, m := range x.Match(nil, &rules.Request{Domain: domain, Method: "GET", Path: path}) {
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
		"one for all domains holds in a domain without policies": {
			[]rules.Rule{everywhere("all"), rule("shop/own")}, "unheard-of", []string{"cluster/all"},
		},
		"and beside a domain's own": {[]rules.Rule{everywhere("all"), rule("shop/own")}, "shop", []string{"cluster/all", "shop/own"}},
		"one for some domains holds in each of them": {
			[]rules.Rule{everywhere("some", "billing", "shop"), rule("shop/own")}, "billing", []string{"cluster/some"},
		},
		"and in no other":                               {[]rules.Rule{everywhere("some", "billing", "shop")}, "search", nil},
		"a default holds where nothing else does":       {[]rules.Rule{byDefault(everywhere("all")), rule("shop/own")}, "billing", []string{"cluster/all"}},
		"and gives pattern to a domain's own":           {[]rules.Rule{byDefault(everywhere("all")), rule("shop/own")}, "shop", []string{"shop/own"}},
		"for some domains, too":                         {[]rules.Rule{byDefault(everywhere("some", "shop")), rule("shop/own")}, "shop", []string{"shop/own"}},
		"not to one on another axis":                    {[]rules.Rule{byDefault(everywhere("all")), on("User", rule("shop/own"))}, "shop", []string{"cluster/all", "shop/own"}},
		"not to one in shadow, which never denies":      {[]rules.Rule{byDefault(everywhere("all")), inShadow(rule("shop/own"))}, "shop", []string{"cluster/all", "shop/own"}},
		"not to one that belongs to no namespace":       {[]rules.Rule{everywhere("always"), byDefault(everywhere("all"))}, "shop", []string{"cluster/all", "cluster/always"}},
		"not to another default":                        {[]rules.Rule{byDefault(everywhere("all")), byDefault(everywhere("more"))}, "shop", []string{"cluster/all", "cluster/more"}},
		"several defaults give pattern to the same one": {[]rules.Rule{byDefault(everywhere("all")), byDefault(everywhere("more")), on("User", byDefault(everywhere("user"))), rule("shop/own")}, "shop", []string{"cluster/user", "shop/own"}},
	} {
		t.Run(name, func(t *testing.T) {
			slices.SortFunc(tc.rules, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
			if diff := cmp.Diff(tc.want, policiesFor(index(t, tc.rules...), tc.domain, "/")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMatch_DropsADefaultOnlyIfAnotherRuleMatchesTheRequest(t *testing.T) {
	own := rule("shop/own")
	own.Match = path(rules.PathPrefix, "/v1")
	x := index(t, byDefault(everywhere("all")), own)
	for path, want := range map[string]string{"/v1/search": "shop/own", "/v2/search": "cluster/all"} {
		if got := policiesFor(x, "shop", path); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
}

func TestMatch_KeepsThePreviousElementsOfTheSlice(t *testing.T) {
	x := index(t, byDefault(everywhere("all")), rule("shop/own"))
	request := &rules.Request{Domain: "billing", Path: "/"}
	dst := x.Match(x.Match(nil, request), &rules.Request{Domain: "shop", Path: "/"})
	var got []string
	for _, m := range dst {
		got = append(got, m.Rule.Policy)
	}
	if diff := cmp.Diff([]string{"cluster/all", "shop/own"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMatch_CountsNoPathsForADroppedDefault(t *testing.T) {
	all := byDefault(everywhere("all"))
	all.PerEndpoint = true
	x := index(t, all, rule("shop/own"))
	for i := range 1100 { // more than a rule has places for
		policiesFor(x, "shop", "/"+strings.Repeat("x", i))
	}
	matched := x.Match(nil, &rules.Request{Domain: "billing", Path: "/v1"})
	if len(matched) != 1 || matched[0].Endpoint != "/v1" {
		t.Errorf("got %+v, want endpoint /v1", matched)
	}
}

// TestMatch_AgreesWithTheDefinitionOfDomainsAndDefaults compares with what one reads in Rule: each rule alone, then defaults taken out.
func TestMatch_AgreesWithTheDefinitionOfDomainsAndDefaults(t *testing.T) {
	domains := []string{"billing", "search", "shop"}
	rapid.Check(t, func(t *rapid.T) {
		var list []rules.Rule
		for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
			name := string(rune('a' + i))
			r := rule(rapid.SampledFrom(domains).Draw(t, "domain") + "/" + name)
			if rapid.Bool().Draw(t, "of the cluster") {
				r = everywhere(name, rapid.SliceOfNDistinct(rapid.SampledFrom(domains), 0, 2, rapid.ID).Draw(t, "domains")...)
				r.Default = rapid.Bool().Draw(t, "default")
			}
			r.Axis = rapid.SampledFrom([]string{"Tenant", "User"}).Draw(t, "axis")
			r.Shadow = rapid.Bool().Draw(t, "shadow")
			if rapid.Bool().Draw(t, "on a path") {
				r.Match = path(rules.PathPrefix, "/v1")
			}
			list = append(list, r)
		}
		slices.SortFunc(list, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
		domain := rapid.SampledFrom(append(domains, "unheard-of")).Draw(t, "domain of the request")
		at := rapid.SampledFrom([]string{"/v1/x", "/v2"}).Draw(t, "path of the request")

		matches := func(r rules.Rule) bool {
			in := r.AllDomains || r.Domain == domain || slices.Contains(r.Domains, domain)
			return in && (len(r.Match.Paths) == 0 || at == "/v1/x")
		}
		var want []string
		for _, r := range list {
			replaced := r.Default && slices.ContainsFunc(list, func(o rules.Rule) bool {
				return o.Domain != "" && o.Axis == r.Axis && !o.Shadow && matches(o)
			})
			if matches(r) && !replaced {
				want = append(want, r.Policy)
			}
		}
		x, err := rules.NewIndex(rules.Set{Rules: list}, "", "weir:")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, policiesFor(x, domain, at)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestNewIndex_RejectsContradictoryDomains(t *testing.T) {
	both, three, oneDefault := everywhere("a", "shop"), everywhere("a"), byDefault(rule("shop/a"))
	both.Domain, three.Domains = "shop", []string{"shop"}
	for name, r := range map[string]rules.Rule{"domain and domains": both, "domains and all": three, "a default of one domain": oneDefault} {
		if _, err := rules.NewIndex(rules.Set{Rules: []rules.Rule{r}}, "", "weir:"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDecode_ReturnsDomainsAndDefaults(t *testing.T) {
	data, revision := rules.Encode(rules.Set{Rules: []rules.Rule{byDefault(everywhere("all")), everywhere("some", "shop")}})
	set, err := rules.DecodeAs(data, revision)
	if err != nil || len(set.Rules) != 2 || !set.Rules[0].AllDomains || !set.Rules[0].Default || !slices.Equal(set.Rules[1].Domains, []string{"shop"}) {
		t.Errorf("read back as %+v, %v", set, err)
	}
}
