package compile_test

import (
	"testing"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestCovers(t *testing.T) {
	prefix := func(value string) rules.Match {
		return rules.Match{Paths: []rules.PathMatch{{Type: rules.PathPrefix, Value: value}}}
	}
	descriptor := func(key, value string) rules.Match {
		return rules.Match{Descriptors: []rules.DescriptorMatch{{Key: key, Value: value}}}
	}
	for name, tc := range map[string]struct {
		wide, narrow rules.Match
		want         bool
	}{
		"everything covers anything":               {rules.Match{}, prefix("/v1"), true},
		"a part does not cover everything":         {prefix("/v1"), rules.Match{}, false},
		"a prefix covers a longer one":             {prefix("/v1"), prefix("/v1/search"), true},
		"whole segments":                           {prefix("/v1"), prefix("/v10"), false},
		"the root covers every prefix":             {prefix("/"), prefix("/v1"), true},
		"a wildcard covers the names below":        {rules.Match{Hosts: []string{"*.example"}}, rules.Match{Hosts: []string{"a.example", "*.b.example"}}, true},
		"and not the name itself":                  {rules.Match{Hosts: []string{"*.example"}}, rules.Match{Hosts: []string{"example"}}, false},
		"one method of two":                        {rules.Match{Methods: []string{"GET", "PUT"}}, rules.Match{Methods: []string{"GET"}}, true},
		"two of one":                               {rules.Match{Methods: []string{"GET"}}, rules.Match{Methods: []string{"GET", "PUT"}}, false},
		"a network within another":                 {rules.Match{CIDRs: []string{"10.0.0.0/8"}}, rules.Match{CIDRs: []string{"10.1.0.0/16"}}, true},
		"a larger one":                             {rules.Match{CIDRs: []string{"10.1.0.0/16"}}, rules.Match{CIDRs: []string{"10.0.0.0/8"}}, false},
		"an exception that is the other's as well": {rules.Match{ExceptCIDRs: []string{"10.1.0.0/16"}}, rules.Match{ExceptCIDRs: []string{"10.0.0.0/8"}}, true},
		"an exception of its own":                  {rules.Match{ExceptCIDRs: []string{"10.1.0.0/16"}}, rules.Match{}, false},
		"the same expression":                      {rules.Match{Expression: "true"}, rules.Match{Expression: "true"}, true},
		"another expression":                       {rules.Match{Expression: "true"}, rules.Match{Expression: "1 == 1"}, false},
		"any value of a descriptor":                {descriptor("k", ""), descriptor("k", "v"), true},
		"one value does not cover any":             {descriptor("k", "v"), descriptor("k", ""), false},
		"a descriptor beside none":                 {descriptor("k", ""), rules.Match{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compile.Covers(&tc.wide, &tc.narrow); got != tc.want {
				t.Errorf("got %v", got)
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
		rule, other func(*rules.Rule) // changes of a rule of shop, and of the same for all domains
		want        bool
	}{
		"as strict":                      {nil, nil, true},
		"stricter":                       {nil, func(r *rules.Rule) { r.Units = 99 }, true},
		"laxer":                          {nil, func(r *rules.Rule) { r.Units = 101 }, false},
		"laxer than a tier":              {func(r *rules.Rule) { r.Tiers = []rules.Tier{{Name: "a", Units: 50}} }, nil, false},
		"as strict as the unlimited":     {func(r *rules.Rule) { r.Tiers = []rules.Tier{{Name: "a", Unlimited: true}} }, nil, true},
		"with a tier of its own":         {nil, func(r *rules.Rule) { r.Tiers = []rules.Tier{{Name: "a", Units: 50}} }, false},
		"that gives way":                 {nil, func(r *rules.Rule) { r.Default = true }, false},
		"in shadow":                      {nil, func(r *rules.Rule) { r.Shadow = true }, false},
		"of one that denies nothing":     {func(r *rules.Rule) { r.Shadow = true }, nil, false},
		"on another axis":                {nil, func(r *rules.Rule) { r.Axis = "User" }, false},
		"for another identifier":         {nil, func(r *rules.Rule) { r.Identifier.Name = "x-user-id" }, false},
		"for each endpoint":              {nil, func(r *rules.Rule) { r.PerEndpoint = true }, false},
		"for endpoints together":         {func(r *rules.Rule) { r.PerEndpoint = true }, nil, true},
		"for another cost":               {nil, func(r *rules.Rule) { r.Cost = &rules.Cost{Header: "x-cost"} }, false},
		"for fewer requests":             {nil, func(r *rules.Rule) { r.Match.Methods = []string{"GET"} }, false},
		"for more requests":              {func(r *rules.Rule) { r.Match.Methods = []string{"GET"} }, nil, true},
		"in this domain and another":     {nil, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"billing", "shop"} }, true},
		"in other domains":               {nil, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"billing"} }, false},
		"of a rule for all domains":      {func(r *rules.Rule) { r.Domain, r.AllDomains = "", true }, nil, true},
		"in one of two domains":          {func(r *rules.Rule) { r.Domain, r.Domains = "", []string{"a", "b"} }, func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"a"} }, false},
		"laxer while Redis is away":      {nil, func(r *rules.Rule) { r.OnStoreFailure = rules.AllowOnFailure }, false},
		"stricter while Redis is away":   {nil, func(r *rules.Rule) { r.OnStoreFailure = rules.DenyOnFailure }, true},
		"by another algorithm":           {nil, bucket, false},
		"in another window":              {nil, func(r *rules.Rule) { r.WindowSeconds = 120 }, false},
		"buckets that are equal":         {bucket, bucket, true},
		"a bucket that holds more":       {bucket, func(r *rules.Rule) { bucket(r); r.Burst = 11 }, false},
		"windows that nest, of a log":    {func(r *rules.Rule) { r.Algorithm = limiter.SlidingWindowLog }, func(r *rules.Rule) { r.Algorithm, r.WindowSeconds = limiter.SlidingWindowLog, 120 }, true},
		"windows that do not nest there": {func(r *rules.Rule) { r.Algorithm = limiter.SlidingWindowLog }, func(r *rules.Rule) { r.Algorithm, r.WindowSeconds = limiter.SlidingWindowLog, 90 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			rule, other := base, base
			other.Policy, other.Domain, other.AllDomains = "cluster/a", "", true
			if tc.rule != nil {
				tc.rule(&rule)
			}
			if tc.other != nil {
				tc.other(&other)
			}
			if got := compile.IsRedundant(&rule, &other); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
