package redundancy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/lists"
	"github.com/weir-dev/weir/limiter/rules"
)

// Override is a policy that has no effect in a domain, because another policy decides there.
type Override struct {
	Policy string `json:"policy"`
	Domain string `json:"domain"`
	By     string `json:"by"`
	Reason string `json:"reason"` // of the condition Overridden
}

// Overrides compares cluster-scoped rules with namespaced rules. It returns only overrides that follow from the rules for all requests, because
// [Covers] and [IsRedundant] may return false if they cannot decide. If several rules override a rule, the first by name is returned.
func Overrides(list []rules.Rule) []Override {
	var policies []*Policy
	for _, own := range (rules.Set{Rules: list}).Policies() {
		policies = append(policies, NewPolicy(own))
	}
	var c Comparison
	c.Replace(nil, policies)
	return c.Overrides()
}

// Policy has the rules of one policy, and how they compare with those of other policies. Only one [Comparison] must have it.
type Policy struct {
	rules []rules.Rule
	pairs []pair // of a namespaced policy, only those in which something is overridden
}

// NewPolicy returns a policy with these rules, which must not change.
func NewPolicy(own []rules.Rule) *Policy { return &Policy{rules: own} }

func (p *Policy) isCluster() bool { return p.rules[0].Domain == "" }

// comparePolicies is the order of rules: those of a cluster-scoped policy are first.
func comparePolicies(a, b *Policy) int {
	rank := func(p *Policy) int {
		if p.isCluster() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.rules[0].Policy, b.rules[0].Policy), cmp.Compare(rank(a), rank(b)))
}

// pair is what a namespaced policy and a cluster-scoped one override of each other.
type pair struct {
	cluster *Policy
	// replaced are the defaults of cluster that a rule of the namespaced policy replaces in its domain.
	replaced []replacement
	// stricter has the first rule of cluster that makes a rule of the namespaced policy redundant, by the index of that rule; nil without one.
	stricter map[int]*rules.Rule
}

type replacement struct{ rule, by *rules.Rule }

// Comparison compares policies. It compares only the pairs of which one policy is new. The zero value has no policies.
type Comparison struct {
	cluster    []*Policy // in order, as the other lists
	namespaced []*Policy
	paired     []*Policy // namespaced, with pairs
	overrides  []Override
	isKnown    bool // overrides is that of the policies
}

// Replace removes policies, and adds others.
func (c *Comparison) Replace(gone, added []*Policy) {
	isNamespaced := func(p *Policy) bool { return !p.isCluster() }
	goneCluster, addedCluster := lists.Filter(gone, (*Policy).isCluster), lists.Filter(added, (*Policy).isCluster)
	gone, added = lists.Filter(gone, isNamespaced), lists.Filter(added, isNamespaced)

	c.cluster = lists.Replace(c.cluster, goneCluster, addedCluster, comparePolicies)
	c.namespaced = lists.Replace(c.namespaced, gone, nil, comparePolicies)
	if len(goneCluster)+len(addedCluster) > 0 {
		for _, p := range c.namespaced {
			p.pairs = slices.DeleteFunc(p.pairs, func(pair pair) bool { return slices.Contains(goneCluster, pair.cluster) })
			p.compareWith(addedCluster)
		}
		c.paired, c.isKnown = lists.Filter(c.namespaced, (*Policy).hasPairs), false
	} else {
		c.removePaired(lists.Filter(gone, (*Policy).hasPairs))
	}
	c.namespaced = lists.Replace(c.namespaced, nil, added, comparePolicies)
	for _, p := range added {
		p.pairs = nil
		p.compareWith(c.cluster)
	}
	c.addPaired(lists.Filter(added, (*Policy).hasPairs))
}

func (c *Comparison) removePaired(gone []*Policy) {
	if len(gone) > 0 {
		c.paired, c.isKnown = lists.Replace(c.paired, gone, nil, comparePolicies), false
	}
}

func (c *Comparison) addPaired(added []*Policy) {
	if len(added) > 0 {
		c.paired, c.isKnown = lists.Replace(c.paired, nil, added, comparePolicies), false
	}
}

func (p *Policy) hasPairs() bool { return len(p.pairs) > 0 }

// compareWith adds the pairs with cluster-scoped policies.
func (p *Policy) compareWith(cluster []*Policy) {
	for _, other := range cluster {
		if found := compare(p, other); len(found.replaced)+len(found.stricter) > 0 {
			p.pairs = append(p.pairs, found)
		}
	}
	slices.SortFunc(p.pairs, func(a, b pair) int { return comparePolicies(a.cluster, b.cluster) })
}

// Overrides is the function Overrides for the policies. The result must not be changed.
func (c *Comparison) Overrides() []Override {
	if !c.isKnown {
		all := ofPolicies(slices.Concat(replacedDomains(c.paired), redundant(c.paired)))
		lists.Stable(all, func(a, b Override) int {
			return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Domain, b.Domain))
		})
		c.overrides, c.isKnown = all, true
	}
	return c.overrides
}

