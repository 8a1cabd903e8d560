package compile

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// lower writes a valid policy in the terms of rules: policies that mean the same give the same bytes.
func lower(policy valid, identifier rules.Identifier) rules.Rule {
	rule := rules.Rule{
		Policy:         policy.name,
		Domain:         policy.namespace,
		Axis:           string(policy.spec.Axis),
		Identifier:     identifier,
		PerEndpoint:    policy.spec.Scope == v1alpha1.ScopeEndpoint,
		Match:          lowerMatch(policy.spec.Match),
		Algorithm:      policy.limit.Algorithm(),
		Units:          policy.limit.Units(),
		WindowSeconds:  int64(policy.limit.Window() / time.Second),
		Burst:          policy.limit.Burst(),
		Tiers:          lowerTiers(policy, identifier),
		Cost:           lowerCost(policy.spec.Cost),
		Shadow:         policy.spec.Enforcement == v1alpha1.EnforcementShadow,
		OnStoreFailure: lowerStoreFailure(policy.spec.OnStoreFailure),
	}
	if cluster := policy.cluster; cluster != nil {
		rule.Domains = sorted(each(cluster.Domains, text[v1alpha1.Domain]), strings.Compare)
		rule.AllDomains = len(cluster.Domains) == 0
		rule.Default = cluster.Precedence == v1alpha1.PrecedenceDefault
	}
	return rule
}

// lowerStoreFailure leaves the default out, as limiters of before the field read it.
func lowerStoreFailure(failure v1alpha1.StoreFailure) rules.StoreFailure {
	switch failure {
	case v1alpha1.StoreFailureAllow:
		return rules.AllowOnFailure
	case v1alpha1.StoreFailureDeny:
		return rules.DenyOnFailure
	default:
		return rules.LocalOnFailure
	}
}

func lowerMatch(match *v1alpha1.Match) rules.Match {
	if match == nil {
		return rules.Match{}
	}
	if match.Kubernetes != nil {
		return lowerKubernetesMatch(match.Kubernetes)
	}
	if match.HTTP == nil {
		return rules.Match{Descriptors: each(match.Descriptors, lowerDescriptor)} // in the order that they have in a request
	}
	return rules.Match{
		Hosts:       sorted(each(match.HTTP.Hosts, lowercase[v1alpha1.Host]), strings.Compare),
		Paths:       sorted(each(match.HTTP.Paths, lowerPath), comparePaths),
		Methods:     sorted(each(match.HTTP.Methods, upper[v1alpha1.Method]), strings.Compare),
		Headers:     sorted(each(match.HTTP.Headers, lowerHeader), compareHeaders),
		CIDRs:       sorted(each(match.HTTP.CIDRs, lowerCIDR), strings.Compare),
		ExceptCIDRs: sorted(each(match.HTTP.ExceptCIDRs, lowerCIDR), strings.Compare),
		Expression:  lowerExpression(match.HTTP.Expression),
	}
}

func lowerDescriptor(entry v1alpha1.DescriptorMatch) rules.DescriptorMatch {
	m := rules.DescriptorMatch{Key: string(entry.Key)}
	if entry.Value != nil {
		m.Value = *entry.Value
	}
	return m
}

// lowerPath leaves expressions as they are. NormalPath takes the trailing slash off, so that the prefixes /v1 and /v1/
// are one.
func lowerPath(path v1alpha1.PathMatch) rules.PathMatch {
	switch pathType(path) {
	case v1alpha1.PathRegularExpression:
		return rules.PathMatch{Type: rules.PathRegex, Value: path.Value}
	case v1alpha1.PathExact:
		return rules.PathMatch{Type: rules.PathExact, Value: rules.NormalPath(path.Value)}
	default:
		return rules.PathMatch{Type: rules.PathPrefix, Value: rules.NormalPath(path.Value)}
	}
}

func lowerHeader(header v1alpha1.HeaderMatch) rules.HeaderMatch {
	m := rules.HeaderMatch{Name: lowercase(header.Name), Invert: header.Invert}
	switch headerType(header) {
	case v1alpha1.HeaderPresent:
		m.Type = rules.HeaderPresent
		return m
	case v1alpha1.HeaderRegularExpression:
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

func each[A, B any](list []A, f func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// sorted sorts list, whose order has no meaning, and drops repetitions.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return slices.CompactFunc(list, func(a, b T) bool { return compare(a, b) == 0 })
}

func text[T ~string](s T) string      { return string(s) }
func upper[T ~string](s T) string     { return strings.ToUpper(string(s)) }
func lowercase[T ~string](s T) string { return strings.ToLower(string(s)) }
