// Package budget bounds what the policies of one Limiter use: rules, bytes, expressions and regular expressions, per namespace and in total.
//
// The oldest policies come first, so that a new policy never displaces one that is enforced.
package budget

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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

// Default returns the budget of a Limiter without spec.policyBudget. The total in bytes fits into a snapshot even if the rules hardly compress.
func Default() Budget {
	return Budget{
		PerNamespace: Usage{Bytes: 512 << 10, Rules: 1000, Expressions: 100, RegularExpressions: 100},
		Total:        Usage{Bytes: 8 << 20, Rules: 20_000, Expressions: 2000, RegularExpressions: 2000},
	}
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

// Minus returns the difference.
func (u Usage) Minus(other Usage) Usage {
	return Usage{u.Bytes - other.Bytes, u.Rules - other.Rules, u.Expressions - other.Expressions, u.RegularExpressions - other.RegularExpressions}
}

// IsWithin reports whether no amount is above its limit.
func (u Usage) IsWithin(limits Usage) bool { return u.exceeds(limits) < 0 }

// IsAtMost reports whether no amount is above that of the other usage.
func (u Usage) IsAtMost(other Usage) bool {
	return u.Bytes <= other.Bytes && u.Rules <= other.Rules && u.Expressions <= other.Expressions && u.RegularExpressions <= other.RegularExpressions
}

// exceeds returns the index of the first amount that is above its limit; -1 if no amount is.
func (u Usage) exceeds(limits Usage) int {
	above := func(amount, limit int64) bool { return limit > 0 && amount > limit }
	switch { // in the order of Amounts
	case above(u.Bytes, limits.Bytes):
		return 0
	case above(u.Rules, limits.Rules):
		return 1
	case above(u.Expressions, limits.Expressions):
		return 2
	case above(u.RegularExpressions, limits.RegularExpressions):
		return 3
	default:
		return -1
	}
}

// RulesUsage returns what the rules of a policy use together.
func RulesUsage(own []rules.Rule) (sum Usage) {
	for i := range own {
		sum = sum.Add(RuleUsage(&own[i]))
	}
	return sum
}

// InheritedBytes is what a policy for a Gateway uses if routes of other namespaces inherit it, in place of the bytes of these routes: their owners
// decide how many there are, and the owner of the policy how many rules have them.
const InheritedBytes = 8 << 10

// RuleUsage returns what one rule uses. The routes of other namespaces than that of the policy, and the domains that follow from them, are not counted:
// tenants attach routes to a Gateway, and must not displace the policies of its owner.
func RuleUsage(rule *rules.Rule) Usage {
	counted := *rule
	if rule.Match.Routes != nil {
		counted.Domains = nil
		counted.Match.Routes = slices.DeleteFunc(slices.Clone(rule.Match.Routes), func(r rules.Route) bool { return r.Namespace != rule.Domain })
	}
	data, err := json.Marshal(&counted)
	if err != nil {
		panic(fmt.Sprintf("compile: encode rule %s: %v", rule.Policy, err)) // strings and integers
	}
	u := Usage{Bytes: int64(len(data)), Rules: 1}
	expression := func(text string) {
		if text != "" {
			u.Expressions++
			u.RegularExpressions += int64(strings.Count(text, "matches")) // at least the calls; also in literals and names
		}
	}
	header := func(h *rules.HeaderMatch) {
		if h != nil && h.Type == rules.HeaderRegex {
			u.RegularExpressions++
		}
	}
	for _, id := range rule.Sources() {
		if id.From == rules.FromExpression {
			expression(id.Name)
		}
	}
	expression(rule.Match.Expression)
	if rule.Cost != nil {
		expression(rule.Cost.Expression)
	}
	for _, path := range rule.Match.Paths {
		if path.Type == rules.PathRegex {
			u.RegularExpressions++
		}
	}
	for i := range rule.Match.Headers {
		header(&rule.Match.Headers[i])
	}
	for i := range rule.Tiers {
		expression(rule.Tiers[i].When.Expression)
		header(rule.Tiers[i].When.Header)
	}
	return u
}

// Charge is what a policy uses of a budget, with what decides its precedence.
type Charge struct {
	Policy    string // "namespace/name", or "_cluster/name"
	Namespace string
	Cluster   bool // the policy is a ClusterRateLimitPolicy
	Created   time.Time
	Usage     Usage
}

// Compare is the order of precedence: cluster-scoped policies first, then the oldest ones.
func (c *Charge) Compare(other *Charge) int {
	return cmp.Or(-cmp.Compare(c.clusterRank(), other.clusterRank()), c.Created.Compare(other.Created), cmp.Compare(c.Policy, other.Policy))
}

func (c *Charge) clusterRank() int {
	if c.Cluster {
		return 1
	}
	return 0
}

// Excess states why a policy does not fit a budget.
type Excess struct {
	Index int    // of the policy
	Part  string // the field of v1alpha1.PolicyBudget
	// Limits of the part that the policy exceeds.
	Limits Usage
	// Sum is what the policy uses together with the policies that take precedence and fit.
	Sum Usage
}

// Fit returns what the policies that fit the budget use, and an Excess for each other policy, in order of precedence: a new policy never displaces one
// that is enforced.
func (b Budget) Fit(charges []Charge) (used Usage, excesses []Excess) {
	order := make([]int, len(charges))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return charges[i].Compare(&charges[j]) })
	ordered := make([]*Charge, len(charges))
	for at, i := range order {
		ordered[at] = &charges[i]
	}
	used, excesses = b.FitOrdered(ordered)
	for i := range excesses {
		excesses[i].Index = order[excesses[i].Index]
	}
	return used, excesses
}

