package matching_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules"
)

// identifyByClaim returns the identifier that a rule reads from the claim with this name.
func identifyByClaim(t testing.TB, name string, claims map[string]any) string {
	t.Helper()
	r := rule("shop/it")
	r.Identifier = rules.Identifier{From: rules.FromClaim, Name: name}
	req := request("GET - /")
	req.Claims = claims
	return index(t, r).Match(nil, req)[0].Identify(req)
}

func TestIdentify_ReadsClaims(t *testing.T) {
	for name, tc := range map[string]struct{ claim, json, want string }{
		"a string":                    {"sub", `{"sub":"u1"}`, "u1"},
		"a string is unchanged":       {"sub", `{"sub":" 1e3 "}`, " 1e3 "},
		"absent":                      {"sub", `{}`, ""},
		"null":                        {"sub", `{"sub":null}`, ""},
		"an empty string":             {"sub", `{"sub":""}`, ""},
		"an integer":                  {"id", `{"id":1000}`, "1000"},
		"an integer with an exponent": {"id", `{"id":1e3}`, "1000"},
		"an integer with a point":     {"id", `{"id":1000.0}`, "1000"},
		"a fraction":                  {"id", `{"id":0.50}`, "0.5"},
		"a negative number":           {"id", `{"id":-7}`, "-7"},
		"negative zero":               {"id", `{"id":-0.0}`, "0"},
		"true":                        {"id", `{"id":true}`, "true"},
		"a list":                      {"id", `{"id":["a"]}`, ""},
		"an object":                   {"id", `{"id":{"a":"b"}}`, ""},
		"a nested claim":              {"realm.tenant", `{"realm":{"tenant":"acme"}}`, "acme"},
		"a deeply nested claim":       {"a.b.c.d", `{"a":{"b":{"c":{"d":5}}}}`, "5"},
		"the exact name takes precedence over the nested one": {"realm.tenant", `{"realm":{"tenant":"nested"},"realm.tenant":"exact"}`, "exact"},
		"an exact name that is null":                          {"realm.tenant", `{"realm":{"tenant":"nested"},"realm.tenant":null}`, ""},
		"a name with dots":                                    {"https://shop.example/tenant", `{"https://shop.example/tenant":"acme"}`, "acme"},
		"nested in a name with dots":                          {"https://shop.example/claims.tenant", `{"https://shop.example/claims":{"tenant":"acme"}}`, "acme"},
		"nested in a string":                                  {"realm.tenant", `{"realm":"acme"}`, ""},
		"a dot at the end":                                    {"realm.", `{"realm":{"":"acme"}}`, "acme"},
		"a dot at the beginning":                              {".tenant", `{"":{"tenant":"acme"}}`, ""},
		"a string of digits":                                  {"sub", `{"sub":"1000"}`, "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			var floats map[string]any
			if err := json.Unmarshal([]byte(tc.json), &floats); err != nil {
				t.Fatal(err)
			}
			var numbers map[string]any
			d := json.NewDecoder(strings.NewReader(tc.json))
			d.UseNumber()
			if err := d.Decode(&numbers); err != nil {
				t.Fatal(err)
			}
			for as, claims := range map[string]map[string]any{"float64": floats, "json.Number": numbers} {
				if got := identifyByClaim(t, tc.claim, claims); got != tc.want {
					t.Errorf("as %s: %q, want %q", as, got, tc.want)
				}
			}
		})
	}
}

func TestIdentify_ReadsClaimsOfAllNumberTypes(t *testing.T) {
	for want, claims := range map[string][]any{
		"1000":                     {1000, int32(1000), int64(1000), uint32(1000), uint64(1000), float32(1000), 1000.0, json.Number("1E+3"), json.Number("0.1e4")},
		"9007199254740993":         {int64(9007199254740993), json.Number("9007199254740993"), json.Number("9007199254740993.0")},
		"18446744073709551615":     {uint64(math.MaxUint64), json.Number("18446744073709551615")},
		"100000000000000000000":    {1e20, json.Number("1e20")},
		"1234567890123456789012e0": {json.Number("1234567890123456789012"), json.Number("1.234567890123456789012e21")},
		"0.000000000000000000001":  {1e-21},
		"1.23456":                  {1.23456, float32(1.23456), json.Number("1.23456")},
		"1e21":                     {1e21, json.Number("1" + strings.Repeat("0", 21))},
		"1e-22":                    {1e-22, json.Number("0.0000000000000000000001")},
		"1e2000000000":             {json.Number("1e2000000000")},
		"0":                        {json.Number("0e99999"), math.Copysign(0, -1), json.Number("-0")},
		"":                         {math.NaN(), math.Inf(1), math.Inf(-1), json.Number("1e99999999999999999999"), json.Number("x"), json.Number(""), json.Number("1e"), json.Number("1e1.5"), json.Number("1e2147483648"), json.Number("--1"), struct{}{}},
	} {
		for _, claim := range claims {
			if got := identifyByClaim(t, "id", map[string]any{"id": claim}); got != want {
				t.Errorf("%T %v: %q, want %q", claim, claim, got, want)
			}
		}
	}
}

