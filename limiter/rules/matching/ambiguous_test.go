package matching_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// A value that servers read in different ways, or of which they read different parts, is no identifier: a client could make a new one for each
// request. Values that servers read alike are one identifier.
func TestIdentify_NoSpellingIsAnIdentifierOfItsOwn(t *testing.T) {
	withHeader := func(name string, lines ...string) *rules.Request {
		r := request("GET - /")
		r.Headers, r.RepeatedHeaders = rules.NormalHeaders(map[string][]string{name: lines})
		return r
	}
	target := func(target string) *rules.Request {
		r := request("GET - /")
		r.SetQuery(target)
		return r
	}
	cookie := func(line string) *rules.Request { return withHeader("Cookie", line) }
	key := rules.Identifier{From: rules.FromHeader, Name: "x-api-key", Secret: true}
	authorization := rules.Identifier{From: rules.FromHeader, Name: "authorization"}
	tenant := rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}
	session := rules.Identifier{From: rules.FromCookie, Name: "sid"}
	token := rules.Identifier{From: rules.FromQuery, Name: "token"}
	expression := rules.Identifier{From: rules.FromExpression}
	const unreadable = "?"
	for name, tc := range map[string]struct {
		identifier rules.Identifier
		request    *rules.Request
		want       string
	}{
		"a header with one line":                   {tenant, withHeader("X-Tenant-ID", "acme"), "acme"},
		"a header with a comma":                    {tenant, withHeader("X-Tenant-ID", "CN=a,O=b"), "CN=a,O=b"},
		"two lines of a header":                    {tenant, withHeader("X-Tenant-ID", "acme", "x"), unreadable},
		"two lines of a key":                       {key, withHeader("X-API-Key", "real", "x"), unreadable},
		"joined lines of a key":                    {key, withHeader("X-API-Key", "real,"), unreadable},
		"credentials with a scheme":                {authorization, withHeader("Authorization", "Bearer T"), "Bearer T"},
		"credentials with another case and spaces": {authorization, withHeader("Authorization", "bEARER  \t T "), "Bearer T"},
		"credentials without a scheme":             {authorization, withHeader("Authorization", "T"), "T"},
		"a cookie among others":                    {session, cookie("a=1; sid=abc"), "abc"},
		"a cookie with spaces":                     {session, cookie("sid=  abc ; a=1"), "abc"},
		"a cookie with escapes":                    {session, cookie("sid=%61bc"), "abc"},
		"a cookie that occurs twice":               {session, cookie("sid=x; sid=abc"), unreadable},
		"the same cookie twice":                    {session, cookie("sid=abc; a=1; sid=abc"), "abc"},
		"a parameter that is escaped":              {token, target("/?token=t%31"), "t1"},
		"the same parameter twice":                 {token, target("/?token=t&token=t"), "t"},
		"a parameter with two values":              {token, target("/?token=t&token=x"), unreadable},
		"a parameter before a semicolon":           {token, target("/?token=t;x"), unreadable},
		"a parameter after a semicolon":            {token, target("/?a=1;token=t"), unreadable},
		"a parameter after a fragment":             {token, target("/?#&token=t"), unreadable},
		"another parameter has a semicolon":        {token, target("/?token=t&a=1;b=2"), "t"},
		"a parameter with a malformed escape":      {token, target("/?token=%zz"), unreadable},
		"a parameter after thousands of others":    {token, target("/?" + strings.Repeat("a&", 5000) + "token=t"), unreadable},
		"an expression over such a parameter":      {expression, target("/?token=t;x"), unreadable},
		"an expression over a parameter":           {expression, target("/?token=t&a=1;b=2"), "t"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := rule("shop/it")
			policy.Identifier = tc.identifier
			if tc.identifier.From == rules.FromExpression {
				policy.Identifier.Name = `request.query["token"][0]`
			}
			m := index(t, policy).Match(nil, tc.request)[0]
			got := m.Identify(tc.request)
			if got == "" && m.Unreadable(tc.request) {
				got = unreadable
			}
			if got != tc.want {
				t.Errorf("identifier %q, want %q", got, tc.want)
			}
		})
	}
}

func TestMatch_NoSpellingOfAQueryAvoidsAPolicy(t *testing.T) {
	exports, ofPath := ruleMatching(rules.Match{Expression: `"export" in request.query`}), ruleMatching(rules.Match{
		Expression: `request.path.startsWith("/v1/") && "export" in request.query`,
	})
	ofPath.Policy += "-path"
	x := index(t, exports, ofPath)
	for target, want := range map[string]int{
		"/v1/x?export=1": 2, "/v1/x?export=1;": 2, "/v1/x?export=%": 2, "/v1/x?export=%zz": 2, "/v1/x?a=1;export=1": 2, "/v1/x?#&export=1": 2,
		"/v1/x#?export": 2, "/v1/../v1%2fx/..?a;export": 2, "/v1/x?" + strings.Repeat("&", 20_000) + "export=1": 2,
		"/v1/x?" + strings.Repeat("a&", 5_000) + "export=1": 2, "/v2?export;": 1, "/v1/x?a=1;b=2": 0, "/v1/x?imexport=1": 0, "/v1/x": 0,
	} {
		if got := x.Match(nil, sent(target)); len(got) != want {
			t.Errorf("%.40s matches %d policies, want %d", target, len(got), want)
		}
	}
	cost := rule("shop/it")
	cost.Cost = &rules.Cost{Expression: `int(request.query["n"][0])`}
	for target, want := range map[string]int64{"/?n=5": 5, "/?n=5;a=1": 5, "/?n=5#": 5, "/?n=1;n=5": 1, "/?" + strings.Repeat("a&", 5_000) + "n=5": cost.Units} {
		if got := termsOf(t, cost, sent(target)).Cost; got < want {
			t.Errorf("%.40s costs %d, want at least %d", target, got, want)
		}
	}
}

