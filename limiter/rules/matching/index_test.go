package matching_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// rule returns a rule of a policy without conditions.
func rule(policy string) rules.Rule {
	domain, _, _ := strings.Cut(policy, "/")
	return rules.Rule{
		Policy: policy, Domain: domain, Axis: "Tenant",
		Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm:  limiter.SlidingWindowCounter, Units: 100, WindowSeconds: 60,
	}
}

func index(t testing.TB, list ...rules.Rule) *matching.Index {
	t.Helper()
	x, err := matching.NewIndex(rules.Set{Rules: list, HashKey: testHashKey().ID()}, "sha256:test", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ruleMatching(match rules.Match) rules.Rule {
	r := rule("shop/it")
	r.Match = match
	return r
}

func path(kind rules.PathMatchType, values ...string) rules.Match {
	var m rules.Match
	for _, v := range values {
		m.Paths = append(m.Paths, rules.PathMatch{Type: kind, Value: v})
	}
	return m
}

func header(h rules.HeaderMatch) rules.Match { return rules.Match{Headers: []rules.HeaderMatch{h}} }

func TestMatch(t *testing.T) {
	tests := map[string]struct {
		match rules.Match
		in    []string // "METHOD host path header=value"
		out   []string
	}{
		"an empty match matches every request of the domain": {rules.Match{}, []string{"GET a.example /", "PUT - /x"}, nil},
		"a host without wildcard matches only itself": {
			rules.Match{Hosts: []string{"api.shop.example"}},
			[]string{"GET api.shop.example /"},
			[]string{"GET shop.example /", "GET xapi.shop.example /", "GET api.shop.example.org /", "GET - /"},
		},
		"a wildcard matches all subdomains": {
			rules.Match{Hosts: []string{"*.shop.example"}},
			[]string{"GET api.shop.example /", "GET a.b.shop.example /"},
			[]string{"GET shop.example /", "GET .shop.example /", "GET myshop.example /"},
		},
		"one of several hosts": {
			rules.Match{Hosts: []string{"a.example", "*.b.example"}},
			[]string{"GET a.example /", "GET x.b.example /"},
			[]string{"GET b.example /"},
		},
		"an exact path": {path(rules.PathExact, "/v1"), []string{"GET - /v1"}, []string{"GET - /v1/x", "GET - /v10", "GET - /"}},
		"a prefix matches whole segments": {
			path(rules.PathPrefix, "/v1"), []string{"GET - /v1", "GET - /v1/x", "GET - /v1/x/y"}, []string{"GET - /v10", "GET - /", "GET - /x/v1"},
		},
		"a trailing slash of a prefix is ignored":     {path(rules.PathPrefix, "/v1/"), []string{"GET - /v1", "GET - /v1/x"}, []string{"GET - /v10"}},
		"the prefix / matches every path":             {path(rules.PathPrefix, "/"), []string{"GET - /", "GET - /v1/x"}, nil},
		"a regular expression matches the whole path": {path(rules.PathRegex, "/v[0-9]+|/w"), []string{"GET - /v12", "GET - /w"}, []string{"GET - /v1/x", "GET - /x/v1", "GET - /wx"}},
		"a method":         {rules.Match{Methods: []string{"POST", "PUT"}}, []string{"PUT - /", "put - /"}, []string{"GET - /", "PU - /"}},
		"a header's value": {header(rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "free"}), []string{"GET - / x-plan=free"}, []string{"GET - / x-plan=Free", "GET - /", "GET - / x-plan="}},
		"any value except one": {
			header(rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "free", Invert: true}),
			[]string{"GET - / x-plan=paid", "GET - /"},
			[]string{"GET - / x-plan=free"},
		},
		"a header that is present": {header(rules.HeaderMatch{Type: rules.HeaderPresent, Name: "x-plan"}), []string{"GET - / x-plan="}, []string{"GET - /"}},
		"a header that is absent":  {header(rules.HeaderMatch{Type: rules.HeaderPresent, Name: "x-plan", Invert: true}), []string{"GET - /"}, []string{"GET - / x-plan="}},
		"a regular expression matches the whole header value": {
			header(rules.HeaderMatch{Type: rules.HeaderRegex, Name: "x-plan", Value: "free|trial"}),
			[]string{"GET - / x-plan=trial"},
			[]string{"GET - / x-plan=trials", "GET - /"},
		},
		"all conditions must match": {
			rules.Match{
				Hosts: []string{"a.example"}, Paths: path(rules.PathExact, "/v1").Paths, Methods: []string{"GET"},
				Headers: []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "a"}, {Type: rules.HeaderPresent, Name: "b"}},
			},
			[]string{"GET a.example /v1 a=1 b=1"},
			[]string{"GET b.example /v1 a=1 b=1", "GET a.example /v2 a=1 b=1", "PUT a.example /v1 a=1 b=1", "GET a.example /v1 a=1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := index(t, ruleMatching(test.match))
			for _, text := range test.in {
				if got := x.Match(nil, request(text)); len(got) != 1 {
					t.Errorf("%q matched %d times, want once", text, len(got))
				}
			}
			for _, text := range append(test.out, "") {
				if got := x.Match(nil, request(text)); len(got) != 0 {
					t.Errorf("%q matched", text)
				}
			}
		})
	}
}

