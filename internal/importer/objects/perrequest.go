package objects

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/limiter/rules"
)

// reportTooMany reports each policy for a target that can match a request together with as many earlier ones for the target as a request is
// charged to.
func reportTooMany(out *importer.Result) {
	type target struct{ domain, name string }
	earlier := map[target][]*v1alpha1.HTTPMatch{}
	for i := range out.Policies {
		p := &out.Policies[i]
		match := p.Spec.Match.HTTP
		for _, name := range p.Targets {
			of := target{p.Domain, name}
			others := 0
			for _, other := range earlier[of] {
				if !areExclusive(match, other) {
					others++
				}
			}
			if others >= rules.MaxPoliciesPerRequest {
				out.Add(p.Place, importer.Difference, "%d earlier policies for %s can match the same request, and a request is charged to the oldest %d of its "+
					"namespace only; combine rules, or let their conditions exclude each other", others, name, rules.MaxPoliciesPerRequest)
			}
			earlier[of] = append(earlier[of], match)
		}
	}
}

// areExclusive reports whether no request can match both, as far as methods, exact paths and exact headers show it.
func areExclusive(a, b *v1alpha1.HTTPMatch) bool {
	return haveDisjointMethods(a, b) || haveOtherPaths(a, b) || haveOtherHeaders(a, b)
}

func haveDisjointMethods(a, b *v1alpha1.HTTPMatch) bool {
	return len(a.Methods) > 0 && len(b.Methods) > 0 &&
		!slices.ContainsFunc(a.Methods, func(m v1alpha1.Method) bool { return slices.Contains(b.Methods, m) })
}

// haveOtherPaths compares the single path that an imported rule has.
func haveOtherPaths(a, b *v1alpha1.HTTPMatch) bool {
	isExact := func(m *v1alpha1.HTTPMatch) bool { return len(m.Paths) == 1 && m.Paths[0].Type == v1alpha1.PathExact }
	return isExact(a) && isExact(b) && rules.NormalPath(a.Paths[0].Value) != rules.NormalPath(b.Paths[0].Value)
}

func haveOtherHeaders(a, b *v1alpha1.HTTPMatch) bool {
	isExact := func(h v1alpha1.HeaderMatch) bool {
		return h.Type == v1alpha1.HeaderExact && !h.Invert && h.Value != nil
	}
	return slices.ContainsFunc(a.Headers, func(h v1alpha1.HeaderMatch) bool {
		return isExact(h) && slices.ContainsFunc(b.Headers, func(other v1alpha1.HeaderMatch) bool {
			return isExact(other) && strings.EqualFold(string(h.Name), string(other.Name)) && *h.Value != *other.Value
		})
	})
}
