package compile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/rules"
)

// Covers says whether wide matches every request that narrow matches. False is always right: what would take thought, such
// as one expression beside another, counts as not covered.
func Covers(wide, narrow *rules.Match) bool {
	return anyCovers(wide.Hosts, narrow.Hosts, hostCovers) &&
		anyCovers(wide.Paths, narrow.Paths, pathCovers) &&
		(len(wide.Methods) == 0 || len(narrow.Methods) > 0 && subset(narrow.Methods, wide.Methods)) &&
		subset(wide.Headers, narrow.Headers) && // each is one more condition
		(len(wide.CIDRs) == 0 || len(narrow.CIDRs) > 0 && allWithin(narrow.CIDRs, wide.CIDRs)) &&
		allWithin(wide.ExceptCIDRs, narrow.ExceptCIDRs) &&
		(wide.Expression == "" || wide.Expression == narrow.Expression) &&
		(len(wide.Descriptors) == 0 || slices.EqualFunc(wide.Descriptors, narrow.Descriptors, entryCovers))
}

// anyCovers says whether each of narrow is covered by one of wide. None is all.
func anyCovers[T any](wide, narrow []T, covers func(wide, narrow T) bool) bool {
	if len(wide) == 0 {
		return true
	}
	return len(narrow) > 0 && !slices.ContainsFunc(narrow, func(n T) bool {
		return !slices.ContainsFunc(wide, func(w T) bool { return covers(w, n) })
	})
}

func subset[T comparable](part, whole []T) bool {
	return !slices.ContainsFunc(part, func(one T) bool { return !slices.Contains(whole, one) })
}

func hostCovers(wide, narrow string) bool {
	if wide == narrow {
		return true
	}
	suffix, isWildcard := strings.CutPrefix(wide, "*")
	return isWildcard && strings.HasSuffix(strings.TrimPrefix(narrow, "*"), suffix)
}

func pathCovers(wide, narrow rules.PathMatch) bool {
	if wide == narrow {
		return true
	}
	if wide.Type != rules.PathPrefix || narrow.Type == rules.PathRegex {
		return false
	}
	prefix := strings.TrimSuffix(wide.Value, "/")
	return narrow.Value == wide.Value || strings.HasPrefix(narrow.Value, prefix+"/")
}

func entryCovers(wide, narrow rules.DescriptorMatch) bool {
	return wide.Key == narrow.Key && (wide.Value == "" || wide.Value == narrow.Value)
}

// allWithin says whether each of the networks is within one of the others.
func allWithin(networks, others []string) bool {
	return !slices.ContainsFunc(networks, func(n string) bool {
		return !slices.ContainsFunc(others, func(o string) bool { return isWithin(n, o) })
	})
}

func isWithin(network, other string) bool {
	n, err := netip.ParsePrefix(network)
	o, err2 := netip.ParsePrefix(other)
	return err == nil && err2 == nil && o.Bits() <= n.Bits() && o.Contains(n.Addr())
}
