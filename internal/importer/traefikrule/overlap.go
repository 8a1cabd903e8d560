package traefikrule

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Overlap reports whether a request can match both. It returns true if it cannot decide.
func Overlap(a, b *v1alpha1.HTTPMatch) bool {
	return !disjoint(a.Hosts, b.Hosts, func(x, y v1alpha1.Host) bool {
		return x == y || strings.HasPrefix(string(x+y), "*") || strings.Contains(string(x+y), "*.")
	}) &&
		!disjoint(a.Methods, b.Methods, func(x, y v1alpha1.Method) bool { return x == y || x+y == "GETHEAD" || x+y == "HEADGET" }) &&
		!disjoint(a.Paths, b.Paths, samePaths)
}

// disjoint reports whether two lists of alternatives, of which an empty one is everything, have no two values that a request can have both of.
func disjoint[T any](a, b []T, both func(x, y T) bool) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	return !slices.ContainsFunc(a, func(x T) bool {
		return slices.ContainsFunc(b, func(y T) bool { return both(x, y) })
	})
}

func samePaths(x, y v1alpha1.PathMatch) bool {
	isBelow := func(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	switch {
	case x.Type == v1alpha1.PathExact && y.Type == v1alpha1.PathExact:
		return x.Value == y.Value
	case x.Type == v1alpha1.PathExact:
		return isBelow(x.Value, y.Value)
	case y.Type == v1alpha1.PathExact:
		return isBelow(y.Value, x.Value)
	default:
		return isBelow(x.Value, y.Value) || isBelow(y.Value, x.Value)
	}
}
