package clientip

import (
	"net/netip"
	"strings"
	"testing"
)

// notations are texts, and the address and the identifier that they are read as. An address that is empty is that of no single host.
var notations = map[string]struct{ text, address, identifier string }{
	"IPv4":                                 {"203.0.113.7", "203.0.113.7", "203.0.113.7"},
	"IPv4 and a port":                      {"203.0.113.1:1001", "203.0.113.1", "203.0.113.1"},
	"IPv4 and an obfuscated port":          {"203.0.113.1:_web-1.x", "203.0.113.1", "203.0.113.1"},
	"spaces":                               {" 203.0.113.7\t", "203.0.113.7", "203.0.113.7"},
	"quotes":                               {`"203.0.113.7"`, "203.0.113.7", "203.0.113.7"},
	"quotes and a port":                    {`"203.0.113.7:80"`, "203.0.113.7", "203.0.113.7"},
	"quotes and spaces":                    {` "203.0.113.7" `, "203.0.113.7", "203.0.113.7"},
	"IPv6":                                 {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
	"IPv6 in another spelling":             {"2001:0DB8:0001:0002:0::1", "2001:db8:1:2::1", "2001:db8:1:2::/64"},
	"brackets":                             {"[2001:db8:1:2::1]", "2001:db8:1:2::1", "2001:db8:1:2::/64"},
	"brackets and a port":                  {"[2001:db8:1:2::1]:65535", "2001:db8:1:2::1", "2001:db8:1:2::/64"},
	"quotes, brackets and a port":          {`"[2001:db8:1:2::1]:4711"`, "2001:db8:1:2::1", "2001:db8:1:2::/64"},
	"a zone":                               {"fe80::1%eth0", "fe80::1", "fe80::/64"},
	"a zone in brackets, with a port":      {"[fe80::1%25eth0]:80", "fe80::1", "fe80::/64"},
	"mapped to IPv6":                       {"::ffff:203.0.113.7", "203.0.113.7", "203.0.113.7"},
	"mapped, in hexadecimal digits":        {"::ffff:cb00:7107", "203.0.113.7", "203.0.113.7"},
	"mapped, in brackets, with a port":     {"[::ffff:203.0.113.7]:80", "203.0.113.7", "203.0.113.7"},
	"an IPv4 network":                      {"10.0.0.0/24", "", "10.0.0.0/24"},
	"an IPv4 network in quotes":            {` "10.0.0.0/24"`, "", "10.0.0.0/24"},
	"an IPv4 network with an address":      {"10.0.0.7/24", "", "10.0.0.0/24"},
	"an IPv4 network of one address":       {"10.0.0.7/32", "", "10.0.0.7"},
	"all IPv4 addresses":                   {"0.0.0.0/0", "", "0.0.0.0/0"},
	"a large IPv6 network":                 {"2001:db8::/32", "", "2001:db8::/32"},
	"an IPv6 network":                      {"2001:db8::/64", "", "2001:db8::/64"},
	"a small IPv6 network":                 {"2001:db8::ff00/120", "", "2001:db8::/64"},
	"a mapped network":                     {"::ffff:10.0.0.7/120", "", "10.0.0.0/24"},
	"a network that contains mapped ones":  {"::ffff:0:0/64", "", "::/64"},
	"NAT64":                                {"64:ff9b::203.0.113.7", "64:ff9b::cb00:7107", "203.0.113.7"},
	"NAT64 in brackets, with a port":       {"[64:ff9b::cb00:7107]:80", "64:ff9b::cb00:7107", "203.0.113.7"},
	"NAT64, a network":                     {"64:ff9b::10.0.0.7/120", "", "10.0.0.0/24"},
	"NAT64, the whole prefix":              {"64:ff9b::/96", "", "0.0.0.0/0"},
	"NAT64, more than the prefix":          {"64:ff9b::/64", "", "64:ff9b::/64"},
	"local NAT64":                          {"64:ff9b:1::203.0.113.7", "64:ff9b:1::cb00:7107", "64:ff9b:1::/64"},
	"after NAT64":                          {"64:ff9b::1:203.0.113.7", "64:ff9b::1:cb00:7107", "64:ff9b::/64"},
	"SIIT":                                 {"::ffff:0:203.0.113.7", "::ffff:0:cb00:7107", "203.0.113.7"},
	"IPv4-compatible":                      {"::203.0.113.7", "::cb00:7107", "203.0.113.7"},
	"the unspecified address":              {"::", "::", "::/64"},
	"the loopback address":                 {"::1", "::1", "::/64"},
	"6to4":                                 {"2002:cb00:7107:1::1", "2002:cb00:7107:1::1", "203.0.113.7"},
	"6to4, the network of a host":          {"2002:cb00:7107:1::/64", "", "203.0.113.7"},
	"6to4, a network":                      {"2002:cb00:7100::/40", "", "203.0.113.0/24"},
	"6to4, a large network":                {"2002::/12", "", "2000::/12"},
	"Teredo":                               {"2001:0:4136:e378:8000:63bf:34ff:8ef8", "2001:0:4136:e378:8000:63bf:34ff:8ef8", "203.0.113.7"},
	"Teredo, a network":                    {"2001:0:4136:e378::/64", "", "2001:0:4136:e378::/64"},
	"a neighbor of Teredo":                 {"2001:1::1", "2001:1::1", "2001:1::/64"},
	"":                                     {"", "", ""},
	"a word":                               {"unknown", "", ""},
	"a hidden name":                        {"_hidden", "", ""},
	"a name and a port":                    {"localhost:80", "", ""},
	"a list":                               {"203.0.113.7, 10.0.0.1", "", ""},
	"a leading zero":                       {"203.0.113.07", "", ""},
	"three parts":                          {"203.0.113", "", ""},
	"a number":                             {"3405803783", "", ""},
	"no port":                              {"203.0.113.7:", "", ""},
	"a port that is too large":             {"203.0.113.7:65536", "", ""},
	"a port with a sign":                   {"203.0.113.7:+80", "", ""},
	"an empty obfuscated port":             {"203.0.113.7:_", "", ""},
	"IPv4 in brackets":                     {"[203.0.113.7]", "", ""},
	"an open bracket":                      {"[2001:db8::1", "", ""},
	"a closing bracket":                    {"2001:db8::1]", "", ""},
	"text after the bracket":               {"[2001:db8::1]x", "", ""},
	"one quote":                            {`"203.0.113.7`, "", ""},
	"only a quote":                         {`"`, "", ""},
	"quotes without an address":            {`""`, "", ""},
	"two pairs of quotes":                  {`""203.0.113.7""`, "", ""},
	"single quotes":                        {"'203.0.113.7'", "", ""},
	"an empty zone":                        {"fe80::1%", "", ""},
	"a zone of IPv4":                       {"203.0.113.7%eth0", "", ""},
	"a prefix that is too long":            {"203.0.113.7/33", "", ""},
	"a prefix with a leading zero":         {"203.0.113.7/08", "", ""},
	"a network with a port":                {"203.0.113.0/24:80", "", ""},
	"a zone that is too long":              {"fe80::1%" + strings.Repeat("z", 200), "", ""},
	"an address after a control character": {"\x00203.0.113.7", "", ""},
	"a path":                               {"203.0.113.7/", "", ""},
}

func TestParse_ReadsEveryNotation(t *testing.T) {
	for name, n := range notations {
		ip, ok := Parse(n.text)
		if ok != (n.address != "") || ok && ip != netip.MustParseAddr(n.address) || !ok && ip.IsValid() {
			t.Errorf("%s, %q: %v, %v; want %q", name, n.text, ip, ok, n.address)
		}
	}
}

func TestIdentifier_NamesTheClientOfEveryNotation(t *testing.T) {
	for name, n := range notations {
		network, ok := ParseNetwork(n.text)
		if got := Identifier(network, 64); got != n.identifier || ok != (n.identifier != "") {
			t.Errorf("%s, %q: %q, %v; want %q", name, n.text, got, ok, n.identifier)
		}
		again, ok := ParseNetwork(n.identifier)
		if got := Identifier(again, 64); got != n.identifier || ok != (n.identifier != "") {
			t.Errorf("%s: identifier %q is read as %q", name, n.identifier, got)
		}
	}
}

func TestIdentifier_UsesThePrefixLength(t *testing.T) {
	for bits, want := range map[int]string{32: "2001:db8::/32", 56: "2001:db8:1:200::/56", 128: "2001:db8:1:2ff:3:4:5:6/128"} {
		network, _ := ParseNetwork("2001:db8:1:2ff:3:4:5:6")
		if got := Identifier(network, bits); got != want {
			t.Errorf("%d bits: %q, want %q", bits, got, want)
		}
	}
}

func TestClient_IsTheAddressWhoseIdentifierIsCounted(t *testing.T) {
	for name, n := range notations {
		ip, ok := Parse(n.text)
		if !ok {
			continue
		}
		client := Client(ip)
		if got := Identifier(netip.PrefixFrom(client, client.BitLen()), 64); got != n.identifier {
			t.Errorf("%s: client %v has the identifier %q, want %q", name, client, got, n.identifier)
		}
	}
	if got := Client(netip.MustParseAddr("fe80::1%eth0")); got != netip.MustParseAddr("fe80::1") {
		t.Errorf("the client has the zone of this machine: %v", got)
	}
	if Client(netip.Addr{}).IsValid() || Identifier(netip.Prefix{}, 64) != "" {
		t.Error("an unknown address has a client")
	}
}

func FuzzParse_AnAddressIsReadTheSameInEachNotation(f *testing.F) {
	for _, n := range notations {
		f.Add(n.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ip, ok := Parse(text)
		network, isNetwork := ParseNetwork(text)
		if ok && (!isNetwork || network != netip.PrefixFrom(ip, ip.BitLen())) {
			t.Errorf("%q: address %v, network %v", text, ip, network)
		}
		if isNetwork {
			if again, is := ParseNetwork(network.String()); !is || again != network {
				t.Errorf("%q: %v is read as %v", text, network, again)
			}
		}
		if !ok {
			return
		}
		if ip.Zone() != "" || ip.Is4In6() {
			t.Errorf("%q: %v is not plain", text, ip)
		}
		for _, same := range []string{ip.String(), `"` + ip.String() + `"`, netip.AddrPortFrom(ip, 80).String(), " " + ip.String()} {
			if again, is := Parse(same); !is || again != ip {
				t.Errorf("%q: %q is read as %v", text, same, again)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, text := range []string{"203.0.113.7", "[2001:db8::1]:4711", "unknown"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Parse(text)
			}
		})
	}
}
