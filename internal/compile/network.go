package compile

import (
	"fmt"
	"net/netip"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// checkCIDRs refuses bits after a prefix instead of clearing them: whether the author meant the network or the address
// is not for Weir to guess.
func (c *checker) checkCIDRs(field string, cidrs []v1alpha1.CIDR) {
	for i, cidr := range cidrs {
		at := fmt.Sprintf("%s[%d]", field, i)
		prefix, ok := parseCIDR(cidr)
		switch {
		case !ok:
			c.add(at, "%q: a CIDR must be an IPv4 or IPv6 network with a prefix length, such as 203.0.113.0/24 or 2001:db8::/32; "+
				"for a single address use /32 or /128", cidr)
		case prefix != prefix.Masked():
			address := prefix.Addr()
			c.add(at, "%q must not have bits set after its prefix; use %v for the network, or %v for the single address",
				cidr, prefix.Masked(), netip.PrefixFrom(address, address.BitLen()))
		}
	}
}

// parseCIDR does not take IPv4 within IPv6 (::ffff:10.0.0.0/104): a client's address is unmapped before it is compared.
func parseCIDR(cidr v1alpha1.CIDR) (prefix netip.Prefix, ok bool) {
	prefix, err := netip.ParsePrefix(string(cidr))
	return prefix, err == nil && !prefix.Addr().Is4In6()
}

// lowerCIDR writes a network in its one canonical form.
func lowerCIDR(cidr v1alpha1.CIDR) string {
	prefix, _ := parseCIDR(cidr) // validate has seen to it that it is one
	return prefix.String()
}

// lowerAddress writes an address as axis IP counts it: an IPv6 address is its prefix of so many bits, 0 for the default.
func lowerAddress(text string, ipv6Prefix int) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return "" // validate has seen to it that it is one
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	if ipv6Prefix == 0 {
		ipv6Prefix = defaultIPv6Prefix
	}
	prefix, err := address.Prefix(ipv6Prefix)
	if err != nil {
		return "" // the identity table has seen to it that the length is one
	}
	return prefix.String()
}
