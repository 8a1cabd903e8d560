package redundancy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/pattern"
)

// Covers reports whether wide matches every request that narrow matches. It may return false if it cannot decide, for example for two
// different expressions.
func Covers(wide, narrow *rules.Match) bool {
	return kubernetesCovers(wide.Kubernetes, narrow.Kubernetes) &&
		(wide.Routes == nil || narrow.Routes != nil && IsSubset(narrow.Routes, wide.Routes)) &&
		anyCovers(wide.Hosts, narrow.Hosts, hostCovers) &&
		anyCovers(wide.Paths, narrow.Paths, pathCovers) && (len(wide.Paths) == 0 || wide.IgnoreCase || !narrow.IgnoreCase) &&
		(len(wide.Methods) == 0 || len(narrow.Methods) > 0 && IsSubset(narrow.Methods, wide.Methods)) &&
		IsSubset(wide.Headers, narrow.Headers) && // each is one more condition
		(len(wide.CIDRs) == 0 || len(narrow.CIDRs) > 0 && AllWithin(narrow.CIDRs, wide.CIDRs)) &&
		AllWithin(wide.ExceptCIDRs, narrow.ExceptCIDRs) &&
		(wide.Expression == "" || wide.Expression == narrow.Expression) &&
		(len(wide.Descriptors) == 0 || slices.EqualFunc(wide.Descriptors, narrow.Descriptors, entryCovers))
}

// kubernetesCovers is Covers for writes to the Kubernetes API. A match of other requests covers no writes.
func kubernetesCovers(wide, narrow *rules.KubernetesMatch) bool {
	if wide == nil || narrow == nil {
		return wide == narrow
	}
	equal := func(a, b string) bool { return a == b }
	return anyCovers(wide.Namespaces, narrow.Namespaces, equal) &&
		anyCovers(wide.Users, narrow.Users, equal) &&
		anyCovers(wide.Groups, narrow.Groups, equal) &&
		IsSubset(wide.ExceptUsers, narrow.ExceptUsers) &&
		IsSubset(wide.ExceptGroups, narrow.ExceptGroups) &&
		SelectorCovers(wide.NamespaceSelector, narrow.NamespaceSelector) &&
		anyCovers(wide.Resources, narrow.Resources, resourcesCover)
}

// SelectorCovers reports whether narrow has every requirement of wide.
func SelectorCovers(wide, narrow rules.Selector) bool {
	return !slices.ContainsFunc(wide, func(required rules.Requirement) bool {
		return !slices.ContainsFunc(narrow, func(r rules.Requirement) bool {
			return r.Key == required.Key && r.Operator == required.Operator && slices.Equal(r.Values, required.Values)
		})
	})
}

// resourcesCover reports whether one entry covers another. It does not consider several entries together.
func resourcesCover(wide, narrow rules.KubernetesResources) bool {
	return anyCovers(wide.APIGroups, narrow.APIGroups, partCovers) &&
		anyCovers(wide.Resources, narrow.Resources, func(w, n string) bool {
			wideResource, wideSub, _ := strings.Cut(w, "/")
			narrowResource, narrowSub, _ := strings.Cut(n, "/")
			return partCovers(wideResource, narrowResource) && partCovers(wideSub, narrowSub)
		}) &&
		IsSubset(narrow.Operations, wide.Operations)
}

func partCovers(wide, narrow string) bool { return wide == "*" || wide == narrow }

// anyCovers reports whether each element of narrow is covered by an element of wide. An empty list means all.
func anyCovers[T any](wide, narrow []T, covers func(wide, narrow T) bool) bool {
	if len(wide) == 0 {
		return true
	}
	return len(narrow) > 0 && !slices.ContainsFunc(narrow, func(n T) bool {
		return !slices.ContainsFunc(wide, func(w T) bool { return covers(w, n) })
	})
}

// IsSubset reports whether every element of part is in whole.
func IsSubset[T comparable](part, whole []T) bool {
	return !slices.ContainsFunc(part, func(element T) bool { return !slices.Contains(whole, element) })
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

// entryCovers compares a value with the patterns of wide. It does not compare two different patterns.
func entryCovers(wide, narrow rules.DescriptorMatch) bool {
	if wide.Key != narrow.Key || wide.Value != "" && wide.Value != narrow.Value {
		return false
	}
	if narrow.Value != "" {
		excepted := func(value string) bool { return pattern.GlobMatches(value, narrow.Value) }
		return (wide.Pattern == "" || pattern.GlobMatches(wide.Pattern, narrow.Value)) && !slices.ContainsFunc(wide.Except, excepted)
	}
	return (wide.Pattern == "" || wide.Pattern == narrow.Pattern) && IsSubset(wide.Except, narrow.Except)
}

// AllWithin reports whether each network is within one of the others.
func AllWithin(networks, others []string) bool {
	return !slices.ContainsFunc(networks, func(n string) bool {
		return !slices.ContainsFunc(others, func(o string) bool { return IsWithin(n, o) })
	})
}

// IsWithin reports whether a network is within another one.
func IsWithin(network, other string) bool {
	n, _ := netip.ParsePrefix(network) // the zero Prefix, if a network is invalid, contains no address
	o, _ := netip.ParsePrefix(other)
	return o.Bits() <= n.Bits() && o.Contains(n.Addr())
}