// compare compares a namespaced policy with a cluster-scoped one.
func compare(namespaced, cluster *Policy) pair {
	found := pair{cluster: cluster}
	for i := range cluster.rules {
		rule := &cluster.rules[i]
		for j := range namespaced.rules {
			if other := &namespaced.rules[j]; replaces(other, rule) {
				found.replaced = append(found.replaced, replacement{rule, other})
				break // the first one of the domain
			}
		}
	}
	for i := range namespaced.rules {
		stricter, exists := firstOf(cluster.rules, func(c *rules.Rule) bool { return IsRedundant(&namespaced.rules[i], c) })
		if !exists {
			continue
		}
		if found.stricter == nil {
			found.stricter = map[int]*rules.Rule{}
		}
		found.stricter[i] = stricter
	}
	return found
}

// ruleOverride is an override of a rule.
type ruleOverride struct {
	Override

	rates int // of the policy
}

// replaces reports whether a namespaced rule replaces a default for every request of its domain.
func replaces(other, rule *rules.Rule) bool {
	return rule.Default && other.Replaces(rule, other.Domain) && rule.AppliesTo(other.Domain) && coversMatch(other, rule) && !skipsMore(other, rule)
}

// replacedDomains returns the domains in which namespaced rules replace defaults, sorted by default.
func replacedDomains(namespaced []*Policy) (overrides []ruleOverride) {
	type place struct {
		rule   *rules.Rule
		domain string
	}
	found := map[place]bool{}
	for _, p := range namespaced {
		for _, pair := range p.pairs {
			for _, r := range pair.replaced {
				if key := (place{r.rule, r.by.Domain}); !found[key] {
					found[key] = true
					o := Override{r.rule.Policy, r.by.Domain, r.by.Policy, policyapi.ReasonNamespacePolicy}
					overrides = append(overrides, ruleOverride{o, len(pair.cluster.rules)})
				}
			}
		}
	}
	lists.Stable(overrides, func(a, b ruleOverride) int { return cmp.Compare(a.Policy, b.Policy) })
	return overrides
}

// redundant returns the namespaced rules that have no effect because of a cluster-scoped one.
func redundant(namespaced []*Policy) (overrides []ruleOverride) {
	for _, p := range namespaced {
		for i := range p.rules {
			rule := &p.rules[i]
			index := slices.IndexFunc(p.pairs, func(pair pair) bool { return pair.stricter[i] != nil })
			if index < 0 {
				continue
			}
			domains := rule.Domains
			if len(domains) == 0 {
				domains = []string{rule.Domain}
			}
			for _, domain := range domains {
				o := Override{rule.Policy, domain, p.pairs[index].stricter[i].Policy, policyapi.ReasonStricterPolicy}
				overrides = append(overrides, ruleOverride{o, len(p.rules)})
			}
		}
	}
	return overrides
}

// ofPolicies replaces the names of rules by those of their policies, and leaves out the domains in which another rate of the policy has an effect.
func ofPolicies(overrides []ruleOverride) (all []Override) {
	type place struct{ policy, domain string }
	overridden := map[place]int{}
	for _, o := range overrides {
		o.Policy, o.By = rules.WithoutRate(o.Policy), rules.WithoutRate(o.By)
		key := place{o.Policy, o.Domain}
		if overridden[key]++; overridden[key] == o.rates { // all rates
			all = append(all, o.Override)
		}
	}
	return all
}

// skipsMore reports whether other may not match requests without an identifier that rule matches.
func skipsMore(other, rule *rules.Rule) bool {
	if other.OnMissing != rules.SkipMissing {
		return false
	}
	return rule.OnMissing != rules.SkipMissing || other.Identifier != rule.Identifier || !slices.Equal(other.Fallbacks, rule.Fallbacks)
}

func firstOf(list []rules.Rule, matches func(*rules.Rule) bool) (rule *rules.Rule, found bool) {
	for i := range list {
		if matches(&list[i]) {
			return &list[i], true
		}
	}
	return nil, false
}

// maxListedDomains is the maximum number of domains in one message.
const maxListedDomains = 8

// OverriddenCondition returns the reason and the message of the condition Overridden for the overrides of one policy. There must be at least one.
func OverriddenCondition(overrides []Override) (reason, message string) {
	if overrides[0].Reason == policyapi.ReasonStricterPolicy {
		return overrides[0].Reason, fmt.Sprintf("has no effect, because %s counts the same requests and is at least as strict", overrides[0].By)
	}
	var places []string
	for i, o := range overrides {
		if i == maxListedDomains {
			places = append(places, fmt.Sprintf("and in %d more", len(overrides)-i))
			break
		}
		places = append(places, "in "+o.Domain+" by "+o.By)
	}
	return overrides[0].Reason, "overridden " + strings.Join(places, ", ")
}
