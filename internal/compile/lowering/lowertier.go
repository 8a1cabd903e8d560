package lowering

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/labelselector"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// lowerTiers keeps the order of the tiers, because the first tier that matches applies.
func lowerTiers(spec *policyapi.RateLimitPolicySpec, limits []limiter.Limit, rule *rules.Rule, hashKey *limiter.HashKey) []rules.Tier {
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

func lowerWhen(when policyapi.When, spec *policyapi.RateLimitPolicySpec, rule *rules.Rule, hashKey *limiter.HashKey) rules.When {
	out := rules.When{
		Identifiers: sorted(mapEach(when.Identifiers, func(given policyapi.TierIdentifier) string {
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
		Groups:     sorted(mapEach(when.Groups, text[policyapi.Group]), strings.Compare),
		Expression: lowerExpression(when.Expression),

		NamespaceSelector: labelselector.Lower(when.NamespaceSelector),
	}
	if when.Header != nil {
		header := lowerHeader(*when.Header)
		out.Header = &header
	}
	return out
}

// lowerTierIdentifier converts an identifier that is not secret to the form in which requests are counted.
func lowerTierIdentifier(given string, spec *policyapi.RateLimitPolicySpec, identifier rules.Identifier) string {
	switch {
	case spec.Axis == policyapi.AxisServiceAccount:
		return lowerServiceAccount(given)
	case identifier.IsAddress():
		return rules.ClientIdentifier(given, identifier.IPv6Prefix)
	case spec.Axis == policyapi.AxisEndpoint:
		return lowerEndpoint(given, spec.Match)
	default:
		return given
	}
}

// lowerEndpoint converts an endpoint to the form that Match returns: a regular expression in match and [rules.OtherEndpoints] unchanged, any
// other endpoint as a normalized path.
func lowerEndpoint(given string, match *policyapi.Match) string {
	if given == rules.OtherEndpoints || isExpressionOf(match, given) {
		return given
	}
	if match != nil && match.HTTP != nil && match.HTTP.IgnoreCase {
		return reading.FoldPath(reading.NormalPath(given))
	}
	return reading.NormalPath(given)
}

func isExpressionOf(match *policyapi.Match, endpoint string) bool {
	return match != nil && match.HTTP != nil && slices.ContainsFunc(match.HTTP.Paths, func(path policyapi.PathMatch) bool {
		return pathType(path) == policyapi.PathRegularExpression && path.Value == endpoint
	})
}

// lowerCost omits the default cost of 1.
func lowerCost(cost *policyapi.Cost) *rules.Cost {
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

func lowerExpression(expression *policyapi.Expression) string {
	if expression == nil {
		return ""
	}
	return string(*expression)
}
