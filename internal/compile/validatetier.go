package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// checkTiers returns the limit of each tier, the zero Limit for one that is unlimited or wrong.
func (c *checker) checkTiers(spec *v1alpha1.RateLimitPolicySpec) []limiter.Limit {
	limits := make([]limiter.Limit, len(spec.Tiers))
	named := map[string]int{}
	c.checkTiersOfKind(spec.Tiers)
	for i := range spec.Tiers {
		tier, field := &spec.Tiers[i], fmt.Sprintf("spec.tiers[%d]", i)
		c.checkTierName(field+".name", tier.Name)
		if first, taken := named[tier.Name]; taken {
			c.add(field+".name", "%q is already the name of tiers[%d]; tiers must have unique names, because responses identify a tier by its name", tier.Name, first)
		} else {
			named[tier.Name] = i
		}
		c.checkWhen(field+".when", spec.Axis, &tier.When)
		limits[i] = c.checkTierLimit(field, howCounted(spec), tier)
	}
	return limits
}

func (c *checker) checkTierName(field, name string) {
	if !isLabel(name) || name != lowercase(name) {
		c.add(field, "%q: the name of a tier must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit", name)
	}
}

// checkTierLimit judges only the tier's own numbers where the algorithm or the window is wrong.
func (c *checker) checkTierLimit(field string, how counting, tier *v1alpha1.Tier) limiter.Limit {
	if (tier.Limit != nil) == tier.Unlimited {
		c.add(field, "a tier must have either limit or unlimited: true, but not both")
	}
	if tier.Limit == nil {
		if tier.Burst != nil {
			c.add(field+".burst", "burst requires limit; remove burst or set the limit of the tier")
		}
		return limiter.Limit{}
	}
	limit, err := limiter.NewLimit(how.algorithm, *tier.Limit, how.window)
	if err != nil {
		c.add(field+".limit", "%v", err)
	}
	if err != nil || !how.sound() {
		return limiter.Limit{}
	}
	return c.checkBurst(field+".burst", limit, tier.Burst)
}

func (c *checker) checkWhen(field string, axis v1alpha1.Axis, when *v1alpha1.When) {
	given := 0
	if when.Header != nil {
		given++
		c.checkHeader(field+".header", *when.Header)
	}
	if len(when.Identifiers) > 0 {
		given++
		for i, identifier := range when.Identifiers {
			c.checkTierIdentifier(fmt.Sprintf("%s.identifiers[%d]", field, i), axis, identifier)
		}
	}
	if len(when.CIDRs) > 0 {
		given++
		c.checkCIDRs(field+".cidrs", when.CIDRs)
	}
	if len(when.Groups) > 0 {
		given++
		for i, group := range when.Groups {
			c.checkNotEmpty(fmt.Sprintf("%s.groups[%d]", field, i), string(group))
		}
	}
	if when.NamespaceSelector != nil {
		given++
		c.checkSelector(field+".namespaceSelector", when.NamespaceSelector)
		if isEmptySelector(when.NamespaceSelector) {
			c.add(field+".namespaceSelector", "namespaceSelector must not be empty, because an empty selector selects every write; "+
				"set matchLabels or matchExpressions")
		}
	}
	if when.Expression != nil {
		given++
		c.checkExpression(field+".expression", *when.Expression, rules.ResultBool)
	}
	if given != 1 {
		c.add(field, "exactly one of the fields in [header identifiers cidrs groups namespaceSelector expression] must be set")
	}
}

// checkTierIdentifier quotes addresses only: an identifier may be a secret.
func (c *checker) checkTierIdentifier(field string, axis v1alpha1.Axis, identifier v1alpha1.TierIdentifier) {
	if identifier == "" {
		c.add(field, "must not be empty")
		return
	}
	if axis == v1alpha1.AxisServiceAccount {
		c.checkServiceAccount(field, identifier)
	}
	if axis != v1alpha1.AxisIP {
		return
	}
	if _, err := netip.ParseAddr(string(identifier)); err != nil {
		c.add(field, "%q: an identifier on axis IP must be an IP address; for networks use cidrs", identifier)
	}
}

// checkCost refuses a value that nobody can ever spend.
func (c *checker) checkCost(spec *v1alpha1.RateLimitPolicySpec, limit limiter.Limit, tiers []limiter.Limit) {
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
			c.add(field+".value", "must be from 1 to %[2]d, got %[1]d", value, limiter.MaxUnits)
		case !isEverAdmitted(value, append(slices.Clone(tiers), limit)):
			c.add(field+".value", "every request costs more than the policy can ever admit, so every request would be denied; use a lower cost or "+
				"a higher limit (for TokenBucket and LeakyBucket: a higher burst)")
		}
	}
	if cost.Header != nil {
		given++
		c.checkHeaderName(field+".header", *cost.Header)
		if c.kubernetes {
			c.add(field, "cost.header must not be set with match.kubernetes, because a write has no headers; use cost.value or cost.expression")
		}
	}
	if cost.Expression != nil {
		given++
		c.checkExpression(field+".expression", *cost.Expression, rules.ResultInt)
	}
	if given != 1 {
		c.add(field, "exactly one of the fields in [value header expression] must be set")
	}
}

// isEverAdmitted says whether a request of that cost may pass one of the limits. The zero Limit stands for none, and for one
// that is wrong, of which nobody knows.
func isEverAdmitted(cost int64, limits []limiter.Limit) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool { return l == limiter.Limit{} || cost <= l.Capacity() })
}

func (c *checker) checkExpression(field string, expression v1alpha1.Expression, result rules.ResultType) {
	check := rules.ValidateExpression
	if c.kubernetes {
		check = rules.ValidateKubernetesExpression
	}
	if err := check(string(expression), result); err != nil {
		c.add(field, "%v", err)
	}
}
