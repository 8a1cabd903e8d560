package matching_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// many returns n rules that match every request of the domain, or of all domains if domain is empty.
func many(domain string, n int) (all []rules.Rule) {
	for i := range n {
		r := rule(fmt.Sprintf("%s/p%04d", domain, i))
		if domain == "" {
			r = rule(policyname.Join(policyname.Cluster, fmt.Sprintf("p%04d", i)))
			r.Domain, r.AllDomains = "", true
		}
		all = append(all, r)
	}
	return all
}

func policiesOf(matched []matching.Matched) (names []string) {
	for _, m := range matched {
		names = append(names, m.Rule.Policy)
	}
	return names
}

func bounded(x *matching.Index, r *rules.Request) (kept, leftOut []matching.Matched) {
	return x.Bounded(x.Match(nil, r))
}

func TestBounded_KeepsTheOldestOfANamespaceAndOfTheCluster(t *testing.T) {
	const n = 100
	set := rules.Set{Rules: slices.Concat(many("", n), many("shop", n)), ByAge: map[string][]string{"shop": {"p0099", "p0050", "unknown"}}}
	x, err := matching.NewIndex(set, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	matched := x.Match(nil, request("GET - /"))
	if len(matched) != 2*n {
		t.Fatalf("%d rules match", len(matched))
	}
	kept, leftOut := x.Bounded(matched)
	var want []string // 32 of each: of shop the two that are listed, and the first ones by name
	for i := range 32 {
		want = append(want, policyname.Join(policyname.Cluster, fmt.Sprintf("p%04d", i)))
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
	kept, leftOut := bounded(index(t, set...), request("GET - /"))
	if len(kept) != 64 || len(leftOut) != 0 {
		t.Errorf("kept %d, left out %v", len(kept), policiesOf(leftOut))
	}
	// The policies of a tenant must not push out those of the cluster, nor these the tenant's.
	kept, leftOut = bounded(index(t, slices.Concat(many("", 1), many("shop", 1000))...), request("GET - /"))
	if len(kept) != 33 || kept[0].Rule.Policy != "_cluster/p0000" || len(leftOut) != 968 {
		t.Errorf("kept %v", policiesOf(kept))
	}
	if policy := leftOut[0].Rule.Policy; !strings.HasPrefix(policy, "shop/") {
		t.Errorf("left out %s", policy)
	}
}

func TestBounded_ThePoliciesOfAGatewayPushOutNoneOfTheNamespaceOfTheRoute(t *testing.T) {
	var gateways []rules.Rule
	for _, namespace := range []string{"infra", "infra-2"} {
		for _, r := range many(namespace, 100) {
			gateways = append(gateways, inherited(r, "shop"))
		}
	}
	all := slices.Concat(many("", 33), gateways, many("shop", 40))
	slices.SortFunc(all, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	r := request("GET - /")
	r.Descriptors = requestWithDescriptors("target=HTTPRoute/a").Descriptors
	kept, leftOut := bounded(index(t, all...), r)
	count := map[string]int{}
	for _, policy := range policiesOf(kept) {
		namespace, _ := policyname.Split(policy)
		count[namespace]++
	}
	if count[policyname.Cluster] != 32 || count["infra"] != 32 || count["infra-2"] != 32 || count["shop"] != 32 || len(kept)+len(leftOut) != len(all) {
		t.Errorf("kept %v, left out %d of %d", count, len(leftOut), len(all))
	}
	if !slices.IsSorted(policiesOf(kept)) || !slices.IsSorted(policiesOf(leftOut)) {
		t.Error("the order of the policies is lost")
	}
}

func TestBounded_LeavesOutShadowAndUncertainMatchesFirst(t *testing.T) {
	const uncertain = `int(request.path) > 0` // fails with a path that is not a number: the rule matches
	for name, tc := range map[string]struct {
		domain                   string
		shadow, unknown, certain int    // policies, the oldest first
		want                     [3]int // that are kept
	}{
		"shadow policies do not push out a younger one":        {"shop", 32, 0, 8, [3]int{24, 0, 8}},
		"uncertain matches do not push out a younger one":      {"shop", 0, 32, 8, [3]int{0, 24, 8}},
		"shadow policies do not push out uncertain matches":    {"shop", 32, 8, 0, [3]int{24, 8, 0}},
		"certain, then uncertain, then shadow":                 {"shop", 16, 16, 20, [3]int{0, 12, 20}},
		"shadow cluster policies do not push out younger ones": {"", 32, 0, 8, [3]int{24, 0, 8}},
		"the bound holds for certain matches":                  {"shop", 2, 2, 40, [3]int{0, 0, 32}},
		"nothing is left out up to the bound":                  {"shop", 10, 11, 11, [3]int{10, 11, 11}},
	} {
		t.Run(name, func(t *testing.T) {
			list := many(tc.domain, tc.shadow+tc.unknown+tc.certain)
			for i := range list {
				switch {
				case i < tc.shadow:
					list[i].Shadow = true
				case i < tc.shadow+tc.unknown:
					list[i].Match.Expression = uncertain
				}
			}
			kept, leftOut := bounded(index(t, list...), request("GET - /"))
			if len(kept)+len(leftOut) != len(list) || !slices.IsSorted(policiesOf(kept)) || !slices.IsSorted(policiesOf(leftOut)) {
				t.Errorf("kept %v, left out %v", policiesOf(kept), policiesOf(leftOut))
			}
			var got [3]int
			oldest := [3]int{0, tc.shadow, tc.shadow + tc.unknown} // the first policy of each class
			for _, m := range kept {
				class := 2
				switch {
				case m.Rule.Shadow:
					class = 0
				case m.Rule.Match.Expression != "":
					class = 1
				}
				if want := list[oldest[class]+got[class]].Policy; m.Rule.Policy != want {
					t.Errorf("kept %s, not the older %s", m.Rule.Policy, want)
				}
				got[class]++
			}
			if got != tc.want {
				t.Errorf("kept %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNewIndex_TheOldestPoliciesOfANamespaceHaveSeriesOfTheirTiers(t *testing.T) {
	all := slices.Concat(many("", 40), many("shop", 40), many("shop-b", 32))
	for i := range all {
		for tier := range 16 {
			name := fmt.Sprint("tier-", tier)
			all[i].Tiers = append(all[i].Tiers, rules.Tier{Name: name, Units: 1, When: rules.When{Identifiers: []string{name}}})
		}
	}
	slices.SortFunc(all, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	x, err := matching.NewIndex(rules.Set{Rules: all, ByAge: map[string][]string{"shop": {"p0039", "p0035"}}}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for rule := range x.Rules() {
		namespace, name := policyname.Split(rule.Policy)
		want := false
		switch namespace {
		case "shop":
			want = name >= "p0030" && name != "p0039" && name != "p0035"
		case policyname.Cluster:
			want = name >= "p0032"
		}
		if got := x.SharesTierSeries(rule); got != want {
			t.Errorf("%s: shares series is %v, want %v", rule.Policy, got, want)
		}
	}
}

// Without one of its rates, a policy can admit more than its author intends, and more than the default.
func TestBounded_APolicyWithARateThatIsLeftOutReplacesNoDefault(t *testing.T) {
	for others, want := range map[int]bool{30: false, 31: true} {
		all := slices.Concat([]rules.Rule{asDefault(clusterRule("a"))}, many("shop", others))
		for _, window := range []string{"1d", "1m"} {
			own := replacing(rule("shop/plans:"+window), "a")
			own.Rate = window
			all = append(all, own)
		}
		kept, leftOut := bounded(index(t, all...), request("GET - /"))
		if got := kept[0].Rule.Policy == "_cluster/a"; got != want {
			t.Errorf("%d other policies: the default holds: %v, left out %v", others, got, policiesOf(leftOut))
		}
	}
}

// A policy beyond the bound limits nothing. If it replaced a default, neither would hold.
func TestBounded_APolicyThatIsLeftOutReplacesNoDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		others int
		want   bool // the default holds
	}{"within the bound": {31, false}, "beyond the bound": {32, true}} {
		t.Run(name, func(t *testing.T) {
			for _, domain := range []string{"shop", ""} {
				own := replacing(many(domain, tc.others+1)[tc.others], "a")
				all := slices.Concat([]rules.Rule{asDefault(clusterRule("a"))}, many(domain, tc.others), []rules.Rule{own})
				if domain == "" {
					all = slices.Delete(all, 1, 2) // the default is one of the policies of the cluster
				}
				x := index(t, all...)
				kept, leftOut := x.Bounded(x.Match(nil, request("GET - /")))
				if got := kept[0].Rule.Policy == "_cluster/a"; got != tc.want {
					t.Errorf("domain %q: the default holds: %v, left out %v", domain, got, policiesOf(leftOut))
				}
				if e := x.Explain(request("GET - /"))[0]; e.Charged() != tc.want || (e.ReplacedBy == own.Policy) == tc.want {
					t.Errorf("domain %q: explained as charged: %v, replaced by %q", domain, e.Charged(), e.ReplacedBy)
				}
			}
		})
	}
}
