package compile

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// lowerTiers keeps the order of the tiers, because the first tier that matches applies.
func lowerTiers(spec *v1alpha1.RateLimitPolicySpec, limits []limiter.Limit, rule *rules.Rule, hashKey *limiter.HashKey) []rules.Tier {
	var tiers []rules.Tier
	for i := range spec.Tiers {
		tier, limit := &spec.Tiers[i], limits[i]
		tiers = append(tiers, rules.Tier{
			Name:      tier.Name,
			When:      lowerWhen(tier.When, spec, rule, hashKey),
			Units:     limit.Units(),
			Burst:     limit.Burst(),
			Unlimited: limit == limiter.Limit{},
		})
	}
	return tiers
}

func lowerWhen(when v1alpha1.When, spec *v1alpha1.RateLimitPolicySpec, rule *rules.Rule, hashKey *limiter.HashKey) rules.When {
	out := rules.When{
		Identifiers: sorted(mapEach(when.Identifiers, func(given v1alpha1.TierIdentifier) string {
			source, n := rule.SourceOf(string(given))
			prefix, text := string(given[:n]), string(given[n:])
			if hash, isHash := strings.CutPrefix(text, rules.HashPrefix); isHash && source.Secret {
				return prefix + hash
			}
			if source.Secret {
				return prefix + hashKey.Hash(text)
			}
			return prefix + lowerTierIdentifier(text, spec, source)
		}), strings.Compare),
		CIDRs:      sorted(mapEach(when.CIDRs, lowerCIDR), strings.Compare),
		Groups:     sorted(mapEach(when.Groups, text[v1alpha1.Group]), strings.Compare),
		Expression: lowerExpression(when.Expression),

		NamespaceSelector: lowerSelector(when.NamespaceSelector),
	}
	if when.Header != nil {
		header := lowerHeader(*when.Header)
		out.Header = &header
	}
	return out
}

// lowerTierIdentifier converts an identifier that is not secret to the form in which requests are counted.
func lowerTierIdentifier(given string, spec *v1alpha1.RateLimitPolicySpec, identifier rules.Identifier) string {
	switch {
	case spec.Axis == v1alpha1.AxisServiceAccount:
		return lowerServiceAccount(given)
	case identifier.IsAddress():
		return rules.ClientIdentifier(given, identifier.IPv6Prefix)
	case spec.Axis == v1alpha1.AxisEndpoint:
		return lowerEndpoint(given, spec.Match)
	default:
		return given
	}
}

// lowerEndpoint converts an endpoint to the form that Match returns: a regular expression in match and [rules.OtherEndpoints] unchanged, any
// other endpoint as a normalized path.
func lowerEndpoint(given string, match *v1alpha1.Match) string {
	if given == rules.OtherEndpoints || isExpressionOf(match, given) {
		return given
	}
	if match != nil && match.HTTP != nil && match.HTTP.IgnoreCase {
		return reading.FoldPath(reading.NormalPath(given))
	}
	return reading.NormalPath(given)
}

func isExpressionOf(match *v1alpha1.Match, endpoint string) bool {
	return match != nil && match.HTTP != nil && slices.ContainsFunc(match.HTTP.Paths, func(path v1alpha1.PathMatch) bool {
		return pathType(path) == v1alpha1.PathRegularExpression && path.Value == endpoint
	})
}

// lowerCost omits the default cost of 1.
func lowerCost(cost *v1alpha1.Cost) *rules.Cost {
	switch {
	case cost == nil, cost.Value != nil && *cost.Value == 1:
		return nil
	case cost.Value != nil:
		return &rules.Cost{Value: *cost.Value}
	case cost.Header != nil:
		return &rules.Cost{Header: lowercase(*cost.Header)}
	default: // validate rejects a cost without any field
		return &rules.Cost{Expression: lowerExpression(cost.Expression)}
	}
}

func lowerExpression(expression *v1alpha1.Expression) string {
	if expression == nil {
		return ""
	}
	return string(*expression)
}
