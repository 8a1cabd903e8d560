package redundancy

import (
	"fmt"
	"slices"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// NoMatch reports each field because of which the rule limits no request, and why. It reports nothing if some request may be limited.
func NoMatch(rule *rules.Rule, report func(field, why string)) {
	m := &rule.Match
	if len(m.CIDRs) > 0 && AllWithin(m.CIDRs, m.ExceptCIDRs) {
		report("spec.match.http.exceptCIDRs", "no request matches: exceptCIDRs covers all of cidrs")
	}
	for i, header := range m.Headers {
		opposite := header
		opposite.Invert = !header.Invert
		if slices.Contains(m.Headers[:i], opposite) {
			report("spec.match.http.headers", fmt.Sprintf("no request matches: the conditions on header %s contradict each other", header.Name))
			break
		}
	}
	if m.Expression == "false" {
		report("spec.match", "no request matches: the expression is false")
	}
	if k := m.Kubernetes; k != nil {
		const match = "spec.match.kubernetes"
		if len(k.Namespaces) > 0 && !slices.ContainsFunc(k.Namespaces, func(namespace string) bool { return rule.AppliesTo(namespace) }) {
			report(match+".namespaces", "no write matches: the policy does not apply to these namespaces")
		}
		if len(k.Users) > 0 && IsSubset(k.Users, k.ExceptUsers) {
			report(match+".exceptUsers", "no write matches: exceptUsers contains all of users")
		}
		if len(k.Groups) > 0 && IsSubset(k.Groups, k.ExceptGroups) {
			report(match+".exceptGroups", "no write matches: exceptGroups contains all of groups")
		}
	}
	if rule.Rate != "" {
		return // a tier that one rate does not limit has other rates
	}
	unlimited := true
	for i := range rule.Tiers {
		tier := &rule.Tiers[i]
		unlimited = unlimited && tier.Unlimited
		if unlimited && isEveryRequest(&tier.When) {
			report(fmt.Sprintf("spec.tiers[%d]", i), fmt.Sprintf("no request is limited: each one belongs to an unlimited tier, at the latest to %q", tier.Name))
			return
		}
	}
}

// isEveryRequest reports whether each request belongs to the tier. It may return false if it cannot decide.
func isEveryRequest(when *rules.When) bool {
	return when.Expression == "true" || len(when.CIDRs) > 0 && AllWithin([]string{"0.0.0.0/0", "::/0"}, when.CIDRs)
}
