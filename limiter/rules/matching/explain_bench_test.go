package matching_test

import (
	"fmt"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

// BenchmarkExplain explains a request among 10 000 policies of its domain that do not match.
func BenchmarkExplain(b *testing.B) {
	var list []rules.Rule
	for i := range 10_000 {
		r := rule(fmt.Sprintf("shop/%05d", i))
		r.Match.Hosts, r.Match.Paths = []string{"a.example"}, path(rules.PathPrefix, fmt.Sprintf("/v%d", i)).Paths
		list = append(list, r)
	}
	x, r := index(b, list...), request("GET a.example /")
	for b.Loop() {
		x.Explain(r)
	}
}
