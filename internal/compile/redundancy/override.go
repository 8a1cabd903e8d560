package redundancy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
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
	var cluster, namespaced []*rules.Rule
	for i := range list {
		if rule := &list[i]; rule.Domain == "" {
			cluster = append(cluster, rule)
		} else {
			namespaced = append(namespaced, rule)
		}
	}
	var overrides []Override
	for _, rule := range cluster {
		overrides = append(overrides, replacedDomains(rule, namespaced)...)
	}
	for _, rule := range namespaced {
		if stricter, found := firstOf(cluster, func(c *rules.Rule) bool { return IsRedundant(rule, c) }); found {
			domains := rule.Domains
			if len(domains) == 0 {
				domains = []string{rule.Domain}
			}
			for _, domain := range domains {
				overrides = append(overrides, Override{rule.Policy, domain, stricter.Policy, policyapi.ReasonStricterPolicy})
			}
		}
	}
	overrides = ofPolicies(list, overrides)
	slices.SortStableFunc(overrides, func(a, b Override) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Domain, b.Domain))
	})
	return overrides
}

// ofPolicies replaces the names of rules by those of their policies, and leaves out the domains in which another rate of the policy has an effect.
func ofPolicies(list []rules.Rule, overrides []Override) (all []Override) {
	type place struct{ policy, domain string }
	rates, overridden := map[string]int{}, map[place]int{}
	for name, own := range (rules.Set{Rules: list}).Policies() {
		rates[name] = len(own)
	}
	for _, o := range overrides {
		o.Policy, o.By = rules.WithoutRate(o.Policy), rules.WithoutRate(o.By)
		key := place{o.Policy, o.Domain}
		if overridden[key]++; overridden[key] == rates[o.Policy] { // all rates
			all = append(all, o)
		}
	}
	return all
}

// replacedDomains returns the domains in which other rules replace rule for every request, if rule is a default.
func replacedDomains(rule *rules.Rule, namespaced []*rules.Rule) []Override {
	if !rule.Default {
		return nil
	}
	var overrides []Override
	found := map[string]bool{}
	for _, other := range namespaced {
		if !found[other.Domain] && other.Replaces(rule, other.Domain) && rule.AppliesTo(other.Domain) && coversMatch(other, rule) &&
			!skipsMore(other, rule) {
			found[other.Domain] = true
			overrides = append(overrides, Override{rule.Policy, other.Domain, other.Policy, policyapi.ReasonNamespacePolicy})
		}
	}
	return overrides
}

// skipsMore reports whether other may not match requests without an identifier that rule matches.
func skipsMore(other, rule *rules.Rule) bool {
	if other.OnMissing != rules.SkipMissing {
		return false
	}
	return rule.OnMissing != rules.SkipMissing || other.Identifier != rule.Identifier || !slices.Equal(other.Fallbacks, rule.Fallbacks)
}

func firstOf(list []*rules.Rule, matches func(*rules.Rule) bool) (rule *rules.Rule, found bool) {
	index := slices.IndexFunc(list, matches)
	if index < 0 {
		return nil, false
	}
	return list[index], true
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