// request parses "METHOD host path header=value…" as a request of domain shop. The host "-" means no host. "" is a request of
// another domain.
func request(text string) *rules.Request {
	if text == "" {
		return &rules.Request{Domain: "elsewhere", Method: "GET", Path: "/"}
	}
	words := strings.Fields(text)
	r := &rules.Request{Domain: "shop", Method: words[0], Host: strings.TrimPrefix(words[1], "-"), Path: words[2], Headers: map[string]string{}}
	for _, w := range words[3:] {
		name, value, _ := strings.Cut(w, "=")
		r.Headers[name] = value
	}
	return r
}

func TestMatch_ReturnsARuleOnceWithItsMostSpecificPath(t *testing.T) {
	all := ruleMatching(rules.Match{
		Hosts: []string{"*.example", "api.shop.example", "*.shop.example"},
		Paths: []rules.PathMatch{
			{Type: rules.PathRegex, Value: "/v1/.*"},
			{Type: rules.PathPrefix, Value: "/"},
			{Type: rules.PathPrefix, Value: "/v1"},
			{Type: rules.PathExact, Value: "/v1/exact"},
		},
	})
	x := index(t, rule("shop/any"), all)
	for path, want := range map[string]string{
		"/v1/exact": "/v1/exact", "/v1/other": "/v1", "/v1": "/v1", "/w": "/", "/": "/",
	} {
		got := x.Match(nil, request("GET api.shop.example "+path))
		var names []string
		for _, m := range got {
			names = append(names, m.Rule.Policy+" "+m.Endpoint)
		}
		if diff := cmp.Diff([]string{"shop/any " + path, "shop/it " + want}, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestNewIndex_RejectsInvalidRules(t *testing.T) {
	withoutLimit := rule("shop/it")
	withoutLimit.Units = -1
	with := func(change func(*rules.Rule)) rules.Rule {
		r := rule("shop/it")
		change(&r)
		return r
	}
	identifier := func(id rules.Identifier) rules.Rule { return with(func(r *rules.Rule) { r.Identifier = id }) }
	tier := func(t ...rules.Tier) rules.Rule { return with(func(r *rules.Rule) { r.Tiers = t }) }
	cost := func(c rules.Cost) rules.Rule { return with(func(r *rules.Rule) { r.Cost = &c }) }
	lease := func(algorithm limiter.Algorithm, window, percent, milliseconds int64) rules.Rule {
		return with(func(r *rules.Rule) {
			r.Algorithm, r.WindowSeconds, r.Lease = algorithm, window, &rules.Lease{MaxPercent: percent, MaxMilliseconds: milliseconds}
		})
	}
	debt := func(algorithm limiter.Algorithm, lease *rules.Lease) rules.Rule {
		return with(func(r *rules.Rule) { r.Algorithm, r.Debt, r.Lease = algorithm, true, lease })
	}
	staff := rules.When{Groups: []string{"staff"}}
	for name, bad := range map[string]rules.Rule{
		"an unknown type of header match":               ruleMatching(header(rules.HeaderMatch{Type: "Glob", Name: "a"})),
		"a header match without a name":                 ruleMatching(header(rules.HeaderMatch{Type: rules.HeaderPresent})),
		"an invalid network":                            ruleMatching(rules.Match{CIDRs: []string{"10.0.0.0"}}),
		"an invalid network as exception":               ruleMatching(rules.Match{ExceptCIDRs: []string{"10.0.0.0/33"}}),
		"a descriptor with a value and a pattern":       ruleMatching(rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "a", Value: "b", Pattern: "c"}}}),
		"a descriptor with a value and except":          ruleMatching(rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "a", Value: "b", Except: []string{"c"}}}}),
		"a descriptor without a key":                    ruleMatching(rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "a"}, {Value: "b"}}}),
		"an invalid expression":                         ruleMatching(rules.Match{Expression: "request.pth == '/'"}),
		"an expression that is not a bool":              ruleMatching(rules.Match{Expression: "request.path"}),
		"an unknown source":                             identifier(rules.Identifier{From: "body", Name: "a"}),
		"no source":                                     identifier(rules.Identifier{}),
		"a claim without a name":                        identifier(rules.Identifier{From: rules.FromClaim}),
		"an identifier expression that is not a string": identifier(rules.Identifier{From: rules.FromExpression, Name: "1"}),
		"an identifier expression that is empty":        identifier(rules.Identifier{From: rules.FromExpression}),
		"a prefix of 129 bits":                          identifier(rules.Identifier{From: rules.FromClientIP, IPv6Prefix: 129}),
		"a negative prefix length":                      identifier(rules.Identifier{From: rules.FromClientIP, IPv6Prefix: -1}),
		"a tier without a name":                         tier(rules.Tier{When: staff, Units: 1}),
		"two tiers with the same name":                  tier(rules.Tier{Name: "a", When: staff, Units: 1}, rules.Tier{Name: "a", When: staff, Units: 2}),
		"a tier without a limit":                        tier(rules.Tier{Name: "a", When: staff, Units: -1}),
		"an unlimited tier with a limit":                tier(rules.Tier{Name: "a", When: staff, Units: 1, Unlimited: true}),
		"a burst for an algorithm without burst":        tier(rules.Tier{Name: "a", When: staff, Units: 1, Burst: 1}),
		"a tier without a condition":                    tier(rules.Tier{Name: "a", Units: 1}),
		"a tier with two conditions":                    tier(rules.Tier{Name: "a", When: rules.When{Groups: []string{"a"}, Expression: "true"}, Units: 1}),
		"a tier with an invalid network":                tier(rules.Tier{Name: "a", When: rules.When{CIDRs: []string{"x"}}, Units: 1}),
		"a tier with an invalid header match":           tier(rules.Tier{Name: "a", When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderRegex, Name: "a", Value: "("}}, Units: 1}),
		"a tier with an invalid expression":             tier(rules.Tier{Name: "a", When: rules.When{Expression: "1"}, Units: 1}),
		"an empty cost":                                 cost(rules.Cost{}),
		"a cost with two sources":                       cost(rules.Cost{Value: 1, Header: "x-cost"}),
		"a negative cost":                               cost(rules.Cost{Value: -1}),
		"a cost above the maximum":                      cost(rules.Cost{Value: limiter.MaxUnits + 1}),
		"a cost that is a string":                       cost(rules.Cost{Expression: "request.path"}),
		"an expression over 64 bytes that is invalid":   ruleMatching(rules.Match{Expression: strings.Repeat("x", 65)}),
		"an unknown localShare":                         with(func(r *rules.Rule) { r.LocalShare = "Half" }),
		"a whole share of a rule that counts nothing on replicas": with(func(r *rules.Rule) {
			r.OnStoreFailure, r.LocalShare = rules.AllowOnFailure, rules.WholeShare
		}),
		"an unknown onStoreFailure":                          with(func(r *rules.Rule) { r.OnStoreFailure = "Guess" }),
		"debts of a TokenBucket":                             debt(limiter.TokenBucket, nil),
		"debts of a SlidingWindowLog":                        debt(limiter.SlidingWindowLog, nil),
		"debts with leases":                                  debt(limiter.FixedWindow, &rules.Lease{MaxPercent: 10, MaxMilliseconds: 1000}),
		"leases of a LeakyBucket":                            lease(limiter.LeakyBucket, 60, 10, 1000),
		"leases of nothing":                                  lease(limiter.TokenBucket, 60, 0, 1000),
		"leases of more than half of the limit":              lease(limiter.TokenBucket, 60, 51, 1000),
		"leases that end immediately":                        lease(limiter.TokenBucket, 60, 10, 99),
		"leases of more than ten seconds":                    lease(limiter.TokenBucket, 60, 10, 10_001),
		"leases of more than half of the window":             lease(limiter.TokenBucket, 1, 10, 501),
		"a path expression that compiles to a large program": ruleMatching(path(rules.PathRegex, `/\pL{1000}\d{1000}`)),
		"a path expression over 512 bytes":                   ruleMatching(path(rules.PathRegex, "/"+strings.Repeat("x", 512))),
		"nested repetitions":                                 ruleMatching(path(rules.PathRegex, "(((a{100}){100}){100})")),
		"no limit":                                           withoutLimit,
		"a duplicate policy":                                 rule("shop/good"),
		"a path expression that RE2 does not support":        ruleMatching(path(rules.PathRegex, "(?=x)")),
		"an invalid header expression":                       ruleMatching(header(rules.HeaderMatch{Type: rules.HeaderRegex, Name: "a", Value: "("})),
		"an unknown type of path match":                      ruleMatching(path("Glob", "/*")),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{rule("shop/good"), bad}}, "r", "weir:")
			if err == nil || !strings.Contains(err.Error(), "rule "+bad.Policy+": ") {
				t.Errorf("error %v, want one that names the rule", err)
			}
		})
	}
}

