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
	return kubernetesCovers(wide.Kubernetes, narrow.Kubernetes) &&
		anyCovers(wide.Hosts, narrow.Hosts, hostCovers) &&
		anyCovers(wide.Paths, narrow.Paths, pathCovers) &&
		(len(wide.Methods) == 0 || len(narrow.Methods) > 0 && subset(narrow.Methods, wide.Methods)) &&
		subset(wide.Headers, narrow.Headers) && // each is one more condition
		(len(wide.CIDRs) == 0 || len(narrow.CIDRs) > 0 && allWithin(narrow.CIDRs, wide.CIDRs)) &&
		allWithin(wide.ExceptCIDRs, narrow.ExceptCIDRs) &&
		(wide.Expression == "" || wide.Expression == narrow.Expression) &&
		(len(wide.Descriptors) == 0 || slices.EqualFunc(wide.Descriptors, narrow.Descriptors, entryCovers))
}

// kubernetesCovers says so of the writes to the Kubernetes API; a match of other requests covers none of them.
func kubernetesCovers(wide, narrow *rules.KubernetesMatch) bool {
	if wide == nil || narrow == nil {
		return wide == narrow
	}
	same := func(a, b string) bool { return a == b }
	return anyCovers(wide.Namespaces, narrow.Namespaces, same) &&
		anyCovers(wide.Users, narrow.Users, same) &&
		anyCovers(wide.Groups, narrow.Groups, same) &&
		subset(wide.ExceptUsers, narrow.ExceptUsers) &&
		subset(wide.ExceptGroups, narrow.ExceptGroups) &&
		!slices.ContainsFunc(wide.NamespaceSelector, func(r rules.Requirement) bool {
			return !slices.ContainsFunc(narrow.NamespaceSelector, func(n rules.Requirement) bool { return compareRequirements(r, n) == 0 })
		}) &&
		anyCovers(wide.Resources, narrow.Resources, resourcesCover)
}

// resourcesCover says whether one entry covers another: what several do together counts as not covered.
func resourcesCover(wide, narrow rules.KubernetesResources) bool {
	return anyCovers(wide.APIGroups, narrow.APIGroups, partCovers) &&
		anyCovers(wide.Resources, narrow.Resources, func(w, n string) bool {
			wideResource, wideSub, _ := strings.Cut(w, "/")
			narrowResource, narrowSub, _ := strings.Cut(n, "/")
			return partCovers(wideResource, narrowResource) && partCovers(wideSub, narrowSub)
		}) &&
		subset(narrow.Operations, wide.Operations)
}

func partCovers(wide, narrow string) bool { return wide == "*" || wide == narrow }

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
