package compile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/rules/matching"
)

// byAge returns Set.ByAge: the names of the policies of each large namespace, the oldest first. It omits
// namespaces whose policies have this order by name, as they do in files.
func byAge(all []compiled) map[string][]string {
	type policy struct {
		*compiled

		name string // without the namespace
	}
	inNamespace := map[string][]policy{}
	for i := range all {
		c := &all[i]
		namespace, name, _ := strings.Cut(c.name, "/")
		inNamespace[namespace] = append(inNamespace[namespace], policy{c, name})
	}
	var result map[string][]string
	for namespace, policies := range inNamespace {
		if len(policies) <= matching.MaxPoliciesPerRequest {
			continue
		}
		oldest := func(a, b policy) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) }
		if slices.IsSortedFunc(policies, oldest) {
			continue
		}
		slices.SortFunc(policies, oldest)
		if result == nil {
			result = map[string][]string{}
		}
		for _, p := range policies {
			result[namespace] = append(result[namespace], p.name)
		}
	}
	return result
}