// A Go program writes its rules in any order, and keeps its slice.
func TestNewIndex_SortsTheRules(t *testing.T) {
	list := []rules.Rule{rule("shop/c"), rule("shop/a"), rule("shop/b")}
	x, err := matching.NewIndex(rules.Set{Rules: list}, "r", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(x.Policies()); !slices.Equal(got, []string{"shop/a", "shop/b", "shop/c"}) || list[0].Policy != "shop/c" {
		t.Errorf("rules %q of the slice %v", got, list)
	}
	if got := policiesOf(x.Match(nil, request("GET - /"))); !slices.Equal(got, []string{"shop/a", "shop/b", "shop/c"}) {
		t.Errorf("matched %q", got)
	}
}

// TestMatch_AgreesWithALinearSearch compares an index of all rules with one index per rule: the other rules of an index
// must not affect whether a rule matches.
func TestMatch_AgreesWithALinearSearch(t *testing.T) {
	hosts := rapid.SliceOfN(rapid.SampledFrom([]string{"a.example", "b.a.example", "*.a.example", "*.example"}), 0, 3)
	paths := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rules.PathMatch {
		return rules.PathMatch{
			Type:  rapid.SampledFrom([]rules.PathMatchType{rules.PathExact, rules.PathPrefix, rules.PathRegex}).Draw(t, "type"),
			Value: rapid.SampledFrom([]string{"/", "/a", "/a/b", "/b"}).Draw(t, "value"),
		}
	}), 0, 3)
	rapid.Check(t, func(rt *rapid.T) {
		var list []rules.Rule
		for i := range rapid.IntRange(1, 12).Draw(rt, "rules") {
			r := rule(fmt.Sprintf("shop/%02d", i))
			r.Match = rules.Match{Hosts: hosts.Draw(rt, "hosts"), Paths: paths.Draw(rt, "paths")}
			list = append(list, r)
		}
		req := request("GET " + rapid.SampledFrom([]string{"a.example", "b.a.example", "c.b.a.example", "-"}).Draw(rt, "host") +
			" " + rapid.SampledFrom([]string{"/", "/a", "/a/b", "/a/c", "/ab"}).Draw(rt, "path"))
		var want, got []string
		for _, r := range list {
			for _, m := range index(t, r).Match(nil, req) {
				want = append(want, m.Rule.Policy+m.Endpoint)
			}
		}
		for _, m := range index(t, list...).Match(nil, req) {
			got = append(got, m.Rule.Policy+m.Endpoint)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("%+v (-one index per rule +one index):\n%s", req, diff)
		}
	})
}

