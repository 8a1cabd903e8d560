package matching_test

import (
	"net/netip"
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// termsOf returns the terms of r for req. It fails the test if r does not match.
func termsOf(t *testing.T, r rules.Rule, req *rules.Request) matching.Terms {
	t.Helper()
	m := index(t, r).Match(nil, req)
	if len(m) != 1 {
		t.Fatalf("%d rules match, want 1", len(m))
	}
	return m[0].Terms(req, m[0].Identify(req))
}

func TestTerms_SelectsTheFirstTierThatMatches(t *testing.T) {
	staff := &rules.Request{
		Domain: "shop", Headers: map[string]string{"x-tenant-id": "acme", "x-plan": "paid"}, ClientIP: netip.MustParseAddr("::ffff:10.1.2.3"),
		Claims: map[string]any{"groups": []any{7, "staff"}},
	}
	for name, tc := range map[string]struct {
		when []rules.When
		want string
	}{
		"no tiers":                            {nil, ""},
		"a header":                            {[]rules.When{{Header: &rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "paid"}}}, "0"},
		"a header by regular expression":      {[]rules.When{{Header: &rules.HeaderMatch{Type: rules.HeaderRegex, Name: "x-plan", Value: "p.*d"}}}, "0"},
		"a header that does not match":        {[]rules.When{{Header: &rules.HeaderMatch{Type: rules.HeaderPresent, Name: "x-plan", Invert: true}}}, ""},
		"one of the identifiers":              {[]rules.When{{Identifiers: []string{"globex", "acme"}}}, "0"},
		"another identifier":                  {[]rules.When{{Identifiers: []string{"globex", "ACME", "acm"}}}, ""},
		"a network":                           {[]rules.When{{CIDRs: []string{"10.0.0.0/8"}}}, "0"},
		"another network":                     {[]rules.When{{CIDRs: []string{"192.0.2.0/24"}}}, ""},
		"a group":                             {[]rules.When{{Groups: []string{"ops", "staff"}}}, "0"},
		"another group":                       {[]rules.When{{Groups: []string{"ops", "7"}}}, ""},
		"an expression":                       {[]rules.When{{Expression: `request.headers["x-plan"] == "paid"`}}, "0"},
		"an expression that is false":         {[]rules.When{{Expression: `request.headers["x-plan"] == "free"`}}, ""},
		"an expression over an absent header": {[]rules.When{{Expression: `request.headers["x-none"] != "free"`}}, ""},
		"an expression that fails":            {[]rules.When{{Expression: `int(request.headers["x-plan"]) > 0`}}, ""},
		"a claim that is not a bool":          {[]rules.When{{Expression: `request.claims.groups[1]`}}, ""},
		"two tiers match: the first":          {[]rules.When{{Groups: []string{"staff"}}, {Identifiers: []string{"acme"}}}, "0"},
		"only the second tier matches":        {[]rules.When{{Groups: []string{"ops"}}, {Identifiers: []string{"acme"}}}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("shop/it")
			for i, when := range tc.when {
				r.Tiers = append(r.Tiers, rules.Tier{Name: string(rune('0' + i)), When: when, Units: int64(1000 + i)})
			}
			got := termsOf(t, r, staff)
			want := int64(100)
			if tc.want != "" {
				want = 1000 + int64(tc.want[0]-'0')
			}
			if got.Tier != tc.want || got.Limit.Units() != want || got.Unlimited || got.Cost != 1 {
				t.Errorf("tier %q with %v at cost %d, want %q with %d at 1", got.Tier, got.Limit, got.Cost, tc.want, want)
			}
		})
	}
}

func TestTerms_ReadsGroupsFromClaims(t *testing.T) {
	r := rule("shop/it")
	r.Tiers = []rules.Tier{{Name: "staff", When: rules.When{Groups: []string{"staff"}}, Units: 1000}}
	for name, tc := range map[string]struct {
		groups any
		want   string
	}{
		"a list from JSON":     {[]any{"a", "staff"}, "staff"},
		"a list of strings":    {[]string{"staff"}, "staff"},
		"one string":           {"staff", "staff"},
		"a string with commas": {"staff,ops", ""},
		"an empty list":        {[]any{}, ""},
		"an object":            {map[string]any{"staff": true}, ""},
		"no groups":            {nil, ""},
	} {
		req := request("GET - /")
		req.Claims = map[string]any{"groups": tc.groups}
		if got := termsOf(t, r, req).Tier; got != tc.want {
			t.Errorf("%s: tier %q, want %q", name, got, tc.want)
		}
	}
}

func TestTerms_ComparesHashedSecrets(t *testing.T) {
	r := rule("shop/it")
	r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-api-key", Secret: true}
	r.Tiers = []rules.Tier{{Name: "paid", When: rules.When{Identifiers: []string{testHashKey().Hash("s3cret")}}, Units: 1000}}
	if got := termsOf(t, r, request("GET - / x-api-key=s3cret")).Tier; got != "paid" {
		t.Errorf("the key selects tier %q, want paid", got)
	}
	if got := termsOf(t, r, request("GET - / x-api-key="+testHashKey().Hash("s3cret"))).Tier; got != "" {
		t.Errorf("the hash of the key, sent as a key, selects tier %q, want no tier", got)
	}
}

