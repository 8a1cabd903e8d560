package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

func TestNormalHostAndNormalPath(t *testing.T) {
	for in, want := range map[string]string{
		"API.Shop.Example": "api.shop.example", "shop.example:8080": "shop.example", "shop.example.": "shop.example",
		"shop.example.:443": "shop.example", "[2001:db8::1]:443": "[2001:db8::1]", "[2001:db8::1]": "[2001:db8::1]", "": "", ":8080": "",
		"shop.example..": "shop.example", "shop.example:80:80": "shop.example", "shop.example..:x": "shop.example", "[::1]x": "[::1]", "]": "]",
	} {
		if got := rules.NormalHost(in); got != want {
			t.Errorf("host %q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"": "/", "/v1/search?q=x": "/v1/search", "/v1//search/": "/v1/search", "/v1/../v2/./x": "/v2/x", "v1": "/v1", "/..": "/", "/a#b": "/a", "?q=x": "/",
		"/v1/%73earch": "/v1/search", "/v1%2Fsearch": "/v1/search", "/v1/%2e%2e/v2": "/v2", "/100%": "/100%", "/a%3Fb?c": "/a?b",
		"/v1/%73earch/%zz": "/v1/search/%zz", "/v1/%2e%2e/v2/%4": "/v2/%4", "/%%73": "/%s",
	} {
		if got := reading.NormalPath(in); got != want {
			t.Errorf("path %q: %q, want %q", in, got, want)
		}
	}
}

// A name in another script stays as strings.ToLower returns it: K is a Kelvin sign.
func TestNormalHeaders_LowersNamesAsTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[!-~]{0,20}`), rapid.String(), rapid.Just("X-\u212a"), rapid.Just("\xff-A")).Draw(t, "name")
		other := rapid.StringMatching(`X-[A-Za-z]{1,9}`).Draw(t, "another name")
		want := map[string]string{strings.ToLower(other): "b"}
		want[strings.ToLower(name)] = "a"
		if strings.EqualFold(name, other) {
			t.Skip("the names are equal")
		}
		got, repeated := rules.NormalHeaders(map[string][]string{name: {"a"}, other: {"b"}})
		if diff := cmp.Diff(want, got); diff != "" || repeated != nil {
			t.Error(diff, repeated)
		}
	})
}

func BenchmarkNormalHeaders(b *testing.B) {
	h := map[string][]string{
		"Accept-Encoding": {"gzip"}, "User-Agent": {"curl/8"}, "X-Forwarded-For": {"203.0.113.7"}, "X-Forwarded-Host": {"shop.example"},
		"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/orders"}, "X-Tenant-Id": {"acme"},
	}
	b.ReportAllocs()
	for b.Loop() {
		rules.NormalHeaders(h)
	}
}

func TestNormalHeaders_JoinsLines(t *testing.T) {
	got, repeated := rules.NormalHeaders(map[string][]string{"X-Plan": {"free", "paid"}, "Cookie": {"a=1", "b=2"}, "x-empty": nil})
	want := map[string]string{"x-plan": "free,paid", "cookie": "a=1; b=2", "x-empty": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Equal(repeated, []string{"x-plan"}) {
		t.Errorf("headers with several lines: %q", repeated)
	}
}

func TestSetQuery_ReadsAQueryAsServersDo(t *testing.T) {
	many := strings.Repeat("&", 20_000)
	for target, want := range map[string]struct {
		usual  map[string][]string
		others []map[string][]string // without semicolons as separators, and with them
	}{
		"/v1/search":        {},
		"/v1/search?":       {usual: map[string][]string{}},
		"/v1?q=x&q=y&a=%2F": {usual: map[string][]string{"q": {"x", "y"}, "a": {"/"}}},
		// url.ParseQuery returns nothing then, and a client would hide its parameters from policies.
		"/v1?" + many + "q=x": {usual: map[string][]string{"q": {"x"}}},
		"/v1/search#?q=x":     {usual: map[string][]string{}, others: []map[string][]string{{"q": {"x"}}, {"q": {"x"}}}},
		"/v1?q=x#&b=1":        {usual: map[string][]string{"q": {"x"}}, others: []map[string][]string{{"q": {"x#"}, "b": {"1"}}, {"q": {"x#"}, "b": {"1"}}}},
		"/v1?q=%zz&a=1":       {usual: map[string][]string{"a": {"1"}}, others: []map[string][]string{{"q": {"%zz"}, "a": {"1"}}, {"q": {"%zz"}, "a": {"1"}}}},
		"/v1?q=%2":            {usual: map[string][]string{}, others: []map[string][]string{{"q": {"%2"}}, {"q": {"%2"}}}},
		"/v1?q=1;a=2&b+c=%3b&=d": {
			usual:  map[string][]string{"b c": {";"}, "": {"d"}},
			others: []map[string][]string{{"q": {"1;a=2"}, "b c": {";"}, "": {"d"}}, {"q": {"1"}, "a": {"2"}, "b c": {";"}, "": {"d"}}},
		},
	} {
		var r rules.Request
		r.SetQuery(target)
		if diff := cmp.Diff(want.usual, r.Query) + cmp.Diff(want.others, r.OtherQueries); diff != "" || r.PartialQuery {
			t.Errorf("%.40s (-want +got), partial %v:\n%s", target, r.PartialQuery, diff)
		}
		if (r.RawQuery != "") != (want.others != nil) {
			t.Errorf("%.40s: raw query %q", target, r.RawQuery)
		}
	}
	var r rules.Request
	r.SetQuery("/v1?" + strings.Repeat("a&", 5000) + "q=x")
	if !r.PartialQuery || len(r.Query["a"]) != 4096 {
		t.Errorf("5 001 parameters: partial %v, %d read", r.PartialQuery, len(r.Query["a"]))
	}
}

func TestSetTarget_APlainPathTakesNoMemory(t *testing.T) {
	for _, target := range []string{"/v1/search", "/v1/search/?q=x", "/", "/a.b/c-d_e~f", "/\u00e9"} {
		var r rules.Request
		if got := testing.AllocsPerRun(100, func() { r.SetTarget(target) }); got > 0 || r.RawPath != "" {
			t.Errorf("%s: %v allocations, raw path %q, want none", target, got, r.RawPath)
		}
	}
}

func BenchmarkSetTarget(b *testing.B) {
	for name, target := range map[string]string{
		"plain": "/v1/search/images", "escaped": "/v1/%73earch/images", "ambiguous": "/v1/search/..%2F..", "60 KB": strings.Repeat("/a", 30<<10),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var r rules.Request
				r.SetTarget(target)
			}
		})
	}
}
