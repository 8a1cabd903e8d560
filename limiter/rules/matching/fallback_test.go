package matching_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// withFallbacks returns a rule that counts by x-user-id, or else by a secret cookie, or else by the client address.
func withFallbacks() rules.Rule {
	r := rule("shop/it")
	r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-user-id"}
	r.Fallbacks = []rules.Identifier{{From: rules.FromCookie, Name: "sid", Secret: true}, {From: rules.FromClientIP, IPv6Prefix: 56}}
	return r
}

func TestIdentify_ReadsTheFirstSourceThatHasAnIdentifier(t *testing.T) {
	hash := testHashKey().Hash("s3cret")
	for name, tc := range map[string]struct {
		request, address, want string
		unreadable             bool
	}{
		"the first source":                       {"x-user-id=ada cookie=sid=s3cret", "203.0.113.7", "ada", false},
		"the second source, hashed":              {"cookie=sid=s3cret", "203.0.113.7", "cookie:sid:" + hash, false},
		"an ambiguous cookie: the next source":   {"cookie=sid=a;sid=b", "203.0.113.7", "address:203.0.113.7", false},
		"the network of an address":              {"", "2001:db8:1:2ff::1", "address:2001:db8:1:200::/56", false},
		"no source":                              {"", "", "", false},
		"no source, and one that is unreadable":  {"cookie=sid=a;sid=b", "", "", true},
		"a user with the address of a client":    {"x-user-id=203.0.113.7", "198.51.100.1", "203.0.113.7", false},
		"a user that looks like a fallback":      {"x-user-id=address:203.0.113.7", "198.51.100.1", "address:198.51.100.1", false},
		"the same, and there is no other source": {"x-user-id=address:203.0.113.7", "", "", true},
		"a user that looks like a cookie":        {"x-user-id=cookie:sid:" + hash, "", "", true},
		"a cookie that looks like a fallback":    {"cookie=sid=address:203.0.113.7", "", "cookie:sid:" + testHashKey().Hash("address:203.0.113.7"), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("GET - / " + tc.request)
			if tc.address != "" {
				r.ClientIP = netip.MustParseAddr(tc.address)
			}
			m := index(t, withFallbacks()).Match(nil, r)[0]
			got := m.Identify(r)
			if got != tc.want || got == "" && m.Unreadable(r) != tc.unreadable {
				t.Errorf("identifier %q, want %q (unreadable %v)", got, tc.want, tc.unreadable)
			}
		})
	}
}

func TestIdentify_ReadsFallbackExpressions(t *testing.T) {
	r := withFallbacks()
	r.Fallbacks = []rules.Identifier{{From: rules.FromExpression, Name: `request.headers["x-device"]`}}
	req := request("GET - / x-device=d1")
	if got := index(t, r).Match(nil, req)[0].Identify(req); got != "expression:d1" {
		t.Errorf("identifier %q, want that of the expression", got)
	}
}

// A rule that skips requests does not replace a default for them.
func TestMatch_SkipsRequestsWithoutAnIdentifier(t *testing.T) {
	skips := withFallbacks()
	skips.OnMissing, skips.Fallbacks = rules.SkipMissing, skips.Fallbacks[:1]
	skips.ReplacesDefaults = []string{"_cluster/standard"}
	standard := rule("_cluster/standard")
	standard.Domain, standard.AllDomains, standard.Default = "", true, true
	x := index(t, standard, skips)
	for text, want := range map[string]string{
		"GET - / x-user-id=ada":         "shop/it",
		"GET - / cookie=sid=s3cret":     "shop/it",
		"GET - /":                       "_cluster/standard",
		"GET - / cookie=sid=a;sid=b":    "shop/it", // unreadable
		"GET - / x-user-id=cookie:sid:": "shop/it", // the same
	} {
		req := request(text)
		var got []string
		for _, m := range x.Match(nil, req) {
			got = append(got, m.Rule.Policy)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: matched %v, want %s", text, got, want)
		}
	}
	for _, e := range x.Explain(request("GET - /")) {
		if e.Rule.Policy == "shop/it" && e.Failed != matching.ConditionIdentifier {
			t.Errorf("explained by condition %v, want the identifier", e.Failed)
		}
	}
}