// TestNewIndex_CompilesEqualExpressionsOnce counts allocations: compiling an expression takes thousands of them.
func TestNewIndex_CompilesEqualExpressionsOnce(t *testing.T) {
	allocations := func(expression func(i int) string) float64 {
		var list []rules.Rule
		for i := range 50 {
			r := rule(fmt.Sprintf("shop/%05d", i))
			r.Match = rules.Match{Expression: expression(i)}
			list = append(list, r)
		}
		return testing.AllocsPerRun(1, func() { index(t, list...) })
	}
	equal := allocations(func(int) string { return `request.path.endsWith(".json")` })
	different := allocations(func(i int) string { return fmt.Sprintf(`request.path.endsWith("%d")`, i) })
	if equal > different/5 {
		t.Errorf("%.0f allocations for 50 rules with one expression, %.0f with different expressions", equal, different)
	}
}

func TestIndex_ListsItsPolicies(t *testing.T) {
	x := index(t, rule("shop/a"), rule("shop/b"), rule("shop/c"))
	var first []string
	for policy := range x.Policies() {
		if first = append(first, policy); len(first) == 2 {
			break
		}
	}
	if all := slices.Collect(x.Policies()); !slices.Equal(all, []string{"shop/a", "shop/b", "shop/c"}) || !slices.Equal(first, all[:2]) || x.Len() != 3 {
		t.Errorf("%d policies %v, the first two are %v", x.Len(), all, first)
	}
	for policy, want := range map[string]bool{"shop/a": true, "shop/c": true, "shop/bb": false, "": false} {
		if _, got := x.RuleOf(policy); got != want {
			t.Errorf("contains %q: %t", policy, got)
		}
	}
}

