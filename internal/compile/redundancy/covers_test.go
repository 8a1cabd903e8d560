package redundancy_test

import (
	"testing"

	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestCovers(t *testing.T) {
	prefix := func(value string) rules.Match {
		return rules.Match{Paths: []rules.PathMatch{{Type: rules.PathPrefix, Value: value}}}
	}
	ofType := func(kind rules.PathMatchType, value string) rules.Match {
		return rules.Match{Paths: []rules.PathMatch{{Type: kind, Value: value}}}
	}
	descriptor := func(key, value string) rules.Match {
		return rules.Match{Descriptors: []rules.DescriptorMatch{{Key: key, Value: value}}}
	}
	entry := func(m rules.DescriptorMatch) rules.Match {
		m.Key = "k"
		return rules.Match{Descriptors: []rules.DescriptorMatch{m}}
	}
	pattern := func(text string, except ...string) rules.Match {
		return entry(rules.DescriptorMatch{Pattern: text, Except: except})
	}
	for name, tc := range map[string]struct {
		wide, narrow rules.Match
		want         bool
	}{
		"an empty match covers every match":               {rules.Match{}, prefix("/v1"), true},
		"a prefix does not cover an empty match":          {prefix("/v1"), rules.Match{}, false},
		"a prefix covers a longer one":                    {prefix("/v1"), prefix("/v1/search"), true},
		"a prefix covers whole segments only":             {prefix("/v1"), prefix("/v10"), false},
		"a prefix covers itself and the exact path":       {prefix("/v1"), rules.Match{Paths: []rules.PathMatch{{Type: rules.PathPrefix, Value: "/v1"}, {Type: rules.PathExact, Value: "/v1"}}}, true},
		"a prefix does not cover a regular expression":    {prefix("/v1"), ofType(rules.PathRegex, "/v1/.*"), false},
		"a regular expression covers itself":              {ofType(rules.PathRegex, "/v1/.*"), ofType(rules.PathRegex, "/v1/.*"), true},
		"a regular expression does not cover a prefix":    {ofType(rules.PathRegex, "/v1"), prefix("/v1/search"), false},
		"an exact path does not cover a longer one":       {ofType(rules.PathExact, "/v1"), ofType(rules.PathExact, "/v1/search"), false},
		"an exact path does not cover the prefix":         {ofType(rules.PathExact, "/v1"), prefix("/v1"), false},
		"the root covers every prefix":                    {prefix("/"), prefix("/v1"), true},
		"a wildcard covers subdomains":                    {rules.Match{Hosts: []string{"*.example"}}, rules.Match{Hosts: []string{"a.example", "*.b.example"}}, true},
		"a wildcard does not cover its own domain":        {rules.Match{Hosts: []string{"*.example"}}, rules.Match{Hosts: []string{"example"}}, false},
		"two methods cover one of them":                   {rules.Match{Methods: []string{"GET", "PUT"}}, rules.Match{Methods: []string{"GET"}}, true},
		"one method does not cover two":                   {rules.Match{Methods: []string{"GET"}}, rules.Match{Methods: []string{"GET", "PUT"}}, false},
		"a network covers a smaller one":                  {rules.Match{CIDRs: []string{"10.0.0.0/8"}}, rules.Match{CIDRs: []string{"10.1.0.0/16"}}, true},
		"a network covers itself":                         {rules.Match{CIDRs: []string{"10.0.0.0/8"}}, rules.Match{CIDRs: []string{"10.0.0.0/8"}}, true},
		"a network does not cover another one":            {rules.Match{CIDRs: []string{"10.0.0.0/8"}}, rules.Match{CIDRs: []string{"11.0.0.0/8"}}, false},
		"a network does not cover all addresses":          {rules.Match{CIDRs: []string{"10.0.0.0/8"}}, rules.Match{}, false},
		"a network does not cover a larger one":           {rules.Match{CIDRs: []string{"10.1.0.0/16"}}, rules.Match{CIDRs: []string{"10.0.0.0/8"}}, false},
		"a smaller exception covers a larger one":         {rules.Match{ExceptCIDRs: []string{"10.1.0.0/16"}}, rules.Match{ExceptCIDRs: []string{"10.0.0.0/8"}}, true},
		"an exception does not cover a match without it":  {rules.Match{ExceptCIDRs: []string{"10.1.0.0/16"}}, rules.Match{}, false},
		"an expression covers the same one":               {rules.Match{Expression: "true"}, rules.Match{Expression: "true"}, true},
		"an expression does not cover another one":        {rules.Match{Expression: "true"}, rules.Match{Expression: "1 == 1"}, false},
		"any descriptor value covers one value":           {descriptor("k", ""), descriptor("k", "v"), true},
		"one descriptor value does not cover any value":   {descriptor("k", "v"), descriptor("k", ""), false},
		"any descriptor value covers a pattern":           {descriptor("k", ""), pattern("a*"), true},
		"a pattern does not cover any value":              {pattern("a*"), descriptor("k", ""), false},
		"a pattern covers a value that matches":           {pattern("a*"), descriptor("k", "ab"), true},
		"a pattern does not cover another value":          {pattern("a*"), descriptor("k", "b"), false},
		"a pattern does not cover another pattern":        {pattern("a*"), pattern("b*"), false},
		"a pattern covers itself":                         {pattern("a*"), pattern("a*"), true},
		"an exception does not cover its value":           {pattern("", "a*"), descriptor("k", "ab"), false},
		"an exception covers another value":               {pattern("", "a*"), descriptor("k", "b"), true},
		"an exception does not cover any value":           {pattern("", "a"), descriptor("k", ""), false},
		"an exception covers the same and more of them":   {pattern("", "a"), pattern("", "a", "b"), true},
		"exceptions do not cover fewer":                   {pattern("", "a", "b"), pattern("", "a"), false},
		"a descriptor does not cover a match without one": {descriptor("k", ""), rules.Match{}, false},
		"an empty match covers a route":                   {rules.Match{}, routes("a"), true},
		"a route does not cover an empty match":           {routes("a"), rules.Match{}, false},
		"a route covers itself, not two routes":           {routes("a"), routes("a", "b"), false},
		"two routes cover one of them":                    {routes("a", "b"), routes("b"), true},
		"a route covers no routes":                        {routes("a"), routes(), true},
		"no routes cover no route":                        {routes(), routes("a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := redundancy.Covers(&tc.wide, &tc.narrow); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestIsRedundant(t *testing.T) {
	base := rules.Rule{
		Policy: "shop/a", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.SlidingWindowCounter, Units: 100, WindowSeconds: 60,
	}
	bucket := func(r *rules.Rule) { r.Algorithm, r.Burst = limiter.TokenBucket, 10 }
	for name, tc := range map[string]struct {
		rule, other func(*rules.Rule) // changes of a rule of domain shop, and of the same rule for all domains
		want        bool
	}{
		"as strict":                     {nil, nil, true},
		"stricter":                      {nil, func(r *rules.Rule) { r.Units = 99 }, true},
		"laxer":                         {nil, func(r *rules.Rule) { r.Units = 101 }, false},
		"laxer than a tier of the rule": {func(r *rules.Rule) { r.Tiers = []rules.Tier{{Name: "a", Units: 50}} }, nil, false},
		"as strict, for a rule with an unlimited tier": {func(r *rules.Rule) { r.Tiers = []rules.Tier{{Name: "a", Unlimited: true}} }, nil, true},
		"with an additional tier":                      {nil, func(r *rules.Rule) { r.Tiers = []rules.Tier{{Name: "a", Units: 50}} }, false},
		"a default, which is overridden":               {nil, func(r *rules.Rule) { r.Default = true }, false},
		"a shadow rule":                                {nil, func(r *rules.Rule) { r.Shadow = true }, false},
		"for a shadow rule, which denies nothing":      {func(r *rules.Rule) { r.Shadow = true }, nil, false},
		"on another axis":                              {nil, func(r *rules.Rule) { r.Axis = "User" }, false},
		"for another identifier":                       {nil, func(r *rules.Rule) { r.Identifier.Name = "x-user-id" }, false},
		"that counts each endpoint separately":         {nil, func(r *rules.Rule) { r.PerEndpoint = true }, false},
		"that counts all endpoints together":           {func(r *rules.Rule) { r.PerEndpoint = true }, nil, true},
		"with another cost":                            {nil, func(r *rules.Rule) { r.Cost = &rules.Cost{Header: "x-cost"} }, false},
		"for fewer requests":                           {nil, func(r *rules.Rule) { r.Match.Methods = []string{"GET"} }, false},
		"for more requests":                            {func(r *rules.Rule) { r.Match.Methods = []string{"GET"} }, nil, true},
		"in this domain and another":                   {nil, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"billing", "shop"} }, true},
		"in other domains":                             {nil, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"billing"} }, false},
		"in no domain":                                 {nil, func(r *rules.Rule) { r.AllDomains = false }, false},
		"in some domains, for a rule for all domains":  {func(r *rules.Rule) { r.Domain, r.AllDomains = "", true }, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"shop"} }, false},
		"for a rule for all domains":                   {func(r *rules.Rule) { r.Domain, r.AllDomains = "", true }, nil, true},
		"in both domains of the rule":                  {func(r *rules.Rule) { r.Domain, r.Domains = "", []string{"a", "b"} }, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"a", "b", "c"} }, true},
		"in none of the two domains of the rule":       {func(r *rules.Rule) { r.Domain, r.Domains = "", []string{"a", "b"} }, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"c"} }, false},
		"in one of the two domains of the rule":        {func(r *rules.Rule) { r.Domain, r.Domains = "", []string{"a", "b"} }, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"a"} }, false},
		"laxer while Redis is unavailable":             {nil, func(r *rules.Rule) { r.OnStoreFailure = rules.AllowOnFailure }, false},
		"stricter while Redis is unavailable":          {nil, func(r *rules.Rule) { r.OnStoreFailure = rules.DenyOnFailure }, true},
		"with whole shares while Redis is unavailable": {nil, func(r *rules.Rule) { r.LocalShare = rules.WholeShare }, false},
		"with equal shares, for a rule with whole":     {func(r *rules.Rule) { r.LocalShare = rules.WholeShare }, nil, true},
		"with another algorithm":                       {nil, bucket, false},
		"with another window":                          {nil, func(r *rules.Rule) { r.WindowSeconds = 120 }, false},
		"equal buckets":                                {bucket, bucket, true},
		"a larger bucket":                              {bucket, func(r *rules.Rule) { bucket(r); r.Burst = 11 }, false},
		"a log with a window that is a multiple":       {func(r *rules.Rule) { r.Algorithm = limiter.SlidingWindowLog }, func(r *rules.Rule) { r.Algorithm, r.WindowSeconds = limiter.SlidingWindowLog, 120 }, true},
		"a log with a window that is not a multiple":   {func(r *rules.Rule) { r.Algorithm = limiter.SlidingWindowLog }, func(r *rules.Rule) { r.Algorithm, r.WindowSeconds = limiter.SlidingWindowLog, 90 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			rule, other := base, base
			other.Policy, other.Domain, other.AllDomains = "_cluster/a", "", true
			if tc.rule != nil {
				tc.rule(&rule)
			}
			if tc.other != nil {
				tc.other(&other)
			}
			if got := redundancy.IsRedundant(&rule, &other); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func routes(names ...string) rules.Match {
	m := rules.Match{Routes: []rules.Route{}}
	for _, name := range names {
		m.Routes = append(m.Routes, rules.Route{Namespace: "shop", Target: "HTTPRoute/" + name})
	}
	return m
}