func TestMatch_OneOfSeveralMethods(t *testing.T) {
	x := index(t, ruleMatching(rules.Match{Methods: []string{"DELETE"}}))
	for value, want := range map[string]int{"DELETE": 1, "DELETE,x": 1, "GET,DELETE": 1, "GET, delete": 1, "GET": 0, strings.Repeat("PUT,", 20) + "GET": 1} {
		r := request("POST - /")
		r.Headers["x-http-method-override"] = value
		if got := x.Match(nil, r); len(got) != want {
			t.Errorf("%.20q matches %d policies, want %d", value, len(got), want)
		}
	}
	for target, want := range map[string]int{"/?_method=GET&_method=DELETE&_method=GET": 1, "/?a=1;_method=DELETE": 1, "/?_method=PUT": 0} {
		r := sent(target)
		r.Method = "POST"
		if got := x.Match(nil, r); len(got) != want {
			t.Errorf("%s matches %d policies, want %d", target, len(got), want)
		}
	}
}

func TestTerms_ALowerTierAppliesToOneOfSeveralValues(t *testing.T) {
	policy := rule("shop/it")
	policy.Tiers = []rules.Tier{
		{Name: "free", Units: 1, When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "free"}}},
		{Name: "paid", Units: policy.Units * 2, When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "paid"}}},
	}
	for value, want := range map[string]string{"free": "free", "free,z": "free", "z,free": "free", "paid": "paid", "paid,z": "", "z": ""} {
		r := request("GET - /")
		r.Headers["x-plan"] = value
		if got := termsOf(t, policy, r).Tier; got != want {
			t.Errorf("%q has tier %q, want %q", value, got, want)
		}
	}
}

func TestMatch_AnAddressThatCannotBeReadAvoidsNoPolicy(t *testing.T) {
	x := index(t, ruleMatching(rules.Match{CIDRs: []string{"203.0.113.0/24"}}))
	for _, tc := range []struct {
		request *rules.Request
		want    int
	}{{&rules.Request{Domain: "shop", Path: "/", InvalidClientIP: true}, 1}, {&rules.Request{Domain: "shop", Path: "/"}, 0}} {
		if got := x.Match(nil, tc.request); len(got) != tc.want {
			t.Errorf("invalid %v: %d policies match, want %d", tc.request.InvalidClientIP, len(got), tc.want)
		}
	}
}

// What a client sends must not cost more, the more policies and descriptors there are. The bound is ten times what it takes here: without the
// bounds of each case, it takes a hundred times as long.
func TestMatch_LargeRequestsCostLittleWithManyPolicies(t *testing.T) {
	many := func(edit func(i int, r *rules.Rule)) *matching.Index {
		list := make([]rules.Rule, 1000)
		for i := range list {
			list[i] = rule(fmt.Sprintf("shop/policy-%04d", i))
			edit(i, &list[i])
		}
		return index(t, list...)
	}
	commas := request("GET - /")
	commas.Headers["x-plan"] = strings.Repeat(",", 60_000)
	fewCommas := request("GET - /")
	fewCommas.Headers["x-plan"] = strings.Repeat(",", 4000)
	descriptors := &rules.Request{Domain: "shop", NoHTTP: true}
	for range 64 {
		descriptors.Descriptors = append(descriptors.Descriptors, rules.Descriptor{{Key: "path", Value: strings.Repeat("a", 800)}})
	}
	groups := make([]any, 6500)
	for i := range groups {
		groups[i] = fmt.Sprint("group-", i)
	}
	member := request("GET - /")
	member.Claims = map[string]any{"groups": groups}
	for name, tc := range map[string]struct {
		x       *matching.Index
		request *rules.Request
		bound   time.Duration
	}{
		"a header of commas": {many(func(_ int, r *rules.Rule) {
			r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-plan", Value: "v1"}}
		}), commas, 10 * time.Millisecond},
		"a shorter header of commas": {many(func(_ int, r *rules.Rule) {
			r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-plan", Value: "v1"}}
		}), fewCommas, 10 * time.Millisecond},
		"64 descriptors": {many(func(i int, r *rules.Rule) {
			r.Match.Descriptors = []rules.DescriptorMatch{{Key: "path", Pattern: fmt.Sprintf("*b%d*", i)}}
		}), descriptors, 100 * time.Millisecond},
		"thousands of groups": {many(func(i int, r *rules.Rule) {
			if i >= 32 {
				r.Match.Methods = []string{"PUT"}
				return
			}
			for i := range 16 {
				var names []string
				for j := range 64 {
					names = append(names, fmt.Sprintf("none-%d-%d", i, j))
				}
				r.Tiers = append(r.Tiers, rules.Tier{Name: fmt.Sprint("t", i), Units: 1, When: rules.When{Groups: names}})
			}
		}), member, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			fastest := time.Hour
			for range 5 {
				start := time.Now()
				for _, m := range tc.x.Match(nil, tc.request) {
					m.Terms(tc.request, m.Identify(tc.request))
				}
				fastest = min(fastest, time.Since(start))
			}
			t.Logf("%v", fastest)
			if bound := tc.bound * slowdown; fastest > bound {
				t.Errorf("%v, want at most %v", fastest, bound)
			}
		})
	}
}
