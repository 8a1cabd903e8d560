package lowering

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/policyname"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// Lower converts a valid policy to a rule for each slot, sorted by name. Policies with the same meaning have the same rules, to the byte.
func (policy *Valid) Lower(identity Identity, hashKey *limiter.HashKey) []rules.Rule {
	common := lowerCommon(policy)
	setIdentifier(&common, policy.Spec, identity)
	list := make([]rules.Rule, len(policy.Slots))
	for i := range policy.Slots {
		slot, rule := &policy.Slots[i], common
		if rule.Rate = slot.Name; slot.Name != "" {
			rule.Policy += ":" + slot.Name
		}
		rule.Algorithm, rule.Units, rule.Burst, rule.TiersOnly = slot.Limit.Algorithm(), slot.Limit.Units(), slot.Limit.Burst(), slot.TiersOnly
		rule.WindowSeconds = int64(slot.Limit.Window() / time.Second)
		rule.Lease = leaseWithin(policy.Lease, slot.Limit.Window())
		rule.Tiers = lowerTiers(policy.Spec, slot.Tiers, &rule, hashKey)
		list[i] = rule
	}
	slices.SortFunc(list, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	return list
}

// lowerCommon returns what the rules of a policy have in common, without the identifier.
func lowerCommon(policy *Valid) rules.Rule {
	rule := rules.Rule{
		Policy:  policy.Name,
		Counter: policy.counterBesidesName(),
		Domain:  policy.Namespace,
		ReplacesDefaults: sorted(mapEach(policy.Spec.Replaces, func(name policyapi.PolicyName) string { return policyname.Join(policyname.Cluster, string(name)) }),
			strings.Compare),
		Axis:           string(policy.Spec.Axis),
		PerEndpoint:    policy.Spec.Scope == policyapi.ScopeEndpoint,
		Match:          lowerMatch(policy.Spec.Match),
		Cost:           lowerCost(policy.Spec.Cost),
		Debt:           policy.Spec.Overrun == policyapi.OverrunDebt,
		Shadow:         policy.Spec.Enforcement == policyapi.EnforcementShadow,
		OnStoreFailure: lowerStoreFailure(policy.Spec.OnStoreFailure),
		LocalShare:     lowerLocalShare(policy.Spec.LocalShare),
		Compact:        policy.Spec.Storage == policyapi.StorageCompact,
		Denial:         lowerDenial(policy.Spec.Denial),
	}
	if cluster := policy.Cluster; cluster != nil {
		rule.Domains = sorted(mapEach(cluster.Domains, text[policyapi.Domain]), strings.Compare)
		rule.AllDomains = len(cluster.Domains) == 0
		rule.Default = cluster.Precedence == policyapi.PrecedenceDefault
	}
	return rule
}

// lowerStoreFailure omits the default, which limiters that do not know the field apply.
func lowerStoreFailure(failure policyapi.StoreFailure) rules.StoreFailure {
	switch failure {
	case policyapi.StoreFailureAllow:
		return rules.AllowOnFailure
	case policyapi.StoreFailureDeny:
		return rules.DenyOnFailure
	default:
		return rules.LocalOnFailure
	}
}

func lowerLocalShare(share policyapi.LocalShare) rules.LocalShare {
	if share == policyapi.LocalShareWhole {
		return rules.WholeShare
	}
	return rules.EqualShare
}

func lowerMatch(match *policyapi.Match) rules.Match {
	if match == nil {
		return rules.Match{}
	}
	if match.Kubernetes != nil {
		return lowerKubernetesMatch(match.Kubernetes)
	}
	if match.HTTP == nil {
		return rules.Match{Descriptors: mapEach(match.Descriptors, lowerDescriptor)} // in the order of the descriptor
	}
	return rules.Match{
		Hosts:       sorted(mapEach(match.HTTP.Hosts, lowercase[policyapi.Host]), strings.Compare),
		Paths:       sorted(mapEach(match.HTTP.Paths, lowerPath), comparePaths),
		IgnoreCase:  match.HTTP.IgnoreCase,
		Methods:     sorted(mapEach(match.HTTP.Methods, upper[policyapi.Method]), strings.Compare),
		Headers:     sorted(mapEach(match.HTTP.Headers, lowerHeader), compareHeaders),
		CIDRs:       sorted(mapEach(match.HTTP.CIDRs, lowerCIDR), strings.Compare),
		ExceptCIDRs: sorted(mapEach(match.HTTP.ExceptCIDRs, lowerCIDR), strings.Compare),
		Expression:  lowerExpression(match.HTTP.Expression),
	}
}

func lowerDescriptor(entry policyapi.DescriptorMatch) rules.DescriptorMatch {
	m := rules.DescriptorMatch{Key: string(entry.Key)}
	if entry.Value != nil {
		m.Value = *entry.Value
	}
	if entry.Pattern != nil {
		m.Pattern = *entry.Pattern
	}
	m.Except = sorted(mapEach(entry.Except, text[policyapi.DescriptorPattern]), strings.Compare)
	return m
}

// lowerPath does not change regular expressions. NormalPath removes the trailing slash, so that the prefixes /v1 and /v1/ are the same.
func lowerPath(path policyapi.PathMatch) rules.PathMatch {
	switch pathType(path) {
	case policyapi.PathRegularExpression:
		return rules.PathMatch{Type: rules.PathRegex, Value: path.Value}
	case policyapi.PathExact:
		return rules.PathMatch{Type: rules.PathExact, Value: reading.NormalPath(path.Value)}
	default:
		return rules.PathMatch{Type: rules.PathPrefix, Value: reading.NormalPath(path.Value)}
	}
}

func lowerHeader(header policyapi.HeaderMatch) rules.HeaderMatch {
	m := rules.HeaderMatch{Name: lowercase(header.Name), Invert: header.Invert}
	switch headerType(header) {
	case policyapi.HeaderPresent:
		m.Type = rules.HeaderPresent
		return m
	case policyapi.HeaderRegularExpression:
		m.Type = rules.HeaderRegex
	default:
		m.Type = rules.HeaderExact
	}
	m.Value = *header.Value
	return m
}

func comparePaths(a, b rules.PathMatch) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Value, b.Value))
}

func compareHeaders(a, b rules.HeaderMatch) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Value, b.Value),
		cmp.Compare(strconv.FormatBool(a.Invert), strconv.FormatBool(b.Invert)))
}

// mapEach returns the results of f for each element of list, or nil if list is empty.
func mapEach[A, B any](list []A, f func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// sorted sorts a list whose order has no meaning, and removes duplicates.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return slices.CompactFunc(list, func(a, b T) bool { return compare(a, b) == 0 })
}

func text[T ~string](s T) string      { return string(s) }
func upper[T ~string](s T) string     { return strings.ToUpper(string(s)) }
func lowercase[T ~string](s T) string { return strings.ToLower(string(s)) }
