package compile

import (
	"fmt"
	"net/netip"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// validateCIDRs rejects bits after the prefix instead of clearing them, because the author may have meant the single address.
func (v *validator) validateCIDRs(field string, cidrs []v1alpha1.CIDR) {
	for i, cidr := range cidrs {
		at := fmt.Sprintf("%s[%d]", field, i)
		prefix, ok := parseCIDR(cidr)
		switch {
		case !ok:
			v.report(at, "%q: a CIDR must be an IPv4 or IPv6 network with a prefix length, such as 203.0.113.0/24 or 2001:db8::/32; "+
				"for a single address use /32 or /128", cidr)
		case prefix != prefix.Masked():
			address := prefix.Addr()
			v.report(at, "%q must not have bits set after its prefix; use %v for the network, or %v for the single address",
				cidr, prefix.Masked(), netip.PrefixFrom(address, address.BitLen()))
		}
	}
}

// parseCIDR rejects IPv4-mapped IPv6 networks (::ffff:10.0.0.0/104), because client addresses are converted to IPv4 before the comparison.
func parseCIDR(cidr v1alpha1.CIDR) (prefix netip.Prefix, ok bool) {
	prefix, err := netip.ParsePrefix(string(cidr))
	return prefix, err == nil && !prefix.Addr().Is4In6()
}

// lowerCIDR returns the canonical form of a network.
func lowerCIDR(cidr v1alpha1.CIDR) string {
	prefix, _ := parseCIDR(cidr) // validateCIDRs rejects invalid networks
	return prefix.String()
}