func TestCountedAs_KnowsTheSourcesOfIdentifiers(t *testing.T) {
	x := index(t, withFallbacks())
	r, _ := x.RuleOf("shop/it")
	hash := testHashKey().Hash("s3cret")
	for text, want := range map[string]string{
		"ada":                             "ada",
		"203.0.113.7":                     "203.0.113.7",
		"address:[2001:db8:1:2ff::1]:443": "address:2001:db8:1:200::/56",
		"cookie:sid:s3cret":               "cookie:sid:" + hash,
		"cookie:sid:hash:" + hash:         "cookie:sid:" + hash,
	} {
		if got, err := r.CountedAs(text); err != nil || got != want {
			t.Errorf("%q is counted as %q (%v), want %q", text, got, err, want)
		}
	}
	if _, err := r.CountedAs("address:ada"); err == nil {
		t.Error("a name counts as an address")
	}
	if !r.Hashes("cookie:sid:"+hash) || r.Hashes("ada") || r.CountsText("cookie:sid:s3cret") || !r.CountsText("ada") {
		t.Error("a source counts secrets as text, or text as secrets")
	}
}

func TestRule_KindsFollowTheFallbacks(t *testing.T) {
	r := withFallbacks()
	if got := r.Kinds(); got != rules.PlainHTTP|rules.HTTPWithDescriptors {
		t.Errorf("kinds %b: descriptors cannot carry a header or a cookie", got)
	}
	r.Fallbacks = append(r.Fallbacks, rules.Identifier{From: rules.FromDescriptor, Name: "user"})
	if got := r.Kinds(); got != rules.PlainHTTP|rules.HTTPWithDescriptors|rules.OnlyDescriptors {
		t.Errorf("kinds %b: each kind of request can carry an identifier", got)
	}
}

// An identifier is not found again for a rule that counts by the same part of a request. What depends on the match is found for each rule.
func TestSharesIdentifier_ComparesTheSources(t *testing.T) {
	by := func(sources ...rules.Identifier) rules.Rule {
		r := rule("")
		r.Identifier, r.Fallbacks = sources[0], sources[1:]
		return r
	}
	address, user := rules.Identifier{From: rules.FromClientIP}, rules.Identifier{From: rules.FromHeader, Name: "x-user-id"}
	secret, endpoint := rules.Identifier{From: rules.FromHeader, Name: "x-user-id", Secret: true}, rules.Identifier{From: rules.FromEndpoint}
	for name, tc := range map[string]struct {
		a, b rules.Rule
		want bool
	}{
		"the address":         {by(address), by(address), true},
		"a header":            {by(user), by(user), true},
		"another part":        {by(address), by(user), false},
		"another prefix":      {by(address), by(rules.Identifier{From: rules.FromClientIP, IPv6Prefix: 56}), false},
		"a secret":            {by(user), by(secret), false},
		"a fallback":          {by(user), by(user, address), false},
		"the same fallback":   {by(user, address), by(user, address), false},
		"the endpoint":        {by(endpoint), by(endpoint), false},
		"a descriptor's name": {by(rules.Identifier{From: rules.FromDescriptor, Name: "k"}), by(rules.Identifier{From: rules.FromDescriptor, Name: "k"}), false},
		"an expression": {
			by(rules.Identifier{From: rules.FromExpression, Name: "request.host"}), by(rules.Identifier{From: rules.FromExpression, Name: "request.host"}), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.a.Policy, tc.b.Policy = "shop/a", "shop/b"
			x := index(t, tc.a, tc.b)
			a, _ := x.RuleOf("shop/a")
			b, _ := x.RuleOf("shop/b")
			if got, reverse := b.SharesIdentifier(a), a.SharesIdentifier(b); got != tc.want || reverse != tc.want {
				t.Errorf("got %v and %v", got, reverse)
			}
		})
	}
}