func TestKeyFor_CountsAnotherLimitSeparately(t *testing.T) {
	limit, err := limiter.NewLimit(limiter.FixedWindow, 7, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for perEndpoint, want := range map[bool]int{false: 1, true: 2} {
		r := rule("shop/it")
		r.PerEndpoint = perEndpoint
		own, others := map[string]bool{}, map[string]bool{}
		for _, path := range []string{"/a", "/b"} {
			m := index(t, r).Match(nil, request("GET - "+path))[0]
			own[m.Key("acme")], others[m.KeyFor("acme", limit)] = true, true
		}
		maps.DeleteFunc(others, func(key string, _ bool) bool { return own[key] })
		if len(own) != want || len(others) != want {
			t.Errorf("two endpoints, counted separately: %t: %d keys, %d of the other limit, want %d", perEndpoint, len(own), len(others), want)
		}
	}
}

// sharedKey is the key of the counter that identifiers without a counter of their own share.
func sharedKey(m *matching.Matched, limit limiter.Limit, isOverride bool) string {
	charge := limiter.Charge{Rule: m.Rule.Counted(), Limit: limit, Endpoint: m.CountedEndpoint(), Override: isOverride}
	return charge.SharedKey()
}

// The shared counters of two endpoints and two limits are four counters, and none of an identifier.
func TestSharedKey_CountsEndpointsAndLimitsSeparately(t *testing.T) {
	limit, err := limiter.NewLimit(limiter.FixedWindow, 7, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for perEndpoint, want := range map[bool]int{false: 2, true: 4} {
		r := rule("shop/it")
		r.PerEndpoint = perEndpoint
		shared := map[string]bool{}
		for _, path := range []string{"/a", "/b"} {
			m := index(t, r).Match(nil, request("GET - "+path))[0]
			shared[sharedKey(&m, m.Rule.Limit, false)], shared[sharedKey(&m, limit, true)] = true, true
			if shared[m.Key("acme")] || shared[m.KeyFor("acme", limit)] {
				t.Errorf("the shared counter is also that of an identifier: %v", shared)
			}
			if sharedKey(&m, limit, false) != sharedKey(&m, m.Rule.Limit, false) {
				t.Error("the shared counter of the rule depends on the limit")
			}
		}
		if len(shared) != want {
			t.Errorf("two endpoints, counted separately: %t: shared keys %v, want %d", perEndpoint, shared, want)
		}
	}
}

func TestKeySpace_NamesAnInvalidRule(t *testing.T) {
	r := rule("shop/it")
	if keys, err := r.KeySpace("weir:"); err != nil || keys != index(t, r).Match(nil, request("GET - /"))[0].Rule.Keys {
		t.Errorf("keys %v, %v, want those of the index", keys, err)
	}
	r.Units = -1
	if _, err := r.KeySpace("weir:"); err == nil || !strings.Contains(err.Error(), "rule shop/it: ") {
		t.Errorf("error %v, want one that names the rule", err)
	}
}

func TestIdentify(t *testing.T) {
	req := &rules.Request{
		Domain: "shop", Method: "GET", Path: "/v1/x",
		Query:   map[string][]string{"key": {"first", "second"}},
		Headers: map[string]string{"x-tenant-id": "acme", "cookie": "a=1; session=s3cret; a=2"},
	}
	from := func(source rules.IdentifierSource, name string) rules.Identifier {
		return rules.Identifier{From: source, Name: name}
	}
	tests := map[string]struct {
		identifier rules.Identifier
		clientIP   string
		want       string
	}{
		"a header":                            {from(rules.FromHeader, "x-tenant-id"), "", "acme"},
		"a header that is absent":             {from(rules.FromHeader, "x-user-id"), "", ""},
		"several values of a query parameter": {from(rules.FromQuery, "key"), "", ""},
		"a query parameter that is absent":    {from(rules.FromQuery, "token"), "", ""},
		"a cookie":                            {from(rules.FromCookie, "session"), "", "s3cret"},
		"a cookie that is absent":             {from(rules.FromCookie, "b"), "", ""},
		"the endpoint":                        {from(rules.FromEndpoint, ""), "", "/v1/x"},
		"a secret is hashed": {
			rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id", Secret: true},
			"",
			"240b5f08aae198eac568d461fcc7dc76",
		},
		"an absent secret is not hashed": {rules.Identifier{From: rules.FromQuery, Name: "token", Secret: true}, "", ""},
		"an IPv4 address":                {from(rules.FromClientIP, ""), "203.0.113.7", "203.0.113.7"},
		"an IPv4-mapped IPv6 address":    {from(rules.FromClientIP, ""), "::ffff:203.0.113.7", "203.0.113.7"},
		"the network of an IPv6 address": {from(rules.FromClientIP, ""), "2001:db8:1:2:3:4:5:6%eth0", "2001:db8:1:2::/64"},
		"an unknown address":             {from(rules.FromClientIP, ""), "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := rule("shop/it")
			r.Identifier = test.identifier
			req := *req
			if test.clientIP != "" {
				req.ClientIP = netip.MustParseAddr(test.clientIP)
			}
			m := index(t, r).Match(nil, &req)
			if got := m[0].Identify(&req); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// testHashKey returns the key with which the tests of this package hash secrets.
func testHashKey() *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		panic(err)
	}
	return key
}
