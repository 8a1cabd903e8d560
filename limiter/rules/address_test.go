package rules_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestIdentify_CountsAddressIdentifiersLikeClientAddresses(t *testing.T) {
	rule := rules.Compiled{Rule: rules.Rule{
		Identifier: rules.Identifier{From: rules.FromHeader, Name: "cf-connecting-ip", Address: true},
	}}
	for name, tc := range map[string]struct{ header, want string }{
		"an IPv4 address is unchanged":                  {"203.0.113.7", "203.0.113.7"},
		"surrounding spaces are ignored":                {" 203.0.113.7\t", "203.0.113.7"},
		"an IPv4-mapped IPv6 address is IPv4":           {"::ffff:203.0.113.7", "203.0.113.7"},
		"an IPv6 address is counted as its /64 network": {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		"another notation is the same client":           {"2001:0DB8:0001:0002::1", "2001:db8:1:2::/64"},
		"a zone is ignored":                             {"fe80::1%eth0", "fe80::/64"},
		"a list of addresses is invalid":                {"203.0.113.7, 10.0.0.1", ""},
		"a word is invalid":                             {"unknown", ""},
		"a leading zero is invalid":                     {"203.0.113.07", ""},
		"an absent header has no identifier":            {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := &rules.Request{Headers: map[string]string{"cf-connecting-ip": tc.header}}
			if got := (rules.Matched{Rule: &rule}).Identify(request); got != tc.want {
				t.Errorf("Identify(%q) = %q, want %q", tc.header, got, tc.want)
			}
		})
	}
}