func TestTerms_SelectsNoTierOfIdentifiersWithoutIdentifier(t *testing.T) {
	r := rule("shop/it")
	r.Tiers = []rules.Tier{{Name: "empty", When: rules.When{Identifiers: []string{"", "-"}}, Units: 1000}}
	if got := termsOf(t, r, request("GET - /")).Tier; got != "" {
		t.Errorf("tier %q, want no tier", got)
	}
}

func TestTerms_ReturnsTheLimitOfTheTier(t *testing.T) {
	r := rule("shop/it")
	r.Algorithm, r.Burst = limiter.TokenBucket, 150
	r.Tiers = []rules.Tier{
		{Name: "burst", When: rules.When{Groups: []string{"burst"}}, Units: 1000, Burst: 3000},
		{Name: "plain", When: rules.When{Groups: []string{"plain"}}, Units: 1000},
		{Name: "free", When: rules.When{Groups: []string{"free"}}, Unlimited: true},
	}
	for group, want := range map[string]int64{"burst": 3000, "plain": 1000, "": 150, "free": 150} {
		req := request("GET - /")
		req.Claims = map[string]any{"groups": group}
		got := termsOf(t, r, req)
		if got.Limit.Burst() != want || got.Limit.Algorithm() != limiter.TokenBucket || got.Limit.Window().Seconds() != 60 || got.Tier != group {
			t.Errorf("tier %q: %v, burst %d, want %d", got.Tier, got.Limit, got.Limit.Burst(), want)
		}
		if got.Unlimited != (group == "free") {
			t.Errorf("tier %q is unlimited: %t", got.Tier, got.Unlimited)
		}
	}
}

func TestTerms_ReturnsTheCost(t *testing.T) {
	header := func(value string) *rules.Request { return request("GET - / x-cost=" + value) }
	wholeLimit := rule("shop/it").Units
	fromHeader, fromExpression := &rules.Cost{Header: "x-cost"}, &rules.Cost{Expression: `int(request.headers["x-cost"])`}
	for name, tc := range map[string]struct {
		cost *rules.Cost
		req  *rules.Request
		want int64
	}{
		"the highest value":                   {&rules.Cost{Value: 1_000_000_000}, header("7"), 1_000_000_000},
		"no cost in the policy":               {nil, header("7"), 1},
		"a value":                             {&rules.Cost{Value: 5}, header("7"), 5},
		"a header":                            {fromHeader, header("7"), 7},
		"leading zeros":                       {fromHeader, header("007"), 7},
		"zero":                                {fromHeader, header("0"), 0},
		"the maximum":                         {fromHeader, header("1000000000"), 1_000_000_000},
		"above the maximum":                   {fromHeader, header("1000000001"), 1_000_000_000},
		"above the range of int64":            {fromHeader, header("99999999999999999999"), 1_000_000_000},
		"several values":                      {fromHeader, header("5,0"), 5},
		"one of several is no number":         {fromHeader, header("x,7"), 7},
		"negative":                            {fromHeader, header("-5"), 1},
		"with a sign":                         {fromHeader, header("+5"), 1},
		"a fraction":                          {fromHeader, header("1.5"), 1},
		"hexadecimal":                         {fromHeader, header("0x10"), 1},
		"underscores":                         {fromHeader, header("1_000"), 1},
		"a word":                              {fromHeader, header("many"), 1},
		"an empty header":                     {fromHeader, header(""), 1},
		"no header":                           {fromHeader, request("GET - /"), 1},
		"an expression":                       {fromExpression, header("7"), 7},
		"an expression, zero":                 {fromExpression, header("0"), 0},
		"an expression, negative":             {fromExpression, header("-5"), 1},
		"an expression, the maximum":          {fromExpression, header("1000000000"), 1_000_000_000},
		"an expression, above the maximum":    {fromExpression, header("1000000001"), 1_000_000_000},
		"an expression that fails":            {fromExpression, header("many"), wholeLimit},
		"an expression, above int64":          {fromExpression, header("99999999999999999999"), wholeLimit},
		"an expression that overflows":        {&rules.Cost{Expression: `int(request.headers["x-cost"]) * 1000`}, header("9223372036854775807"), wholeLimit},
		"a division by zero":                  {&rules.Cost{Expression: `100 / int(request.headers["x-cost"])`}, header("0"), wholeLimit},
		"an expression over an absent header": {fromExpression, request("GET - /"), 1},
		"a claim":                             {&rules.Cost{Expression: `request.claims.weight`}, fullRequest(), 3},
		"a claim above 2^53":                  {&rules.Cost{Expression: `request.claims.huge`}, fullRequest(), 1_000_000_000},
		"a claim above the range of a double": {&rules.Cost{Expression: `request.claims.big`}, fullRequest(), 1_000_000_000},
		"a claim far below 0":                 {&rules.Cost{Expression: `-request.claims.huge`}, fullRequest(), 1},
		"a claim that is no number":           {&rules.Cost{Expression: `request.claims.junk`}, fullRequest(), wholeLimit},
		"a claim with a fraction":             {&rules.Cost{Expression: `request.claims.half`}, fullRequest(), 3},
		"a claim that is a string":            {&rules.Cost{Expression: `request.claims.sub`}, fullRequest(), wholeLimit},
		"a size":                              {&rules.Cost{Expression: `size(request.query["q"]) * 10`}, fullRequest(), 20},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("shop/it")
			r.Cost = tc.cost
			if got := termsOf(t, r, tc.req).Cost; got != tc.want {
				t.Errorf("cost %d, want %d", got, tc.want)
			}
		})
	}
}
