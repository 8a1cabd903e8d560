package rules

import (
	"fmt"
	"slices"
)

// Selects says whether the selector selects a namespace: nil for one of which nothing is known, and for that of an object
// that is in none, which only an empty selector selects.
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
	default: // check has seen to it that there are no others
		return !has
	}
}

// SelectsUnlabeled says whether the selector may select a namespace that has none of the labels: one that has none is then to
// be known all the same.
func (s Selector) SelectsUnlabeled() bool {
	return slices.ContainsFunc(s, func(r Requirement) bool { return r.Operator == SelectorNotIn || r.Operator == SelectorDoesNotExist })
}

func (s Selector) validate() error {
	for _, r := range s {
		needsValues := r.Operator == SelectorIn || r.Operator == SelectorNotIn
		switch {
		case !needsValues && r.Operator != SelectorExists && r.Operator != SelectorDoesNotExist:
			return fmt.Errorf("unknown operator %q of a selector", r.Operator)
		case r.Key == "" || needsValues != (len(r.Values) > 0):
			return fmt.Errorf("a selector asks for label %q %s %q", r.Key, r.Operator, r.Values)
		}
	}
	return nil
}
