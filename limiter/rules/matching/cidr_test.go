package matching_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules"
)

// requestFrom returns a request from address, or from an unknown address if address is "".
func requestFrom(address string) *rules.Request {
	r := request("GET - /")
	if address != "" {
		r.ClientIP = netip.MustParseAddr(address)
	}
	return r
}

func TestMatch_ComparesTheClientAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		match   rules.Match
		in, out []string
	}{
		"in one of the networks": {
			rules.Match{CIDRs: []string{"10.0.0.0/8", "2001:db8::/32"}},
			[]string{"10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3", "2001:db8::1", "2001:db8::1%eth0", "::10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1"},
			[]string{"11.0.0.0", "9.255.255.255", "2001:db9::", "", "64:ff9b:1::10.0.0.1", "64:ff9b::11.0.0.0"},
		},
		"outside the exceptions": {
			rules.Match{ExceptCIDRs: []string{"10.0.0.0/8"}},
			[]string{"11.0.0.0", "::1", ""},
			[]string{"10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"},
		},
		"the prefix of NAT64": {
			rules.Match{CIDRs: []string{"64:ff9b::/96"}},
			[]string{"64:ff9b::10.0.0.1"},
			[]string{"10.0.0.1", "::10.0.0.1", ""},
		},
		"in the networks, outside the exceptions": {
			rules.Match{CIDRs: []string{"10.0.0.0/8"}, ExceptCIDRs: []string{"10.1.0.0/16", "10.2.0.0/16"}},
			[]string{"10.0.0.1", "10.3.0.0"},
			[]string{"10.1.0.1", "10.2.255.255", "192.0.2.1", ""},
		},
		"an IPv4 network in IPv6 notation": {
			rules.Match{CIDRs: []string{"::ffff:10.0.0.0/104"}},
			[]string{"10.1.2.3", "::ffff:10.1.2.3"},
			[]string{"11.0.0.0", "::1", ""},
		},
		"all of IPv4 in IPv6 notation":         {rules.Match{CIDRs: []string{"::ffff:0:0/96"}}, []string{"10.1.2.3", "::ffff:10.1.2.3"}, []string{"::1", ""}},
		"all of IPv6 contains no IPv4 address": {rules.Match{CIDRs: []string{"::/0"}}, []string{"::1", "2001:db8::1"}, []string{"10.1.2.3", "::ffff:10.1.2.3", ""}},
		"every known address":                  {rules.Match{CIDRs: []string{"::/0", "0.0.0.0/0"}}, []string{"::1", "10.1.2.3"}, []string{""}},
		"one address":                          {rules.Match{CIDRs: []string{"192.0.2.1/32"}}, []string{"192.0.2.1"}, []string{"192.0.2.0", "192.0.2.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := index(t, ruleMatching(tc.match))
			for _, address := range tc.in {
				if len(x.Match(nil, requestFrom(address))) != 1 {
					t.Errorf("%q did not match", address)
				}
			}
			for _, address := range tc.out {
				if len(x.Match(nil, requestFrom(address))) != 0 {
					t.Errorf("%q matched", address)
				}
			}
		})
	}
}

// TestCompileCIDRs_AgreesWithNetip compares the index with a linear search that uses net/netip.
func TestCompileCIDRs_AgreesWithNetip(t *testing.T) {
	address := rapid.Custom(func(t *rapid.T) netip.Addr {
		if rapid.Bool().Draw(t, "IPv6") {
			b := [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: rapid.Byte().Draw(t, "last")}
			b[4] = rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}).Draw(t, "fifth")
			return netip.AddrFrom16(b)
		}
		b := rapid.SampledFrom([]byte{0, 1, 127, 128, 255})
		return netip.AddrFrom4([4]byte{10, b.Draw(t, "b"), b.Draw(t, "c"), b.Draw(t, "d")})
	})
	network := rapid.Custom(func(t *rapid.T) netip.Prefix {
		a := address.Draw(t, "network")
		return netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits")).Masked()
	})
	rapid.Check(t, func(rt *rapid.T) {
		in, except := rapid.SliceOfN(network, 1, 6).Draw(rt, "in"), rapid.SliceOfN(network, 0, 3).Draw(rt, "except")
		m := rules.Match{}
		for _, n := range in {
			m.CIDRs = append(m.CIDRs, n.String())
		}
		for _, n := range except {
			m.ExceptCIDRs = append(m.ExceptCIDRs, n.String())
		}
		x := index(t, ruleMatching(m))
		for range 20 {
			ip := address.Draw(rt, "client")
			contains := func(n netip.Prefix) bool { return n.Contains(ip) }
			want := slices.ContainsFunc(in, contains) && !slices.ContainsFunc(except, contains)
			for _, notation := range []netip.Addr{ip, netip.AddrFrom16(ip.As16())} {
				r := request("GET - /")
				r.ClientIP = notation
				if got := len(x.Match(nil, r)) == 1; got != want {
					rt.Fatalf("%v in %v except %v: got %t, want %t", notation, in, except, got, want)
				}
			}
		}
	})
}
