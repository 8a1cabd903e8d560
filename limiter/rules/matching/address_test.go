package matching_test

import (
	"net/netip"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestIdentify_CountsAddressIdentifiersLikeClientAddresses(t *testing.T) {
	rule := identifiedBy(t, rules.Identifier{From: rules.FromHeader, Name: "cf-connecting-ip", Address: true})
	for name, tc := range map[string]struct{ header, want string }{
		"an IPv4 address is unchanged":                  {"203.0.113.7", "203.0.113.7"},
		"surrounding spaces are ignored":                {" 203.0.113.7\t", "203.0.113.7"},
		"an IPv4-mapped IPv6 address is IPv4":           {"::ffff:203.0.113.7", "203.0.113.7"},
		"an IPv6 address is counted as its /64 network": {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		"another notation is the same client":           {"2001:0DB8:0001:0002::1", "2001:db8:1:2::/64"},
		"a zone is ignored":                             {"fe80::1%eth0", "fe80::/64"},
		"a port is ignored":                             {"203.0.113.1:1001", "203.0.113.1"},
		"brackets and a port are ignored":               {"[2001:db8:1:2::1]:4711", "2001:db8:1:2::/64"},
		"quotes are ignored":                            {`"203.0.113.7"`, "203.0.113.7"},
		"a masked IPv4 address is a network":            {"10.0.0.0/24", "10.0.0.0/24"},
		"a masked IPv6 address is a network":            {"2001:db8::/48", "2001:db8::/48"},
		"an IPv4 address within NAT64 is IPv4":          {"64:ff9b::203.0.113.7", "203.0.113.7"},
		"an IPv4-compatible address is IPv4":            {"::203.0.113.7", "203.0.113.7"},
		"a list of addresses is invalid":                {"203.0.113.7, 10.0.0.1", ""},
		"a word is invalid":                             {"unknown", ""},
		"a leading zero is invalid":                     {"203.0.113.07", ""},
		"an absent header has no identifier":            {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := &rules.Request{Headers: map[string]string{"cf-connecting-ip": tc.header}}
			if got := (matching.Matched{Rule: rule}).Identify(request); got != tc.want {
				t.Errorf("Identify(%q) = %q, want %q", tc.header, got, tc.want)
			}
		})
	}
}

// A client is counted under one identifier, whichever of its addresses and notations a caller sends.
func TestIdentify_CountsTheClientIPLikeAddressIdentifiers(t *testing.T) {
	client := identifiedBy(t, rules.Identifier{From: rules.FromClientIP})
	header := identifiedBy(t, rules.Identifier{From: rules.FromHeader, Name: "x", Address: true})
	for _, text := range []string{
		"203.0.113.7", "::ffff:203.0.113.7", "64:ff9b::203.0.113.7", "::203.0.113.7", "2002:cb00:7107::1", "2001:db8::1", "fe80::1%eth0", "64:ff9b:1::1", "::1",
	} {
		request := &rules.Request{ClientIP: netip.MustParseAddr(text), Headers: map[string]string{"x": text}}
		byClient, byHeader := (matching.Matched{Rule: client}).Identify(request), (matching.Matched{Rule: header}).Identify(request)
		if byClient != byHeader || byClient == "" {
			t.Errorf("%s: %q as the client, %q in a header", text, byClient, byHeader)
		}
	}
}

// identifiedBy returns a compiled rule with this identifier.
func identifiedBy(t *testing.T, identifier rules.Identifier) *matching.Compiled {
	r := rule("shop/it")
	r.Identifier = identifier
	c, _ := index(t, r).RuleOf("shop/it")
	return c
}
