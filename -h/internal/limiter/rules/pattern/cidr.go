package pattern

import (
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"

	"github.com/weir-dev/weir/go/internal/limiter/clientip"
)

// mappedBits is the number of bits before the IPv4 address in an IPv4-mapped IPv6 address: ::ffff:0:0/96.
const mappedBits = 96

// CompileCIDRs returns the networks as a table, or nil if there are no networks. An IPv4-mapped IPv6 network is an IPv4 network.
func CompileCIDRs(cidrs []string) (*bart.Lite, error) {
	if len(cidrs) == 0 {
		return nil, nil //nolint:nilnil // without networks there is no table
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

// Within reports whether the address is in one of the networks, or the IPv4 address that it contains, see [clientip.Client]. An unknown address is
// in no network.
func Within(table *bart.Lite, ip netip.Addr) bool {
	if !ip.IsValid() {
		return false
	}
	plain, client := clientip.Plain(ip), clientip.Client(ip)
	return table.Lookup(plain) || client != plain && table.Lookup(client)
}
