package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// Override says that a policy decides nothing in a domain, and which policy decides in its place.
type Override struct {
	Policy string `json:"policy"`
	Domain string `json:"domain"`
	By     string `json:"by"`
	Reason string `json:"reason"` // of the condition Overridden
}

// overrides compares the rules for several domains with those of one. It says only what follows from the rules whatever the
// requests: false is always right for [Covers] and [DecidesNothingBeside]. Where several decide in the place of one, the
// first by name is told.
func overrides(list []rules.Rule) []Override {
	var cluster, namespaced []*rules.Rule
	for i := range list {
		if rule := &list[i]; rule.Domain == "" {
			cluster = append(cluster, rule)
		} else {
			namespaced = append(namespaced, rule)
		}
	}
	var all []Override
	for _, rule := range cluster {
		all = append(all, replaced(rule, namespaced)...)
	}
	for _, rule := range namespaced {
		if stricter, found := firstOf(cluster, func(c *rules.Rule) bool { return DecidesNothingBeside(rule, c) }); found {
			all = append(all, Override{rule.Policy, rule.Domain, stricter.Policy, v1alpha1.ReasonStricterPolicy})
		}
	}
	slices.SortStableFunc(all, func(a, b Override) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Domain, b.Domain))
	})
	return all
}

// replaced are the domains in which rule, if it is a default, gives way on every request that it matches.
func replaced(rule *rules.Rule, namespaced []*rules.Rule) []Override {
	if !rule.Default {
		return nil
	}
	var all []Override
	told := map[string]bool{}
	for _, other := range namespaced {
		if !told[other.Domain] && other.Replaces(rule) && speaksIn(rule, other.Domain) && Covers(&other.Match, &rule.Match) {
			told[other.Domain] = true
			all = append(all, Override{rule.Policy, other.Domain, other.Policy, v1alpha1.ReasonNamespacePolicy})
		}
	}
	return all
}

func firstOf(list []*rules.Rule, is func(*rules.Rule) bool) (rule *rules.Rule, found bool) {
	at := slices.IndexFunc(list, is)
	if at < 0 {
		return nil, false
	}
	return list[at], true
}

// speaksIn says whether rule is for requests of domain.
func speaksIn(rule *rules.Rule, domain string) bool {
	return rule.AllDomains || domain != "" && rule.Domain == domain || slices.Contains(rule.Domains, domain)
}

// maxTold is how many domains a message names.
const maxTold = 8

// Condition returns the reason and the message of the condition Overridden for the overrides of one policy, of which there
// must be one at least.
func Condition(of []Override) (reason, message string) {
	if of[0].Reason == v1alpha1.ReasonStricterPolicy {
		return of[0].Reason, fmt.Sprintf("decides nothing beside %s, which counts the same requests and is as strict or stricter", of[0].By)
	}
	var places []string
	for i, o := range of {
		if i == maxTold {
			places = append(places, fmt.Sprintf("and in %d more", len(of)-i))
			break
		}
		places = append(places, "in "+o.Domain+" by "+o.By)
	}
	return of[0].Reason, "overridden " + strings.Join(places, ", ")
}
