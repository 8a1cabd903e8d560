package rules

import (
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"
)

// mappedBits is how many bits of an IPv4 address in IPv6 stand before the IPv4 address: ::ffff:0:0/96.
const mappedBits = 96

// compileCIDRs returns the networks as a table, nil for none. IPv4 in IPv6 is IPv4.
func compileCIDRs(cidrs []string) (*bart.Lite, error) {
	if len(cidrs) == 0 {
		return nil, nil //nolint:nilnil // no networks are no table
	}
	table := new(bart.Lite)
	for _, text := range cidrs {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("CIDR %q: %w", text, err)
		}
		if network.Addr().Is4In6() && network.Bits() >= mappedBits {
			network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-mappedBits)
		}
		table.Insert(network.Masked())
	}
	return table, nil
}

// within says whether the address is in one of the networks. The unknown address is in none.
func within(table *bart.Lite, ip netip.Addr) bool {
	return ip.IsValid() && table.Lookup(ip.Unmap().WithZone(""))
}
