package warning

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/credentials"
)

// ForSpec returns warnings for what only the spec of the policy of a rule has: secrets in plain text, hashes without effect, and targets whose routes are
// unknown.
func ForSpec(rule *rules.Rule, spec *policyapi.RateLimitPolicySpec) []Warning {
	w := &warnings{rule: rule}
	inherits := func(ref policyapi.TargetReference) bool { return gateway.Inherits(rule.Domain, &ref) }
	if rule.Domain != "" && len(spec.Replaces) > 0 && slices.ContainsFunc(spec.TargetRefs, inherits) {
		w.add(lintrule.NoEffect, "spec.replaces",
			"has no effect for routes of other namespaces than %s, which inherit this policy of a Gateway: a RateLimitPolicy replaces "+
				"defaults only in its own namespace", rule.Domain)
	}
	w.warnPlainMatch(spec.Match)
	w.warnRepeated(spec.Tiers)
	for i := range spec.Tiers {
		plain, useless := 0, 0
		if header := spec.Tiers[i].When.Header; header != nil {
			w.warnPlainHeader(tierField(i, "when.header"), header)
		}
		for _, identifier := range spec.Tiers[i].When.Identifiers {
			source, n := rule.SourceOf(string(identifier))
			switch isHash := strings.HasPrefix(string(identifier)[n:], rules.HashPrefix); {
			case source.Secret && !isHash:
				plain++
			case !source.Secret && isHash:
				useless++
			}
		}
		switch field := tierField(i, "when.identifiers"); {
		case plain > 0:
			w.add(lintrule.PlainCredential, field, "secret identifiers such as API keys are in plain text: every user who can read the policy can read them; "+
				"write their hashes, which weir hash prints")
		case useless > 0:
			w.add(lintrule.NoEffect, field,
				"a hash has no effect, because the identifiers of this policy are not secret: write the identifiers, or use axis APIKey")
		}
	}
	return w.list
}

// warnRepeated warns of the first identifier of a tier that an earlier tier has too, unless that one has them all: warnTiers warns of such a tier.
func (w *warnings) warnRepeated(tiers []policyapi.Tier) {
	first := map[policyapi.TierIdentifier]int{}
	for i := range tiers {
		own := tiers[i].When.Identifiers
		repeated := slices.IndexFunc(own, func(id policyapi.TierIdentifier) bool { _, has := first[id]; return has })
		if repeated >= 0 && slices.ContainsFunc(own, func(id policyapi.TierIdentifier) bool {
			tier, has := first[id]
			return !has || tier != first[own[0]]
		}) {
			w.add(lintrule.RepeatedIdentifier, fmt.Sprintf("%s[%d]", tierField(i, "when.identifiers"), repeated),
				"is in tier %q too, which comes first and applies to it; remove it from one of them", tiers[first[own[repeated]]].Name)
		}
		for _, id := range own {
			if _, has := first[id]; !has {
				first[id] = i
			}
		}
	}
}

// warnPlainMatch warns of credentials that a match compares with. The rules in Redis contain them, because limiters do not hash what they compare.
func (w *warnings) warnPlainMatch(match *policyapi.Match) {
	if match == nil {
		return
	}
	for i, entry := range match.Descriptors {
		if entry.Value != nil && (credentials.Names{}).Name(string(entry.Key)) {
			w.add(lintrule.PlainCredential, fmt.Sprintf("spec.match.descriptors[%d].value", i), plainMatch)
		}
	}
	if match.HTTP == nil {
		return
	}
	for i := range match.HTTP.Headers {
		w.warnPlainHeader(fmt.Sprintf("spec.match.http.headers[%d].value", i), &match.HTTP.Headers[i])
	}
}

const plainMatch = "a credential is in plain text: every user who can read the policy, and every limiter and Redis, can read it; " +
	"use a tier with identifiers, and write its hash, which weir hash prints"

func (w *warnings) warnPlainHeader(field string, header *policyapi.HeaderMatch) {
	if (header.Type == "" || header.Type == policyapi.HeaderExact) && (credentials.Names{}).Name(string(header.Name)) {
		w.add(lintrule.PlainCredential, field, plainMatch)
	}
}

// warnTiers warns of tiers that no request belongs to.
func (w *warnings) warnTiers() {
	for i := range w.rule.Tiers {
		when := &w.rule.Tiers[i].When
		for j := range i {
			if includes(&w.rule.Tiers[j].When, when) {
				w.add(lintrule.ShadowedTier, tierField(i, "when"),
					"no request belongs to this tier: tier %q before it matches all of them", w.rule.Tiers[j].Name)
				break
			}
		}
		w.warnTierNetworks(i, when.CIDRs)
	}
}

// warnTierNetworks warns of a tier for clients that match excludes.
func (w *warnings) warnTierNetworks(i int, cidrs []string) {
	m := &w.rule.Match
	if len(cidrs) == 0 {
		return
	}
	if redundancy.AllWithin(cidrs, m.ExceptCIDRs) || len(m.CIDRs) > 0 && noneOverlap(cidrs, m.CIDRs) {
		w.add(lintrule.ShadowedTier, tierField(i, "when.cidrs"), "no request belongs to this tier: match excludes all of its networks")
	}
}

// noneOverlap reports whether no address is in one of the networks and in one of the others.
func noneOverlap(networks, others []string) bool {
	return !slices.ContainsFunc(networks, func(n string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return redundancy.IsWithin(n, o) || redundancy.IsWithin(o, n) })
	})
}

// includes reports whether every request that narrow selects is one that wide selects. It may return false if it cannot decide.
func includes(wide, narrow *rules.When) bool {
	switch {
	case wide.Header != nil && narrow.Header != nil:
		return *wide.Header == *narrow.Header || isPresent(wide.Header) && !narrow.Header.Invert && wide.Header.Name == narrow.Header.Name
	case len(wide.Identifiers) > 0 && len(narrow.Identifiers) > 0:
		return redundancy.IsSubset(narrow.Identifiers, wide.Identifiers)
	case len(wide.CIDRs) > 0 && len(narrow.CIDRs) > 0:
		return redundancy.AllWithin(narrow.CIDRs, wide.CIDRs)
	case len(wide.Groups) > 0 && len(narrow.Groups) > 0:
		return redundancy.IsSubset(narrow.Groups, wide.Groups)
	case len(wide.NamespaceSelector) > 0 && len(narrow.NamespaceSelector) > 0:
		return redundancy.SelectorCovers(wide.NamespaceSelector, narrow.NamespaceSelector)
	default:
		return wide.Expression != "" && wide.Expression == narrow.Expression
	}
}

func isPresent(h *rules.HeaderMatch) bool { return h.Type == rules.HeaderPresent && !h.Invert }
