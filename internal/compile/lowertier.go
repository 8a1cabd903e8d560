package compile

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// lowerTiers keeps the order of the tiers, of which the first that fits counts.
func lowerTiers(policy valid, identifier rules.Identifier) []rules.Tier {
	var tiers []rules.Tier
	for i := range policy.spec.Tiers {
		tier, limit := &policy.spec.Tiers[i], policy.tiers[i]
		tiers = append(tiers, rules.Tier{
			Name:      tier.Name,
			When:      lowerWhen(tier.When, policy.spec, identifier),
			Units:     limit.Units(),
			Burst:     limit.Burst(),
			Unlimited: tier.Unlimited,
		})
	}
	return tiers
}

func lowerWhen(when v1alpha1.When, spec *v1alpha1.RateLimitPolicySpec, identifier rules.Identifier) rules.When {
	out := rules.When{
		Identifiers: sorted(each(when.Identifiers, func(given v1alpha1.TierIdentifier) string {
			return lowerTierIdentifier(string(given), spec, identifier)
		}), strings.Compare),
		CIDRs:      sorted(each(when.CIDRs, lowerCIDR), strings.Compare),
		Groups:     sorted(each(when.Groups, text[v1alpha1.Group]), strings.Compare),
		Expression: lowerExpression(when.Expression),

		NamespaceSelector: lowerSelector(when.NamespaceSelector),
	}
	if when.Header != nil {
		header := lowerHeader(*when.Header)
		out.Header = &header
	}
	return out
}

// lowerTierIdentifier writes an identifier as requests of it are counted. Secrets are published as their hash alone.
func lowerTierIdentifier(given string, spec *v1alpha1.RateLimitPolicySpec, identifier rules.Identifier) string {
	switch {
	case identifier.Secret:
		return limiter.HashSecret(given)
	case spec.Axis == v1alpha1.AxisServiceAccount:
		return lowerServiceAccount(given)
	case spec.Axis == v1alpha1.AxisIP:
		return lowerAddress(given, identifier.IPv6Prefix)
	case spec.Axis == v1alpha1.AxisEndpoint:
		return lowerEndpoint(given, spec.Match)
	default:
		return given
	}
}

// lowerEndpoint writes an endpoint as Match names it: an expression of match and [rules.OtherEndpoints] by their text, all
// others as paths.
func lowerEndpoint(given string, match *v1alpha1.Match) string {
	if given == rules.OtherEndpoints || isExpressionOf(match, given) {
		return given
	}
	return rules.NormalPath(given)
}

func isExpressionOf(match *v1alpha1.Match, endpoint string) bool {
	return match != nil && match.HTTP != nil && slices.ContainsFunc(match.HTTP.Paths, func(path v1alpha1.PathMatch) bool {
		return pathType(path) == v1alpha1.PathRegularExpression && path.Value == endpoint
	})
}

// lowerCost leaves out what every request costs anyway.
func lowerCost(cost *v1alpha1.Cost) *rules.Cost {
	switch {
	case cost == nil, cost.Value != nil && *cost.Value == 1:
		return nil
	case cost.Value != nil:
		return &rules.Cost{Value: *cost.Value}
	case cost.Header != nil:
		return &rules.Cost{Header: lowercase(*cost.Header)}
	default: // validate has seen to it that one is set
		return &rules.Cost{Expression: lowerExpression(cost.Expression)}
	}
}

func lowerExpression(expression *v1alpha1.Expression) string {
	if expression == nil {
		return ""
	}
	return string(*expression)
}
