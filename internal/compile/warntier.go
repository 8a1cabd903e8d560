package compile

import (
	"slices"

	"github.com/weir-dev/weir/limiter/rules"
)

// aboutTiers warns of tiers that no request reaches, and of keys that stand in plain text.
func (w *warnings) aboutTiers() {
	for i := range w.rule.Tiers {
		when := &w.rule.Tiers[i].When
		for j := range i {
			if includes(&w.rule.Tiers[j].When, when) {
				w.add(tierField(i, "when"), "no request is of this tier: tier %q before it takes all of them", w.rule.Tiers[j].Name)
				break
			}
		}
		w.aboutTierNetworks(i, when.CIDRs)
		if w.rule.Identifier.Secret && len(when.Identifiers) > 0 {
			w.add(tierField(i, "when.identifiers"), "API keys stand here in plain text, for all who may read the policy")
		}
	}
}

// aboutTierNetworks warns of a tier for clients that the rule does not speak of.
func (w *warnings) aboutTierNetworks(i int, cidrs []string) {
	m := &w.rule.Match
	if len(cidrs) == 0 {
		return
	}
	if allWithin(cidrs, m.ExceptCIDRs) || len(m.CIDRs) > 0 && noneOverlap(cidrs, m.CIDRs) {
		w.add(tierField(i, "when.cidrs"), "no request is of this tier: match leaves all of its networks out")
	}
}

// noneOverlap says whether no address is in one of the networks and in one of the others.
func noneOverlap(networks, others []string) bool {
	return !slices.ContainsFunc(networks, func(n string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return isWithin(n, o) || isWithin(o, n) })
	})
}

// includes says whether every request that narrow speaks of is one that wide speaks of. False is always right.
func includes(wide, narrow *rules.When) bool {
	switch {
	case wide.Header != nil && narrow.Header != nil:
		return *wide.Header == *narrow.Header || isPresent(wide.Header) && !narrow.Header.Invert && wide.Header.Name == narrow.Header.Name
	case len(wide.Identifiers) > 0 && len(narrow.Identifiers) > 0:
		return subset(narrow.Identifiers, wide.Identifiers)
	case len(wide.CIDRs) > 0 && len(narrow.CIDRs) > 0:
		return allWithin(narrow.CIDRs, wide.CIDRs)
	case len(wide.Groups) > 0 && len(narrow.Groups) > 0:
		return subset(narrow.Groups, wide.Groups)
	case len(wide.NamespaceSelector) > 0 && len(narrow.NamespaceSelector) > 0:
		return !slices.ContainsFunc(wide.NamespaceSelector, func(asked rules.Requirement) bool {
			return !slices.ContainsFunc(narrow.NamespaceSelector, func(r rules.Requirement) bool { return compareRequirements(asked, r) == 0 })
		})
	default:
		return wide.Expression != "" && wide.Expression == narrow.Expression
	}
}

func isPresent(h *rules.HeaderMatch) bool { return h.Type == rules.HeaderPresent && !h.Invert }
