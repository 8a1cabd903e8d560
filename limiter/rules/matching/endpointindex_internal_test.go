package matching

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

func perEndpointRule(policy string, change func(*rules.Rule)) rules.Rule {
	r := rules.Rule{
		Policy: policy, Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromClientIP}, PerEndpoint: true,
		Algorithm: limiter.FixedWindow, Units: 10, WindowSeconds: 60,
	}
	change(&r)
	return r
}

func newIndex(t *testing.T, list ...rules.Rule) *Index {
	t.Helper()
	x, err := NewIndex(rules.Set{Rules: list}, "r", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// countKeys returns the number of keys of each rule that count requests to the paths /from to /to-1, and whether any of these requests
// is counted under rules.OtherEndpoints.
func countKeys(x *Index, from, to int) (keys map[string]int, others bool) {
	keys, seen := map[string]int{}, map[string]bool{}
	for i := from; i < to; i++ {
		r := &rules.Request{Domain: "shop", Host: "a.example", Path: fmt.Sprint("/", i)}
		for _, m := range x.NameEndpoints(x.Match(nil, r), false) {
			if key := m.Key(m.Identify(r)); !seen[key] {
				seen[key] = true
				keys[m.Rule.Policy]++
			}
			others = others || m.Endpoint == rules.OtherEndpoints
		}
	}
	return keys, others
}

func TestMatch_BoundsTheNumberOfEndpoints(t *testing.T) {
	for name, tc := range map[string]struct {
		rule rules.Rule
		want int
	}{
		"each endpoint":           {perEndpointRule("shop/a", func(*rules.Rule) {}), 1001},
		"each endpoint of a host": {perEndpointRule("shop/a", func(r *rules.Rule) { r.Match.Hosts = []string{"a.example"} }), 1001},
		"the axis Endpoint": {
			perEndpointRule("shop/a", func(r *rules.Rule) { r.PerEndpoint, r.Identifier = false, rules.Identifier{From: rules.FromEndpoint} }), 1001,
		},
		"the paths of its match": {
			perEndpointRule("shop/a", func(r *rules.Rule) { r.Match.Paths = []rules.PathMatch{{Type: rules.PathPrefix, Value: "/"}} }), 1,
		},
		"without endpoints": {perEndpointRule("shop/a", func(r *rules.Rule) { r.PerEndpoint = false }), 1},
	} {
		got, others := countKeys(newIndex(t, tc.rule), 0, 2000)
		if got["shop/a"] != tc.want || others != (tc.want > 1) {
			t.Errorf("%s: %d counters, others %t; want %d", name, got["shop/a"], others, tc.want)
		}
	}
}

func TestMatch_IgnoresAnEmptyPathAsEndpoint(t *testing.T) {
	x := newIndex(t, perEndpointRule("shop/a", func(*rules.Rule) {}))
	if m := x.NameEndpoints(x.Match(nil, &rules.Request{Domain: "shop"}), false); len(m) != 1 || m[0].Endpoint != "" {
		t.Errorf("got %+v, want one match without an endpoint", m)
	}
	if _, others := countKeys(x, 0, 1000); others {
		t.Error("the empty path is one of the 1000 that are counted separately")
	}
}

func TestInherit_KeepsThePathsOfThePreviousIndex(t *testing.T) {
	same, other := perEndpointRule("shop/a", func(*rules.Rule) {}), perEndpointRule("shop/b", func(*rules.Rule) {})
	before := newIndex(t, same, other)
	countKeys(before, 0, 1000)

	after := newIndex(t,
		perEndpointRule("shop/0", func(r *rules.Rule) { r.PerEndpoint = false }),
		perEndpointRule("shop/a", func(r *rules.Rule) { r.Units = 20 }), // has the same counters
		perEndpointRule("shop/b", func(r *rules.Rule) { r.WindowSeconds = 120 }),
		perEndpointRule("shop/c", func(*rules.Rule) {}),
	)
	after.Inherit(before)
	after.Inherit(newIndex(t))
	want := map[string]int{"shop/0": 1, "shop/a": 1, "shop/b": 10, "shop/c": 10}
	if got, _ := countKeys(after, 1000, 1010); !maps.Equal(got, want) {
		t.Errorf("10 new paths have the counters %v, want %v: only shop/a keeps its paths", got, want)
	}
}

// The counters stay if a policy gets a second rate, or another policy with its counterName replaces it. So do the paths that have them.
func TestInherit_KeepsThePathsOfTheSameCountersUnderAnotherName(t *testing.T) {
	before := newIndex(t, perEndpointRule("shop/a", func(*rules.Rule) {}), perEndpointRule("shop/b", func(*rules.Rule) {}))
	countKeys(before, 0, 1000)
	after := newIndex(t,
		perEndpointRule("shop/a:1h", func(r *rules.Rule) { r.Rate, r.WindowSeconds = "1h", 3600 }),
		perEndpointRule("shop/a:1m", func(r *rules.Rule) { r.Rate = "1m" }),
		perEndpointRule("shop/team-b", func(r *rules.Rule) { r.Counter = "shop/b" }),
	)
	after.Inherit(before)
	if got, _ := countKeys(after, 1000, 1010); got["shop/a:1m"] != 1 || got["shop/a:1h"] != 10 || got["shop/team-b"] != 1 {
		t.Errorf("10 new paths have the counters %v, want 1 where the counters are those of before", got)
	}
}

// Stores know the same rule until it changes.
func TestInherit_KeepsTheCountedRuleOfEqualRules(t *testing.T) {
	key := limiter.RandomHashKey()
	compact := func(units int64) rules.Rule {
		return perEndpointRule("shop/b", func(r *rules.Rule) { r.Algorithm, r.Compact, r.Units = limiter.FixedWindow, true, units })
	}
	build := func(list ...rules.Rule) *Index {
		x, err := NewIndex(rules.Set{Rules: list, HashKey: key.ID()}, "sha256:1", "weir:", WithHashKey(key))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	plain := perEndpointRule("shop/a", func(*rules.Rule) {})
	first := build(plain, compact(10))
	for name, test := range map[string]struct {
		next []rules.Rule
		want []bool
	}{
		"the same rules":         {[]rules.Rule{plain, compact(10)}, []bool{true, true}},
		"an edit of the limit":   {[]rules.Rule{plain, compact(11)}, []bool{true, false}},
		"another policy is gone": {[]rules.Rule{compact(10)}, []bool{true}},
	} {
		x := build(test.next...)
		x.Inherit(first)
		for i, c := range slices.Collect(x.Rules()) {
			old, _ := first.RuleOf(c.Policy)
			if got := c.Counted() == old.Counted(); got != test.want[i] {
				t.Errorf("%s: %s is the rule of before: %v, want %v", name, old.Policy, got, test.want[i])
			}
			if c.endpoints != old.endpoints {
				t.Errorf("%s: %s has other paths than before", name, old.Policy)
			}
		}
	}
}

func TestInherit_GivesNoPathsToARuleThatNoLongerCountsThem(t *testing.T) {
	before := newIndex(t, perEndpointRule("shop/a", func(*rules.Rule) {}))
	after := newIndex(t, perEndpointRule("shop/a", func(r *rules.Rule) { r.PerEndpoint = false }))
	if old, _ := before.RuleOf("shop/a"); old.endpoints == nil {
		t.Fatal("the rule does not count paths")
	}
	after.Inherit(before)
	if c, _ := after.RuleOf("shop/a"); c.endpoints != nil {
		t.Error("the rule counts paths")
	}
}

// TestMatch_CountsAllNotationsOfAPathAsOneEndpoint varies the notation of a path at random. All notations must be one endpoint.
func TestMatch_CountsAllNotationsOfAPathAsOneEndpoint(t *testing.T) {
	segment := rapid.StringMatching(`[a-z0-9%é ~-]{1,6}`)
	rapid.Check(t, func(rt *rapid.T) {
		x := newIndex(t, perEndpointRule("shop/a", func(*rules.Rule) {}))
		segments := rapid.SliceOfN(segment, 1, 4).Draw(rt, "segments")
		endpoints := map[string]bool{}
		for range 10 {
			var notation strings.Builder
			for _, s := range segments {
				notation.WriteString(rapid.SampledFrom([]string{"/", "//", "/./", "/x/../", "/%2e/", "%2F"}).Draw(rt, "slash"))
				for i := range len(s) {
					if rapid.Bool().Draw(rt, "escaped") || strings.IndexByte(" %?#", s[i]) >= 0 {
						fmt.Fprintf(&notation, "%%%02x", s[i])
					} else {
						notation.WriteByte(s[i])
					}
				}
			}
			notation.WriteString(rapid.SampledFrom([]string{"", "/", "?q=" + url.QueryEscape(segments[0]), "#x"}).Draw(rt, "end"))
			for _, m := range x.NameEndpoints(x.Match(nil, &rules.Request{Domain: "shop", Path: reading.NormalPath(notation.String())}), false) {
				endpoints[m.Endpoint] = true
			}
			if n := len(endpoints); n != 1 {
				rt.Fatalf("path %s, normalized to %s: %d endpoints, want 1", notation.String(), reading.NormalPath(notation.String()), n)
			}
		}
	})
}
