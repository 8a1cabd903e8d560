package redundancy_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

type owner struct {
	name  string
	rules []rules.Rule
}

// After each step of a random history, an Index finds the owner that a comparison with all rules finds.
func TestIndex_FindsWhatAComparisonWithAllRulesFinds(t *testing.T) {
	found := map[string]int{}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		index := redundancy.NewIndex(func(a, b *owner) int { return cmp.Compare(a.name, b.name) })
		var owners []*owner
		for step := range 300 {
			if len(owners) > 0 && random.IntN(3) == 0 {
				i := random.IntN(len(owners))
				index.Remove(owners[i], owners[i].rules)
				owners = slices.Delete(owners, i, i+1)
			} else {
				o := &owner{name: fmt.Sprintf("p%d", random.IntN(1000)*1000+step)}
				for range 1 + random.IntN(2) {
					o.rules = append(o.rules, anyRule(random))
				}
				index.Add(o, o.rules)
				owners = append(owners, o)
			}
			slices.SortFunc(owners, func(a, b *owner) int { return cmp.Compare(a.name, b.name) })
			rule := anyRule(random)
			counts := func(o *owner) bool { return !strings.HasSuffix(o.name, "7") }
			want := slices.IndexFunc(owners, func(o *owner) bool {
				return counts(o) && slices.ContainsFunc(o.rules, func(other rules.Rule) bool { return redundancy.IsRedundant(&rule, &other) })
			})
			got, exists := index.First(&rule, counts)
			switch {
			case exists != (want >= 0), exists && got != owners[want]:
				t.Fatalf("seed %d, step %d: owner %v, %t, want %d of %d\nfor %+v", seed, step, got, exists, want, len(owners), rule)
			case exists:
				for part, is := range map[string]bool{
					"path": len(rule.Match.Paths) > 0, "host": len(rule.Match.Hosts) > 0, "expression": rule.Match.Expression != "",
					"route": len(rule.Match.Routes) > 0, "descriptor": len(rule.Match.Descriptors) > 0, "writes": rule.Match.Kubernetes != nil,
					"a wider path":  len(rule.Match.Paths) > 0 && !slices.ContainsFunc(got.rules, func(r rules.Rule) bool { return slices.Equal(r.Match.Paths, rule.Match.Paths) }),
					"a wider host":  len(rule.Match.Hosts) > 0 && !slices.ContainsFunc(got.rules, func(r rules.Rule) bool { return slices.Equal(r.Match.Hosts, rule.Match.Hosts) }),
					"many labels":   slices.ContainsFunc(rule.Match.Hosts, func(h string) bool { return strings.HasPrefix(h, "b.a.a.") }),
					"per endpoint":  rule.PerEndpoint,
					"many segments": slices.ContainsFunc(rule.Match.Paths, func(p rules.PathMatch) bool { return strings.Count(p.Value, "/") > 17 }),
				} {
					if is {
						found[part]++
					}
				}
			}
		}
		for _, o := range owners {
			index.Remove(o, o.rules)
		}
		if index.Len() > 0 {
			t.Fatalf("seed %d: %d places are left without an owner", seed, index.Len())
		}
	}
	for _, part := range []string{"path", "host", "expression", "route", "descriptor", "writes", "a wider path", "a wider host", "per endpoint", "many segments", "many labels"} {
		if found[part] < 5 {
			t.Errorf("%d rules with %s are redundant, want more", found[part], part)
		}
	}
}

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

func some[T any](random *rand.Rand, values ...T) (list []T) {
	for range 1 + random.IntN(2) {
		list = append(list, pick(random, values...))
	}
	return list
}

func anyRule(random *rand.Rand) rules.Rule {
	r := rules.Rule{
		Policy: "shop/a", Domain: "shop", Axis: pick(random, "User", "User", "Tenant"), Identifier: rules.Identifier{From: rules.FromHeader, Name: "x"},
		Algorithm: pick(random, limiter.SlidingWindowCounter, limiter.SlidingWindowCounter, limiter.TokenBucket), Units: random.Int64N(3), WindowSeconds: 60,
		OnMissing: pick(random, rules.ShareMissing, rules.ShareMissing, rules.SkipMissing), PerEndpoint: random.IntN(6) == 0,
		Default: random.IntN(10) == 0, Shadow: random.IntN(10) == 0,
	}
	deep, deepHost := strings.Repeat("/x", 18), strings.Repeat("a.", 9)+"example"
	if random.IntN(2) == 0 {
		r.Match.Paths = some(random,
			rules.PathMatch{Type: rules.PathPrefix, Value: "/"}, rules.PathMatch{Type: rules.PathPrefix, Value: "/v1"}, rules.PathMatch{Type: rules.PathPrefix, Value: "/v1/"},
			rules.PathMatch{Type: rules.PathPrefix, Value: "/v1/a/b"}, rules.PathMatch{Type: rules.PathExact, Value: "/v1/a"}, rules.PathMatch{Type: rules.PathExact, Value: "/v1"},
			rules.PathMatch{Type: rules.PathRegex, Value: "/v1/.*"}, rules.PathMatch{Type: rules.PathPrefix, Value: "//v1"},
			rules.PathMatch{Type: rules.PathPrefix, Value: deep}, rules.PathMatch{Type: rules.PathExact, Value: deep + "/y"})
	}
	if random.IntN(3) == 0 {
		r.Match.Hosts = some(random, "a.example", "*.example", "b.a.example", "*.a.example", "*", "*mple", "*."+deepHost, "b."+deepHost)
	}
	switch random.IntN(12) {
	case 0, 1:
		r.Match.Expression = pick(random, "true", "request.path == '/'")
	case 2, 3:
		r.Match.Routes = some(random, rules.Route{Namespace: "shop", Target: "x"}, rules.Route{Namespace: "shop", Target: "y"})
	case 4:
		r.Match.Routes = []rules.Route{}
	case 5, 6:
		r.Match.Descriptors = []rules.DescriptorMatch{{Key: "k", Value: pick(random, "", "v")}}
	case 7, 8:
		r.Match.Kubernetes = &rules.KubernetesMatch{Users: pick(random, nil, []string{"alice"})}
	}
	if random.IntN(20) == 0 { // more than an Index uses
		for i := range 40 {
			r.Match.Paths = append(r.Match.Paths, rules.PathMatch{Type: rules.PathExact, Value: fmt.Sprintf("/v%d", i)})
			r.Match.Hosts = append(r.Match.Hosts, fmt.Sprintf("h%d.example", i))
		}
	}
	return r
}
