package lowering

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/rate"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
)

// validateTiers returns the limits of each tier. An unlimited tier has no limit.
func (v *validator) validateTiers(spec *policyapi.RateLimitPolicySpec) [][]limiter.Limit {
	limits := make([][]limiter.Limit, len(spec.Tiers))
	v.rates = slices.Clone(v.base)
	named := map[string]int{}
	v.validateTiersOfKind(spec.Tiers)
	for i := range spec.Tiers {
		tier, field := &spec.Tiers[i], fmt.Sprintf("spec.tiers[%d]", i)
		v.validateTierName(field+".name", tier.Name)
		if first, taken := named[tier.Name]; taken {
			v.report(field+".name", "%q is already the name of tiers[%d]; tiers must have unique names, because responses identify a tier by its name", tier.Name, first)
		} else {
			named[tier.Name] = i
		}
		v.validateWhen(field+".when", spec, &tier.When)
		limits[i] = v.validateTierRates(field, len(spec.Rates) > 0, tier)
	}
	return limits
}

func (v *validator) validateTierName(field, name string) {
	if !isLabel(name) || name != lowercase(name) {
		v.report(field, "%q: the name of a tier must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit", name)
	}
}

// validateTierRates returns the limits of a tier. The limit of a tier has the window and the algorithm of a policy with one rate. A limit of 0 denies
// whatever the other rates admit, so it needs only one of them.
func (v *validator) validateTierRates(field string, severalRates bool, tier *policyapi.Tier) []limiter.Limit {
	given := 0
	for _, isSet := range []bool{tier.Limit != nil, len(tier.Rates) > 0, tier.Unlimited} {
		if isSet {
			given++
		}
	}
	if given != 1 {
		v.report(field, "a tier must have exactly one of limit, rates and unlimited: true")
	}
	if tier.Burst != nil && tier.Limit == nil {
		v.report(field+".burst", "burst requires limit; remove burst or set the limit of the tier")
	}
	switch {
	case len(tier.Rates) > 0:
		rates := rate.ReadList(field+".rates", tier.Rates, v.report)
		v.rates = append(v.rates, rates...)
		return rate.Limits(rates)
	case tier.Limit == nil:
		return nil
	case severalRates && *tier.Limit != 0:
		v.report(field+".limit", "a tier of a policy with rates must have rates, limit: 0 or unlimited: true, because a limit alone has no window; use rates")
		return nil
	default:
		return []limiter.Limit{v.base[0].With(field, *tier.Limit, tier.Burst, v.report)}
	}
}

func (v *validator) validateWhen(field string, spec *policyapi.RateLimitPolicySpec, when *policyapi.When) {
	given := 0
	if when.Header != nil {
		given++
		v.validateHeader(field+".header", *when.Header)
	}
	if len(when.Identifiers) > 0 {
		given++
		for i, identifier := range when.Identifiers {
			v.validateTierIdentifier(fmt.Sprintf("%s.identifiers[%d]", field, i), spec, identifier)
		}
	}
	if len(when.CIDRs) > 0 {
		given++
		v.validateCIDRs(field+".cidrs", when.CIDRs)
	}
	if len(when.Groups) > 0 {
		given++
		for i, group := range when.Groups {
			v.validateNotEmpty(fmt.Sprintf("%s.groups[%d]", field, i), string(group))
		}
	}
	if when.NamespaceSelector != nil {
		given++
		v.validateSelector(field+".namespaceSelector", when.NamespaceSelector)
		if isEmptySelector(when.NamespaceSelector) {
			v.report(field+".namespaceSelector", "namespaceSelector must not be empty, because an empty selector selects every write; "+
				"set matchLabels or matchExpressions")
		}
	}
	if when.Expression != nil {
		given++
		v.validateExpression(field+".expression", *when.Expression, expr.ResultBool)
	}
	if given != 1 {
		v.report(field, "exactly one of the fields in [header identifiers cidrs groups namespaceSelector expression] must be set")
	}
}

// validateTierIdentifier quotes only addresses and service accounts in messages, because other identifiers may be secrets. A network can be an
// identifier only if the policy reads it from a part of the request, for example from a masked address.
func (v *validator) validateTierIdentifier(field string, spec *policyapi.RateLimitPolicySpec, identifier policyapi.TierIdentifier) {
	if identifier == "" {
		v.report(field, "must not be empty")
		return
	}
	source, n := v.sources.SourceOf(string(identifier))
	text := string(identifier)[n:]
	hash, isHash := strings.CutPrefix(text, rules.HashPrefix)
	if isHash && (len(hash) != limiter.HashLength || strings.Trim(hash, "0123456789abcdef") != "") {
		v.report(field, "a hash must consist of hash: and %d hexadecimal digits in lower case, as weir hash prints it", limiter.HashLength)
		return
	}
	if spec.Axis == policyapi.AxisServiceAccount {
		v.validateServiceAccount(field, identifier)
	}
	isClient := source.From == rules.FromClientIP
	if !isClient && spec.Axis != policyapi.AxisIP {
		return
	}
	if rules.ClientIdentifier(text, 0) == "" || isClient && strings.Contains(text, "/") {
		v.report(field, "%q: an identifier on axis IP, or behind address:, must be an IP address; for networks use cidrs", identifier)
	}
}

// validateCost rejects a value that no request can ever spend.
func (v *validator) validateCost(spec *policyapi.RateLimitPolicySpec, tiers [][]limiter.Limit) {
	cost := spec.Cost
	if cost == nil {
		return
	}
	const field = "spec.cost"
	given := 0
	if cost.Value != nil {
		given++
		switch value := *cost.Value; {
		case value < 1 || value > limiter.MaxUnits:
			v.report(field+".value", "must be from 1 to %[2]d, got %[1]d", value, limiter.MaxUnits)
		case !v.base[0].Limit.Blocks() && !rate.IsEverAdmitted(value, append(slices.Clone(tiers), rate.Limits(v.base))):
			v.report(field+".value", "every request costs more than the policy can ever admit, so every request would be denied; use a lower cost or "+
				"a higher limit (for TokenBucket and LeakyBucket: a higher burst)")
		}
	}
	if cost.Header != nil {
		given++
		v.validateHeaderName(field+".header", *cost.Header)
		if v.kubernetes {
			v.report(field, "cost.header must not be set with match.kubernetes, because a write has no headers; use cost.value or cost.expression")
		}
	}
	if cost.Expression != nil {
		given++
		v.validateExpression(field+".expression", *cost.Expression, expr.ResultInt)
	}
	if given != 1 {
		v.report(field, "exactly one of the fields in [value header expression] must be set")
	}
}

func (v *validator) validateExpression(field string, expression policyapi.Expression, result expr.ResultType) {
	check := expr.Validate
	if v.kubernetes {
		check = expr.ValidateKubernetes
	}
	if err := check(string(expression), result); err != nil {
		v.report(field, "%v", err)
	}
}
