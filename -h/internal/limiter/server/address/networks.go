package address

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"

	"github.com/weir-dev/weir/go/internal/limiter/clientip"
)

// Networks is an immutable set of addresses. It is safe for concurrent use.
type Networks struct{ table bart.Lite }

// ParseNetworks parses a list of networks such as 10.0.0.0/8 and addresses such as 192.0.2.1. The error names the invalid entry.
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

// networkError is the end of a message that starts with the entry.
type networkError string

func (e networkError) Error() string { return string(e) }

const errSyntax = networkError("is invalid: must be a network such as 10.0.0.0/8 or an address such as 192.0.2.1")

func parseNetwork(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			return netip.Prefix{}, errSyntax
		}
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, errSyntax
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, networkError("is an IPv4 network mapped to IPv6: use the IPv4 network")
	case prefix != prefix.Masked():
		return netip.Prefix{}, networkError(fmt.Sprintf("has address bits after its prefix: use %v for the network", prefix.Masked()))
	case prefix.Bits() == 0:
		return netip.Prefix{}, networkError("contains all addresses: clients could choose their own addresses")
	}
	return prefix, nil
}

// Contains reports whether ip is in one of the networks. An IPv4 address that is mapped to IPv6 equals the IPv4 address.
func (n *Networks) Contains(ip netip.Addr) bool {
	ip = clientip.Plain(ip)
	return ip.IsValid() && n.table.Contains(ip)
}

// Empty reports whether the set is empty.
func (n *Networks) Empty() bool { return n.table.Size() == 0 }
