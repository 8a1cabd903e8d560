package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// Usage is what policies use of a budget. The fields are those of v1alpha1.BudgetLimits.
type Usage struct {
	Bytes, Rules, Expressions, RegularExpressions int64
}

// Budget bounds the policies of a Limiter. A limit of 0 is no limit.
type Budget struct {
	PerNamespace, Total Usage
}

// DefaultBudget returns the budget of a Limiter without spec.policyBudget. The total in bytes fits into a snapshot even if the rules
// hardly compress.
func DefaultBudget() Budget {
	return Budget{
		PerNamespace: Usage{Bytes: 512 << 10, Rules: 1000, Expressions: 100, RegularExpressions: 100},
		Total:        Usage{Bytes: 8 << 20, Rules: 20_000, Expressions: 2000, RegularExpressions: 2000},
	}
}

// BudgetOf returns the budget of a Limiter. It replaces missing limits by those of [DefaultBudget].
func BudgetOf(spec *v1alpha1.LimiterSpec) Budget {
	budget := DefaultBudget()
	for _, part := range []struct {
		limits v1alpha1.BudgetLimits
		of     *Usage
	}{{spec.PolicyBudget.PerNamespace, &budget.PerNamespace}, {spec.PolicyBudget.Total, &budget.Total}} {
		set := func(limit *int64, of *int64) {
			if limit != nil {
				*of = *limit
			}
		}
		set(part.limits.Bytes, &part.of.Bytes)
		set(part.limits.Rules, &part.of.Rules)
		set(part.limits.Expressions, &part.of.Expressions)
		set(part.limits.RegularExpressions, &part.of.RegularExpressions)
	}
	return budget
}

// Amount is one field of a Usage.
type Amount struct {
	Name string // of the field in v1alpha1.BudgetLimits
	Used int64
}

// Amounts returns the fields in a fixed order.
func (u Usage) Amounts() []Amount {
	return []Amount{{"bytes", u.Bytes}, {"rules", u.Rules}, {"expressions", u.Expressions}, {"regularExpressions", u.RegularExpressions}}
}

// Add returns the sum.
func (u Usage) Add(other Usage) Usage {
	return Usage{u.Bytes + other.Bytes, u.Rules + other.Rules, u.Expressions + other.Expressions, u.RegularExpressions + other.RegularExpressions}
}

// exceeds returns the index of the first amount that is above its limit; -1 if no amount is.
func (u Usage) exceeds(limits Usage) int {
	of := limits.Amounts()
	for i, amount := range u.Amounts() {
		if of[i].Used > 0 && amount.Used > of[i].Used {
			return i
		}
	}
	return -1
}

// usageOf returns what one rule uses.
func usageOf(rule *rules.Rule) Usage {
	data, err := json.Marshal(rule)
	if err != nil {
		panic(fmt.Sprintf("compile: encode rule %s: %v", rule.Policy, err)) // strings and integers
	}
	u := Usage{Bytes: int64(len(data)), Rules: 1}
	expression := func(is bool) {
		if is {
			u.Expressions++
		}
	}
	header := func(h *rules.HeaderMatch) {
		if h != nil && h.Type == rules.HeaderRegex {
			u.RegularExpressions++
		}
	}
	expression(rule.Identifier.From == rules.FromExpression)
	expression(rule.Match.Expression != "")
	expression(rule.Cost != nil && rule.Cost.Expression != "")
	for _, path := range rule.Match.Paths {
		if path.Type == rules.PathRegex {
			u.RegularExpressions++
		}
	}
	for i := range rule.Match.Headers {
		header(&rule.Match.Headers[i])
	}
	for i := range rule.Tiers {
		expression(rule.Tiers[i].When.Expression != "")
		header(rule.Tiers[i].When.Header)
	}
	return u
}

// Usage returns what the valid policies use.
func (p Policies) Usage(identity Identity) Usage {
	return p.CompileWithin(identity, Budget{Total: Usage{Rules: math.MaxInt64}}).Used
}

// compiled is a rule with the policy that it is made from.
type compiled struct {
	candidate

	rule rules.Rule
}

// within returns the rules that fit the budget in the order of all, what they use, and the problems of the others. Cluster-scoped
// policies come first, then the oldest ones: a new policy never displaces one that is enforced.
func (b Budget) within(all []compiled) (kept []rules.Rule, used Usage, problems []Problem) {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		x, y := &all[i], &all[j]
		return cmp.Or(compareBool(x.cluster == nil, y.cluster == nil), x.created.Compare(y.created), cmp.Compare(x.name, y.name))
	})
	fits := make([]bool, len(all))
	inNamespace := map[string]Usage{}
	for _, i := range order {
		c := &all[i]
		own := usageOf(&c.rule)
		total, namespace := used.Add(own), Usage{}
		if c.cluster == nil {
			namespace = inNamespace[c.namespace].Add(own)
		}
		problem := ""
		if at := namespace.exceeds(b.PerNamespace); at >= 0 {
			problem = overBudget("the older policies of namespace "+c.namespace, "perNamespace", own, b.PerNamespace, at)
		} else if at := total.exceeds(b.Total); at >= 0 {
			problem = overBudget("the policies that take precedence", "total", own, b.Total, at)
		}
		if problem != "" {
			problems = append(problems, Problem{
				Policy: c.name, Cluster: c.cluster != nil, Field: "spec", Reason: v1alpha1.ReasonOverBudget, Message: problem,
			})
			continue
		}
		fits[i], used, inNamespace[c.namespace] = true, total, namespace
	}
	for i := range all {
		if fits[i] {
			kept = append(kept, all[i].rule)
		}
	}
	slices.SortStableFunc(problems, func(x, y Problem) int { return cmp.Compare(x.Policy, y.Policy) })
	return kept, used, problems
}

// overBudget describes a policy that exceeds an amount. It does not contain what other policies use: each edit of one of them would
// change the status of this policy.
func overBudget(older, part string, own, limits Usage, at int) string {
	name := own.Amounts()[at].Name
	return fmt.Sprintf("over the policy budget of the Limiter: this policy needs %d %s, and %s leave less of %d: "+
		"shorten or delete policies, or raise spec.policyBudget.%s.%s of the Limiter",
		own.Amounts()[at].Used, name, older, limits.Amounts()[at].Used, part, name)
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	default:
		return 1
	}
}
