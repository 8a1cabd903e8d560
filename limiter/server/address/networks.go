package address

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"
)

// Networks is a set of addresses. It is immutable and safe for concurrent use.
type Networks struct{ table bart.Lite }

// ParseNetworks reads a list of networks, 10.0.0.0/8, and addresses, 192.0.2.1. An error names the entry.
func ParseNetworks(entries []string) (*Networks, error) {
	n := &Networks{}
	for _, entry := range entries {
		prefix, err := parseNetwork(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("%q %w", entry, err)
		}
		n.table.Insert(prefix)
	}
	return n, nil
}

// networkError completes a sentence that begins with the entry.
type networkError string

func (e networkError) Error() string { return string(e) }

const errNoNetwork = networkError("is neither a network such as 10.0.0.0/8 nor an address such as 192.0.2.1")

func parseNetwork(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			return netip.Prefix{}, errNoNetwork
		}
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, errNoNetwork
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, networkError("is IPv4 within IPv6; write the IPv4 network")
	case prefix != prefix.Masked():
		return netip.Prefix{}, networkError(fmt.Sprintf("has bits after its prefix; write %v for the network", prefix.Masked()))
	case prefix.Bits() == 0:
		return netip.Prefix{}, networkError("is everybody: clients would choose their own addresses")
	}
	return prefix, nil
}

// Contains says whether ip is in one of the networks. An IPv4 address that is mapped into IPv6 is the IPv4 address.
func (n *Networks) Contains(ip netip.Addr) bool {
	ip = plain(ip)
	return ip.IsValid() && n.table.Contains(ip)
}

// Empty says whether there are no addresses at all.
func (n *Networks) Empty() bool { return n.table.Size() == 0 }

// plain is ip as addresses are compared: IPv4 where it is mapped into IPv6, without the zone, which means something on
// the machine only that wrote it.
func plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }
