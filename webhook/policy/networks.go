package policy

import (
	"net/netip"
	"slices"
)

// allWithin says whether each of the networks is within one of the others.
func allWithin(networks, others []string) bool {
	return all(networks, others, func(n, o netip.Prefix) bool { return o.Bits() <= n.Bits() && o.Contains(n.Addr()) })
}

// noneOverlap says whether no address is in one of the networks and in one of the others.
func noneOverlap(networks, others []string) bool {
	return !slices.ContainsFunc(networks, func(one string) bool {
		return all([]string{one}, others, netip.Prefix.Overlaps)
	})
}

// all says whether each of the networks is so related to one of the others. The compiler has seen to it that they are networks.
func all(networks, others []string, related func(network, other netip.Prefix) bool) bool {
	return !slices.ContainsFunc(networks, func(one string) bool {
		return !slices.ContainsFunc(others, func(another string) bool {
			n, err := netip.ParsePrefix(one)
			o, err2 := netip.ParsePrefix(another)
			return err == nil && err2 == nil && related(n, o)
		})
	})
}