// TestIdentify_IgnoresTheNotationOfNumbers writes numbers in many JSON notations. Equal numbers must have equal
// identifiers, and different numbers different ones.
func TestIdentify_IgnoresTheNotationOfNumbers(t *testing.T) {
	jsonNumber := rapid.Custom(func(t *rapid.T) json.Number {
		sign := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
		integer := rapid.SampledFrom([]string{"0", "1", "10", "12", "120", "1000000000000000000000000"}).Draw(t, "integer")
		fraction := rapid.SampledFrom([]string{"", ".0", ".5", ".05", ".50", ".0000000000000000000000001"}).Draw(t, "fraction")
		exponent := rapid.SampledFrom([]string{"", "e0", "E+1", "e-1", "e23", "e-023"}).Draw(t, "exponent")
		return json.Number(sign + integer + fraction + exponent)
	})
	rapid.Check(t, func(rt *rapid.T) {
		a, b := jsonNumber.Draw(rt, "a"), jsonNumber.Draw(rt, "b")
		x, _ := new(big.Rat).SetString(string(a))
		y, _ := new(big.Rat).SetString(string(b))
		same := identifyByClaim(t, "id", map[string]any{"id": a}) == identifyByClaim(t, "id", map[string]any{"id": b})
		if same != (x.Cmp(y) == 0) {
			rt.Fatalf("%s and %s have the same identifier: %t", a, b, same)
		}
		got, ok := new(big.Rat).SetString(identifyByClaim(t, "id", map[string]any{"id": a}))
		if !ok || got.Cmp(x) != 0 {
			rt.Fatalf("%s became %v", a, got)
		}
	})
}

func TestIdentify_EvaluatesExpressions(t *testing.T) {
	for text, want := range map[string]string{
		`request.host`:                                    "api.shop.example",
		`request.path.split("/")[1]`:                      "v1",
		`request.claims.realm.tenant`:                     "acme",
		`request.claims.weight`:                           "3",
		`request.claims.exact`:                            "7",
		`request.claims.admin`:                            "true",
		`request.claims.groups`:                           "",
		`request.headers["x-none"]`:                       "",
		`request.claims.sub.substring(99)`:                "",
		`request.claims.sub + request.method`:             "u1GET",
		`""`:                                              "",
		`request.headers[?"x-none"].orValue("anonymous")`: "anonymous",
	} {
		r := rule("shop/it")
		r.Identifier = rules.Identifier{From: rules.FromExpression, Name: text}
		req := fullRequest()
		if got := index(t, r).Match(nil, req)[0].Identify(req); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestIdentify_NormalizesAndHashesTheResultOfAnExpression(t *testing.T) {
	r := rule("shop/it")
	r.Identifier = rules.Identifier{From: rules.FromExpression, Name: `"2001:db8:1:2:3::1"`, Address: true, IPv6Prefix: 48}
	req := fullRequest()
	if got, want := index(t, r).Match(nil, req)[0].Identify(req), "2001:db8:1::/48"; got != want {
		t.Errorf("address: %q, want %q", got, want)
	}
	r.Identifier = rules.Identifier{From: rules.FromClaim, Name: "sub", Secret: true}
	if got := index(t, r).Match(nil, req)[0].Identify(req); len(got) != 32 {
		t.Errorf("secret: %q, want a hash", got)
	}
}

func TestIdentify_CountsIPv6AddressesByPrefix(t *testing.T) {
	for bits, want := range map[int]string{0: "2001:db8:1:203::/64", 1: "::/1", 48: "2001:db8:1::/48", 56: "2001:db8:1:200::/56", 128: "2001:db8:1:203:4:5:6:7/128"} {
		r := rule("shop/it")
		r.Identifier = rules.Identifier{From: rules.FromClientIP, IPv6Prefix: bits}
		x := index(t, r)
		req := requestFrom("2001:db8:1:203:4:5:6:7%eth0")
		if got := x.Match(nil, req)[0].Identify(req); got != want {
			t.Errorf("/%d: %q, want %q", bits, got, want)
		}
		req = requestFrom("::ffff:203.0.113.7")
		if got := x.Match(nil, req)[0].Identify(req); got != "203.0.113.7" {
			t.Errorf("/%d: the IPv4-mapped address is %q", bits, got)
		}
	}
}

func BenchmarkClaim(b *testing.B) {
	for name, claim := range map[string]any{"text": "acme", "number": json.Number("1e3"), "float": 12345.0} {
		b.Run(fmt.Sprint("claim=", name), func(b *testing.B) {
			r := rule("shop/it")
			r.Identifier = rules.Identifier{From: rules.FromClaim, Name: "realm.tenant"}
			req := request("GET - /")
			req.Claims = map[string]any{"realm": map[string]any{"tenant": claim}}
			m := index(b, r).Match(nil, req)
			b.ReportAllocs()
			for b.Loop() {
				m[0].Identify(req)
			}
		})
	}
}
