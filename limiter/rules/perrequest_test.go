package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

// many returns n rules that match every request of the domain, or of all domains if domain is empty.
func many(domain string, n int) (all []rules.Rule) {
	for i := range n {
		r := rule(fmt.Sprintf("%s/p%04d", domain, i))
		if domain == "" {
			r = rule(fmt.Sprintf("cluster/p%04d", i))
			r.Domain, r.AllDomains = "", true
		}
		all = append(all, r)
	}
	return all
}

func policiesOf(matched []rules.Matched) (names []string) {
	for _, m := range matched {
		names = append(names, m.Rule.Policy)
	}
	return names
}

func TestBounded_KeepsTheOldestOfANamespaceAndOfTheCluster(t *testing.T) {
	const n = 100
	set := rules.Set{Rules: slices.Concat(many("", n), many("shop", n)), ByAge: map[string][]string{"shop": {"p0099", "p0050", "unknown"}}}
	x, err := rules.NewIndex(set, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	matched := x.Match(nil, request("GET - /"))
	if len(matched) != 2*n {
		t.Fatalf("%d rules match", len(matched))
	}
	kept, leftOut := rules.Bounded(matched)
	var want []string // 32 of each: of shop the two that are listed, and the first ones by name
	for i := range 32 {
		want = append(want, fmt.Sprintf("cluster/p%04d", i))
	}
	for i := range 30 {
		want = append(want, fmt.Sprintf("shop/p%04d", i))
	}
	want = append(want, "shop/p0050", "shop/p0099")
	if got := policiesOf(kept); !slices.Equal(got, want) {
		t.Errorf("kept %v", got)
	}
	rest := policiesOf(leftOut)
	if len(rest) != 2*n-64 || !slices.IsSorted(rest) || slices.ContainsFunc(rest, func(p string) bool { return slices.Contains(want, p) }) {
		t.Errorf("left out %v", rest)
	}
}

func TestBounded_LeavesOutNothingUpToTheBound(t *testing.T) {
	set := slices.Concat(many("", 32), many("shop", 32))
	kept, leftOut := rules.Bounded(index(t, set...).Match(nil, request("GET - /")))
	if len(kept) != 64 || len(leftOut) != 0 {
		t.Errorf("kept %d, left out %v", len(kept), policiesOf(leftOut))
	}
	// The policies of a tenant must not push out those of the cluster, nor these the tenant's.
	kept, leftOut = rules.Bounded(index(t, slices.Concat(many("", 1), many("shop", 1000))...).Match(nil, request("GET - /")))
	if len(kept) != 33 || kept[0].Rule.Policy != "cluster/p0000" || len(leftOut) != 968 {
		t.Errorf("kept %v", policiesOf(kept))
	}
	if policy := leftOut[0].Rule.Policy; !strings.HasPrefix(policy, "shop/") {
		t.Errorf("left out %s", policy)
	}
}
