package envoyratelimit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules/pattern"
)

// step is a node on the path to a limit, with what the other nodes of its list take from it.
type step struct {
	*descriptor

	except []string // values and wildcards of the same key that come first
}

func newStep(d *descriptor, list []*descriptor) step {
	s := step{descriptor: d}
	if d.value != "" && !d.isWildcard() {
		return s // a value comes first
	}
	isEarlier := true // other is before d in the list
	for _, other := range list {
		switch {
		case other == d:
			isEarlier = false
		case other.key != d.key || other.value == "":
		case d.value == "", // all values come before no value
			!other.isWildcard() && pattern.GlobMatches(d.value, other.value), // a value comes before a wildcard
			other.isWildcard() && isEarlier:                                  // wildcards come in the order of the list
			s.except = append(s.except, other.value)
		}
	}
	return s
}

// unreachable reports whether another node takes every value.
func (s step) unreachable() bool {
	return slices.ContainsFunc(s.except, func(value string) bool { return strings.Trim(value, "*") == "" })
}

func (s step) match() v1alpha1.DescriptorMatch {
	m := v1alpha1.DescriptorMatch{Key: v1alpha1.DescriptorKey(s.key)}
	switch {
	case s.isWildcard():
		m.Pattern = &s.value
	case s.value != "":
		m.Value = &s.value
	}
	for _, value := range s.except {
		m.Except = append(m.Except, v1alpha1.DescriptorPattern(value))
	}
	return m
}

// separates reports whether each value of the entry has a counter of its own.
func (s step) separates() bool { return s.value == "" || s.isWildcard() && !s.shared }

// identifierOf returns the identifier of the counters of a limit: the values of the entries that separate counters, or one text for all
// requests.
func identifierOf(path []step) *v1alpha1.Identifier {
	var separating []int
	for i, s := range path {
		if s.separates() {
			separating = append(separating, i)
		}
	}
	if len(separating) == 0 { // the value of any entry that has only one
		constant := slices.IndexFunc(path, func(s step) bool { return s.value != "" && !s.isWildcard() })
		if constant >= 0 {
			separating = []int{constant}
		}
	}
	if len(separating) == 1 && isFirstWithKey(path, separating[0]) {
		return &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Descriptor: new(v1alpha1.DescriptorKey(path[separating[0]].key))}}
	}
	return &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Expression: new(v1alpha1.Expression(joined(separating)))}}
}

// joined returns an expression for the values of several entries of the descriptor, such as "acme/alice#4": the lengths of all values but the
// last follow, so that different values have different results.
func joined(entries []int) string {
	if len(entries) == 0 {
		return `"all"`
	}
	var values, lengths []string
	for _, i := range entries {
		value := fmt.Sprintf("request.descriptors[0][%d].value", i)
		values, lengths = append(values, value), append(lengths, fmt.Sprintf(`string(size(%s))`, value))
	}
	last := len(lengths) - 1
	if len(entries) > maxConcatenated {
		return fmt.Sprintf(`[%s + "#" + [%s].join(",")].join("/")`, strings.Join(values, ", "), strings.Join(lengths[:last], ", "))
	}
	text := strings.Join(values, ` + "/" + `)
	if last > 0 {
		text += ` + "#" + ` + strings.Join(lengths[:last], ` + "," + `)
	}
	return text
}

// maxConcatenated is the number of values up to which + joins them. The steps for + grow with the square of their number, and of eight values
// they are too many for an expression. The function join takes more steps for long values, and so is not for a few values. One join of everything
// copies each value except the last only once.
const maxConcatenated = 7

// isFirstWithKey reports whether the entry is the one that identifier.descriptor reads.
func isFirstWithKey(path []step, i int) bool {
	return slices.IndexFunc(path, func(s step) bool { return s.key == path[i].key }) == i
}
