package compile

import (
	"slices"

	"github.com/weir-dev/weir/limiter/rules"
)

// warnTiers warns of tiers that no request belongs to, and of API keys in plain text.
func (w *warnings) warnTiers() {
	for i := range w.rule.Tiers {
		when := &w.rule.Tiers[i].When
		for j := range i {
			if includes(&w.rule.Tiers[j].When, when) {
				w.add(tierField(i, "when"), "no request belongs to this tier: tier %q before it matches all of them", w.rule.Tiers[j].Name)
				break
			}
		}
		w.warnTierNetworks(i, when.CIDRs)
		if w.rule.Identifier.Secret && len(when.Identifiers) > 0 {
			w.add(tierField(i, "when.identifiers"), "secret identifiers such as API keys are in plain text: every user who can read the policy can read them")
		}
	}
}

// warnTierNetworks warns of a tier for clients that match excludes.
func (w *warnings) warnTierNetworks(i int, cidrs []string) {
	m := &w.rule.Match
	if len(cidrs) == 0 {
		return
	}
	if allWithin(cidrs, m.ExceptCIDRs) || len(m.CIDRs) > 0 && noneOverlap(cidrs, m.CIDRs) {
		w.add(tierField(i, "when.cidrs"), "no request belongs to this tier: match excludes all of its networks")
	}
}

// noneOverlap reports whether no address is in one of the networks and in one of the others.
func noneOverlap(networks, others []string) bool {
	return !slices.ContainsFunc(networks, func(n string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return isWithin(n, o) || isWithin(o, n) })
	})
}

// includes reports whether every request that narrow selects is one that wide selects. It may return false if it cannot decide.
func includes(wide, narrow *rules.When) bool {
	switch {
	case wide.Header != nil && narrow.Header != nil:
		return *wide.Header == *narrow.Header || isPresent(wide.Header) && !narrow.Header.Invert && wide.Header.Name == narrow.Header.Name
	case len(wide.Identifiers) > 0 && len(narrow.Identifiers) > 0:
		return isSubset(narrow.Identifiers, wide.Identifiers)
	case len(wide.CIDRs) > 0 && len(narrow.CIDRs) > 0:
		return allWithin(narrow.CIDRs, wide.CIDRs)
	case len(wide.Groups) > 0 && len(narrow.Groups) > 0:
		return isSubset(narrow.Groups, wide.Groups)
	case len(wide.NamespaceSelector) > 0 && len(narrow.NamespaceSelector) > 0:
		return !slices.ContainsFunc(wide.NamespaceSelector, func(required rules.Requirement) bool {
			return !slices.ContainsFunc(narrow.NamespaceSelector, func(r rules.Requirement) bool { return compareRequirements(required, r) == 0 })
		})
	default:
		return wide.Expression != "" && wide.Expression == narrow.Expression
	}
}

func isPresent(h *rules.HeaderMatch) bool { return h.Type == rules.HeaderPresent && !h.Invert }
