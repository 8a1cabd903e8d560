// Package labelselector validates the label selectors of policies and of the Gateway API, and converts them to those of rules.
package labelselector

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter/rules"
)

// Lower returns the requirements of a selector, sorted. A nil selector and an empty selector both select everything.
func Lower(selector *policyapi.LabelSelector) rules.Selector {
	if selector == nil {
		return nil
	}
	var requirements rules.Selector
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		requirements = append(requirements, rules.Requirement{Key: key, Operator: rules.SelectorIn, Values: []string{selector.MatchLabels[key]}})
	}
	for _, r := range selector.MatchExpressions {
		values := slices.Clone(r.Values)
		slices.Sort(values)
		requirements = append(requirements, rules.Requirement{Key: r.Key, Operator: rules.SelectorOperator(r.Operator), Values: slices.Compact(values)})
	}
	slices.SortFunc(requirements, compare)
	return slices.CompactFunc(requirements, func(a, b rules.Requirement) bool { return compare(a, b) == 0 })
}

func compare(a, b rules.Requirement) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
}

// Validate returns an error for a selector that Kubernetes rejects: it names the first requirement that is invalid.
func Validate(selector *policyapi.LabelSelector) error {
	if selector == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		if err := validateLabel(key, selector.MatchLabels[key]); err != nil {
			return err
		}
	}
	for _, r := range selector.MatchExpressions {
		if err := validateRequirement(&r); err != nil {
			return err
		}
	}
	return nil
}

func validateRequirement(r *policyapi.LabelSelectorRequirement) error {
	switch r.Operator {
	case policyapi.LabelSelectorOpIn, policyapi.LabelSelectorOpNotIn:
		if len(r.Values) == 0 {
			return fmt.Errorf("operator %s of key %q must have values", r.Operator, r.Key)
		}
	case policyapi.LabelSelectorOpExists, policyapi.LabelSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return fmt.Errorf("operator %s of key %q must not have values", r.Operator, r.Key)
		}
	default:
		return fmt.Errorf("%q is not a valid label selector operator; use In, NotIn, Exists or DoesNotExist", r.Operator)
	}
	if len(r.Values) == 0 {
		return validateLabel(r.Key, "")
	}
	for _, value := range r.Values {
		if err := validateLabel(r.Key, value); err != nil {
			return err
		}
	}
	return nil
}

// The forms of keys and values of labels: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set.
var (
	name   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	prefix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

const maxPrefix = 253

func validateLabel(key, value string) error {
	domain, rest, hasDomain := strings.Cut(key, "/")
	if !hasDomain {
		rest = key
	}
	switch {
	case !name.MatchString(rest), hasDomain && (len(domain) > maxPrefix || !prefix.MatchString(domain)):
		return fmt.Errorf("%q is not a key of a label: it must be a name of at most 63 letters, digits, dots, hyphens and underscores such as team, "+
			"or a DNS name, a slash and a name, such as example.com/team", key)
	case value != "" && !name.MatchString(value):
		return fmt.Errorf("%q is not a value of a label: it must be empty, or at most 63 letters, digits, dots, hyphens and underscores, "+
			"and begin and end with a letter or digit", value)
	}
	return nil
}
