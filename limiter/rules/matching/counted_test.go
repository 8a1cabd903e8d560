package matching_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// countedBy returns the only rule of an index.
func countedBy(t *testing.T, id rules.Identifier) *matching.Compiled {
	t.Helper()
	key := limiter.RandomHashKey()
	set := rules.Set{HashKey: key.ID(), Rules: []rules.Rule{{
		Policy: "shop/a", Domain: "shop", Axis: "Tenant", Identifier: id, Algorithm: limiter.FixedWindow, Units: 1, WindowSeconds: 60,
	}}}
	index, err := matching.NewIndex(set, "sha256:1", "weir:", matching.WithHashKey(key))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(index.Rules())[0]
}

func TestCountedAs_AnAddressIsThatOfOneClient(t *testing.T) {
	wide := rules.Identifier{From: rules.FromHeader, Name: "x-client", Address: true, IPv6Prefix: 48}
	for _, c := range []struct {
		id          rules.Identifier
		given, want string
		err         string
	}{
		{rules.Identifier{From: rules.FromClientIP}, "203.0.113.7", "203.0.113.7", ""},
		{rules.Identifier{From: rules.FromClientIP}, "203.0.113.7/32", "203.0.113.7", ""},
		{rules.Identifier{From: rules.FromClientIP}, "::ffff:203.0.113.7", "203.0.113.7", ""},
		{rules.Identifier{From: rules.FromClientIP}, "2001:DB8:0::1", "2001:db8::/64", ""},
		{rules.Identifier{From: rules.FromClientIP}, "2001:db8::/64", "2001:db8::/64", ""},
		{rules.Identifier{From: rules.FromClientIP}, "2001:db8::1/64", "2001:db8::/64", ""},
		{rules.Identifier{From: rules.FromClientIP}, "-", "-", ""},
		{wide, "2001:db8:1:2::1", "2001:db8:1::/48", ""},
		{wide, "2001:db8:1::/48", "2001:db8:1::/48", ""},
		{rules.Identifier{From: rules.FromClientIP}, "10.0.0.0/8", "", "is not one client: policy shop/a counts each IPv4 address and each IPv6 /64 separately"},
		{rules.Identifier{From: rules.FromClientIP}, "10.0.0.1/24", "", "is not one client"},
		{rules.Identifier{From: rules.FromClientIP}, "10.0.0.1/x", "", "is no address"},
		{rules.Identifier{From: rules.FromClientIP}, "2001:db8::/32", "", "is not one client"},
		{rules.Identifier{From: rules.FromClientIP}, "2001:db8::1/128", "", "is not one client"},
		{wide, "2001:db8::/64", "", "each IPv6 /48 separately"},
		{wide, "10.0.0.0/24", "10.0.0.0/24", ""}, // a masked address
		{wide, "2001:db8::/32", "2001:db8::/32", ""},
		{wide, "[2001:db8:1:2::1]:4711", "2001:db8:1::/48", ""},
		{wide, "64:ff9b::203.0.113.7", "203.0.113.7", ""},
		{rules.Identifier{From: rules.FromClientIP}, "acme", "", "is no address, and policy shop/a counts by address"},
		{rules.Identifier{From: rules.FromClientIP}, "acme/8", "", "is no address"},
		{rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}, "10.0.0.0/8", "10.0.0.0/8", ""},
	} {
		got, err := countedBy(t, c.id).CountedAs(c.given)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v; want %q, %q", c.given, got, err, c.want, c.err)
		}
	}
}

func TestHashes_OnlyIdentifiersOfSecrets(t *testing.T) {
	secret := countedBy(t, rules.Identifier{From: rules.FromHeader, Name: "x-api-key", Secret: true})
	hash, err := secret.CountedAs("sk-1")
	if err != nil || !secret.Hashes(hash) || secret.Hashes(limiter.Missing) {
		t.Errorf("%s (%v)", hash, err)
	}
	if again, err := secret.CountedAs("hash:" + hash); err != nil || again != hash {
		t.Errorf("%s is counted as %s (%v)", hash, again, err)
	}
	if countedBy(t, rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}).Hashes(hash) {
		t.Error("a text that looks like a hash")
	}
}