// FitOrdered is Fit for policies in order of precedence.
func (b Budget) FitOrdered(charges []*Charge) (used Usage, excesses []Excess) {
	f := b.NewFitting()
	for i, c := range charges {
		if e, fits := f.Fit(c); !fits {
			e.Index = i
			excesses = append(excesses, e)
		}
	}
	return f.Used, excesses
}

// Fitting fits policies to a budget, in order of precedence.
type Fitting struct {
	budget      Budget
	Used        Usage
	Exceeded    bool // a policy did not fit: others can depend on it
	inNamespace map[string]Usage
}

// NewFitting returns a Fitting without policies.
func (b Budget) NewFitting() *Fitting { return &Fitting{budget: b, inNamespace: map[string]Usage{}} }

// IsUnlimited reports whether everything fits, and nothing is counted.
func (f *Fitting) IsUnlimited() bool { return f.budget == Budget{} }

// Fit adds the usage of a policy if it fits.
func (f *Fitting) Fit(c *Charge) (excess Excess, fits bool) {
	total, namespace := f.Used.Add(c.Usage), Usage{}
	if !c.Cluster {
		namespace = f.inNamespace[c.Namespace].Add(c.Usage)
	}
	switch {
	case namespace.exceeds(f.budget.PerNamespace) >= 0:
		f.Exceeded = true
		return Excess{Part: "perNamespace", Limits: f.budget.PerNamespace, Sum: namespace}, false
	case total.exceeds(f.budget.Total) >= 0:
		f.Exceeded = true
		return Excess{Part: "total", Limits: f.budget.Total, Sum: total}, false
	}
	f.Used, f.inNamespace[c.Namespace] = total, namespace
	return Excess{}, true
}

// Remove removes the usage of a policy that fits.
func (f *Fitting) Remove(c *Charge) {
	if f.IsUnlimited() {
		return
	}
	f.Used = f.Used.Minus(c.Usage)
	if !c.Cluster {
		f.inNamespace[c.Namespace] = f.inNamespace[c.Namespace].Minus(c.Usage)
	}
}

// OverBudget describes a policy that exceeds a limit. It does not contain what other policies use: each edit of one of them would
// change the status of this policy.
func OverBudget(c *Charge, e Excess) string {
	older := "the policies that take precedence"
	if e.Part == "perNamespace" {
		older = "the older policies of namespace " + c.Namespace
	}
	needed, limit := c.Usage.Amounts(), e.Limits.Amounts()
	exceeded := e.Sum.exceeds(e.Limits)
	return fmt.Sprintf("over the policy budget of the Limiter: this policy needs %d %s, and %s leave less of %d: "+
		"shorten or delete policies, or raise spec.policyBudget.%s.%s of the Limiter",
		needed[exceeded].Used, needed[exceeded].Name, older, limit[exceeded].Used, e.Part, needed[exceeded].Name)
}
