package matching_test

import (
	"net/netip"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestMatched_UnreadableDiffersFromMissing(t *testing.T) {
	const missing, unreadable, readable = "missing", "unreadable", "readable"
	cookies := func(line string) rules.Request { return rules.Request{Headers: map[string]string{"cookie": line}} }
	claim := func(value any) rules.Request { return rules.Request{Claims: map[string]any{"sub": value}} }
	named := func(from rules.IdentifierSource, name string) rules.Identifier {
		return rules.Identifier{From: from, Name: name}
	}
	asAddress := func(id rules.Identifier) rules.Identifier { id.Address = true; return id }
	header := func(value string) rules.Request { return rules.Request{Headers: map[string]string{"x-a": value}} }
	text := named(rules.FromExpression, `request.headers["x-a"]`)
	number := named(rules.FromExpression, `string(int(request.headers["x-a"]))`)
	dyn := named(rules.FromExpression, `request.claims.sub`)
	for name, test := range map[string]struct {
		id      rules.Identifier
		request rules.Request
		want    string
	}{
		"an address":                        {named(rules.FromClientIP, ""), rules.Request{ClientIP: netip.MustParseAddr("203.0.113.7")}, readable},
		"no address":                        {named(rules.FromClientIP, ""), rules.Request{}, missing},
		"an invalid address":                {named(rules.FromClientIP, ""), rules.Request{InvalidClientIP: true}, unreadable},
		"a header":                          {named(rules.FromHeader, "x-a"), header("a"), readable},
		"no header":                         {named(rules.FromHeader, "x-a"), rules.Request{}, missing},
		"an empty header":                   {named(rules.FromHeader, "x-a"), header(""), missing},
		"an address in a header":            {asAddress(named(rules.FromHeader, "x-a")), header(" 203.0.113.7 "), readable},
		"no address in a header":            {asAddress(named(rules.FromHeader, "x-a")), header("203.0.113.7:http"), unreadable},
		"an address and a port in a header": {asAddress(named(rules.FromHeader, "x-a")), header("203.0.113.7:80"), readable},
		"a network in a header":             {asAddress(named(rules.FromHeader, "x-a")), header("203.0.113.0/24"), readable},
		"an address in no header":           {asAddress(named(rules.FromHeader, "x-a")), rules.Request{}, missing},
		"a cookie":                          {named(rules.FromCookie, "a"), cookies("a=1; b=2"), readable},
		"another cookie":                    {named(rules.FromCookie, "a"), cookies("b=2"), missing},
		"a malformed cookie":                {named(rules.FromCookie, "a"), cookies("b; a=1\"2"), unreadable},
		"another malformed cookie":          {named(rules.FromCookie, "a"), cookies("b; a=1"), readable},
		"a query parameter that is missing": {named(rules.FromQuery, "a"), rules.Request{Query: map[string][]string{"b": {"1"}}}, missing},
		"a claim":                           {named(rules.FromClaim, "sub"), claim("ada"), readable},
		"no claim":                          {named(rules.FromClaim, "sub"), rules.Request{}, missing},
		"a claim null":                      {named(rules.FromClaim, "sub"), claim(nil), missing},
		"an empty claim":                    {named(rules.FromClaim, "sub"), claim(""), missing},
		"a claim with a list":               {named(rules.FromClaim, "sub"), claim([]any{"ada"}), unreadable},
		"a claim with an object":            {named(rules.FromClaim, "sub"), claim(map[string]any{"a": 1}), unreadable},
		"a claim that did not fit":          {named(rules.FromClaim, "sub"), rules.Request{MissingClaims: true}, unreadable},
		"a claim, and others did not fit":   {named(rules.FromClaim, "sub"), rules.Request{MissingClaims: true, Claims: map[string]any{"sub": "ada"}}, readable},
		"an expression over missing claims": {dyn, rules.Request{MissingClaims: true}, unreadable},
		"a descriptor with an address":      {asAddress(named(rules.FromDescriptor, "ip")), rules.Request{Descriptors: []rules.Descriptor{{{Key: "ip", Value: "203.0.113.7"}}}}, readable},
		"a descriptor without an address":   {asAddress(named(rules.FromDescriptor, "ip")), rules.Request{Descriptors: []rules.Descriptor{{{Key: "ip", Value: "unknown"}}}}, unreadable},
		"an empty descriptor":               {asAddress(named(rules.FromDescriptor, "ip")), rules.Request{Descriptors: []rules.Descriptor{{{Key: "ip"}}}}, missing},
		"an expression":                     {text, header("a"), readable},
		"an expression over nothing":        {text, rules.Request{}, missing},
		"an expression that is empty":       {text, header(""), missing},
		"an expression that fails":          {number, header("many"), unreadable},
		"an expression of another type":     {dyn, claim([]any{"ada"}), unreadable},
		"an expression without an address":  {asAddress(text), header("a"), unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			rule := rule("shop/a")
			rule.Identifier, rule.Match = test.id, rules.Match{}
			test.request.Domain = rule.Domain
			if test.request.Descriptors == nil {
				test.request.Descriptors = []rules.Descriptor{{{Key: "other"}}}
			}
			m := index(t, rule).Match(nil, &test.request)
			if len(m) != 1 {
				t.Fatalf("%d rules match, want 1", len(m))
			}
			got := readable
			switch {
			case m[0].Identify(&test.request) != "":
			case m[0].Unreadable(&test.request):
				got = unreadable
			default:
				got = missing
			}
			if got != test.want {
				t.Errorf("the identifier is %s, want %s", got, test.want)
			}
		})
	}
}

func TestUnreadableKey_IsNotTheKeyOfAnyIdentifier(t *testing.T) {
	rule := rule("shop/a")
	rule.PerEndpoint = true
	request := &rules.Request{Domain: rule.Domain, Path: "/v1"}
	m := index(t, rule).Match(nil, request)[0]
	for _, identifier := range []string{"", "?", "-", "%3F"} {
		if m.UnreadableKey() == m.Key(identifier) {
			t.Errorf("the key for unreadable identifiers is also the key of %q: %s", identifier, m.Key(identifier))
		}
	}
	const want = "weir:throttle:tenant:{?}:shop/a:/v1:"
	if got := m.UnreadableKey(); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("key %s, want %s…", got, want)
	}
}
