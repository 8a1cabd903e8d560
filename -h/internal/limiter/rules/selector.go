package rules

import (
	"fmt"
	"slices"
)

// Selects reports whether the selector selects a namespace. The namespace is nil if it is unknown or if the object is cluster-scoped.
// Only an empty selector selects nil.
func (s Selector) Selects(namespace *Namespace) bool {
	if len(s) == 0 {
		return true
	}
	return namespace != nil && !slices.ContainsFunc(s, func(r Requirement) bool { return !r.holds(namespace.Labels) })
}

func (r *Requirement) holds(labels map[string]string) bool {
	value, has := labels[r.Key]
	switch r.Operator {
	case SelectorIn:
		return has && slices.Contains(r.Values, value)
	case SelectorNotIn:
		return !has || !slices.Contains(r.Values, value)
	case SelectorExists:
		return has
	default: // DoesNotExist: validate rejects all other operators
		return !has
	}
}

// SelectsUnlabeled reports whether the selector can select a namespace without any of the labels. If so, the Set must list such
// namespaces too.
func (s Selector) SelectsUnlabeled() bool {
	return slices.ContainsFunc(s, func(r Requirement) bool { return r.Operator == SelectorNotIn || r.Operator == SelectorDoesNotExist })
}

// Validate returns an error if a requirement has an unknown operator, no key, or values that do not fit its operator.
func (s Selector) Validate() error {
	for _, r := range s {
		needsValues := r.Operator == SelectorIn || r.Operator == SelectorNotIn
		switch {
		case !needsValues && r.Operator != SelectorExists && r.Operator != SelectorDoesNotExist:
			return fmt.Errorf("unknown selector operator %q", r.Operator)
		case r.Key == "" || needsValues != (len(r.Values) > 0):
			return fmt.Errorf("invalid selector requirement: key %q, operator %s, values %q", r.Key, r.Operator, r.Values)
		}
	}
	return nil
}
