package address

import (
	"net/netip"
	"testing"
)

func networks(t testing.TB, entries ...string) *Networks {
	t.Helper()
	n, err := ParseNetworks(entries)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNetworks_Contains(t *testing.T) {
	n := networks(t, "10.0.0.0/8", " 192.0.2.1", "2001:db8::/32", "::ffff:198.51.100.7")
	for ip, want := range map[string]bool{
		"10.255.0.1": true, "11.0.0.1": false, "192.0.2.1": true, "192.0.2.2": false, "198.51.100.7": true,
		"::ffff:10.0.0.1": true, "2001:db8::1": true, "2001:db8::1%eth0": true, "2001:db9::1": false,
	} {
		if got := n.Contains(netip.MustParseAddr(ip)); got != want {
			t.Errorf("contains %s: %v", ip, got)
		}
	}
	if n.Contains(netip.Addr{}) {
		t.Error("contains the invalid address")
	}
	if n.Empty() || !networks(t).Empty() {
		t.Error("Empty returns the wrong result")
	}
}

func TestParseNetworks_NamesAnInvalidEntry(t *testing.T) {
	for entry, want := range map[string]string{
		"":                    `"" is invalid: must be a network such as 10.0.0.0/8 or an address such as 192.0.2.1`,
		"proxy.example":       `"proxy.example" is invalid: must be a network such as 10.0.0.0/8 or an address such as 192.0.2.1`,
		"10.0.0.0/33":         `"10.0.0.0/33" is invalid: must be a network such as 10.0.0.0/8 or an address such as 192.0.2.1`,
		"fe80::1%eth0":        `"fe80::1%eth0" is invalid: must be a network such as 10.0.0.0/8 or an address such as 192.0.2.1`,
		"10.1.2.3/8":          `"10.1.2.3/8" has address bits after its prefix: use 10.0.0.0/8 for the network`,
		"::ffff:10.0.0.0/104": `"::ffff:10.0.0.0/104" is an IPv4 network mapped to IPv6: use the IPv4 network`,
		"0.0.0.0/0":           `"0.0.0.0/0" contains all addresses: clients could choose their own addresses`,
		"::/0":                `"::/0" contains all addresses: clients could choose their own addresses`,
	} {
		if _, err := ParseNetworks([]string{"10.0.0.1", entry}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
