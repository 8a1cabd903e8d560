package rules

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

// clock returns the time that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

// endpointNames requests the paths /kind/from to /kind/before-1 and returns the set of endpoints that count them.
func endpointNames(e *endpoints, c *clock, kind string, from, before int) map[string]bool {
	names := map[string]bool{}
	for i := from; i < before; i++ {
		names[e.name(fmt.Sprintf("/%s/%d", kind, i), c.now)] = true
	}
	return names
}

func TestEndpoints_CountAThousandPathsSeparately(t *testing.T) {
	c := newClock()
	e := newEndpoints(time.Minute)
	if got := endpointNames(e, c, "first", 0, maxEndpoints); len(got) != maxEndpoints || got[OtherEndpoints] {
		t.Fatalf("the first %d paths are counted as %d endpoints", maxEndpoints, len(got))
	}
	if got := endpointNames(e, c, "more", 0, 5000); len(got) != 1 || !got[OtherEndpoints] {
		t.Errorf("the other paths are counted as %d endpoints, want 1", len(got))
	}
	if got := endpointNames(e, c, "first", 0, maxEndpoints); len(got) != maxEndpoints || got[OtherEndpoints] {
		t.Errorf("after the other paths, the first paths are counted as %d endpoints", len(got))
	}
}

func TestEndpoints_EvictUnusedPaths(t *testing.T) {
	c := newClock()
	e := newEndpoints(time.Minute)
	endpointNames(e, c, "junk", 0, maxEndpoints-1)
	endpointNames(e, c, "shop", 0, 1)
	for range 2 { // windows; all paths were requested in the first one
		c.at = c.at.Add(time.Minute)
		endpointNames(e, c, "shop", 0, 1)
		endpointNames(e, c, "late", 0, 1)
	}
	if got := endpointNames(e, c, "late", 0, 500); len(got) != 500 || got[OtherEndpoints] {
		t.Errorf("500 later paths are counted as %d endpoints", len(got))
	}
	if got := endpointNames(e, c, "shop", 0, 1); !got["/shop/0"] {
		t.Errorf("a path that was requested in every window is counted as %v", got)
	}
	if n := len(*e.paths.Load()); n != 501 {
		t.Errorf("%d paths are stored, want 501", n)
	}
}

func TestEndpoints_KeepPathsInUse(t *testing.T) {
	c := newClock()
	e := newEndpoints(time.Minute)
	for range 10 {
		endpointNames(e, c, "shop", 0, maxEndpoints)
		if got := endpointNames(e, c, "junk", 0, 100); len(got) != 1 || !got[OtherEndpoints] {
			t.Fatalf("100 more paths are counted as %d endpoints, want 1", len(got))
		}
		c.at = c.at.Add(time.Minute)
	}
}

// TestEndpoints_BoundTheirNumberInEveryWindow checks the bound on counters in the store. For any requests at any times, a rule
// begins at most 2*maxEndpoints+1 counters in a window. The counters of the previous window may still exist.
func TestEndpoints_BoundTheirNumberInEveryWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		e := newEndpoints(time.Minute)
		startedAt := map[string]time.Time{}
		for range rapid.IntRange(1, 5).Draw(rt, "bursts") {
			from := rapid.IntRange(0, 2000).Draw(rt, "from")
			for name := range endpointNames(e, c, "p", from, from+rapid.IntRange(1, 1500).Draw(rt, "many")) {
				if _, known := startedAt[name]; !known || c.at.Sub(startedAt[name]) >= time.Minute {
					startedAt[name] = c.at
				}
			}
			maps.DeleteFunc(startedAt, func(_ string, at time.Time) bool { return c.at.Sub(at) >= time.Minute })
			if len(startedAt) > 2*maxEndpoints+1 || len(*e.paths.Load()) > maxEndpoints {
				rt.Fatalf("%d counters in a window, %d stored paths", len(startedAt), len(*e.paths.Load()))
			}
			c.at = c.at.Add(time.Duration(rapid.IntRange(0, 90).Draw(rt, "seconds")) * time.Second)
		}
	})
}

func TestEndpoints_StoreTheHashOfLongPaths(t *testing.T) {
	e := newEndpoints(time.Minute)
	long := "/" + strings.Repeat("x", 64<<10)
	for _, path := range []string{long, long + "y", long} {
		if got := e.name(path, time.Now); got != path {
			t.Errorf("a path of %d bytes is counted as %.40q…", len(path), got)
		}
	}
	for key := range *e.paths.Load() {
		if len(key) != 32 {
			t.Errorf("the stored key of a path has %d bytes, want 32", len(key))
		}
	}
	if n := len(*e.paths.Load()); n != 2 {
		t.Errorf("%d paths are stored, want 2", n)
	}
}

func TestEndpoints_AllowConcurrentUse(t *testing.T) {
	e := newEndpoints(time.Hour)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 3 * maxEndpoints {
				e.name(fmt.Sprint("/", i), time.Now)
			}
		})
	}
	group.Wait()
	if n := len(*e.paths.Load()); n != maxEndpoints {
		t.Errorf("%d paths are stored, want %d", n, maxEndpoints)
	}
}

func perEndpointRule(policy string, change func(*Rule)) Rule {
	r := Rule{
		Policy: policy, Domain: "shop", Axis: "Tenant", Identifier: Identifier{From: FromClientIP}, PerEndpoint: true,
		Algorithm: limiter.FixedWindow, Units: 10, WindowSeconds: 60,
	}
	change(&r)
	return r
}

func newIndex(t *testing.T, list ...Rule) *Index {
	t.Helper()
	x, err := NewIndex(Set{Rules: list}, "r", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// countKeys returns the number of keys that count requests to the paths /from to /to-1.
func countKeys(x *Index, from, to int) int {
	keys := map[string]bool{}
	for i := from; i < to; i++ {
		r := &Request{Domain: "shop", Host: "a.example", Path: fmt.Sprint("/", i)}
		for _, m := range x.Match(nil, r) {
			keys[m.Key(m.Identify(r))] = true
		}
	}
	return len(keys)
}

func TestMatch_BoundsTheNumberOfEndpoints(t *testing.T) {
	for name, tc := range map[string]struct {
		rule Rule
		want int
	}{
		"each endpoint":           {perEndpointRule("shop/a", func(*Rule) {}), maxEndpoints + 1},
		"each endpoint of a host": {perEndpointRule("shop/a", func(r *Rule) { r.Match.Hosts = []string{"a.example"} }), maxEndpoints + 1},
		"the axis Endpoint": {
			perEndpointRule("shop/a", func(r *Rule) { r.PerEndpoint, r.Identifier = false, Identifier{From: FromEndpoint} }), maxEndpoints + 1,
		},
		"the paths of its match": {
			perEndpointRule("shop/a", func(r *Rule) { r.Match.Paths = []PathMatch{{Type: PathPrefix, Value: "/"}} }), 1,
		},
		"without endpoints": {perEndpointRule("shop/a", func(r *Rule) { r.PerEndpoint = false }), 1},
	} {
		x := newIndex(t, tc.rule)
		if got := countKeys(x, 0, 2*maxEndpoints); got != tc.want {
			t.Errorf("%s: %d counters, want %d", name, got, tc.want)
		}
	}
}

func TestMatch_IgnoresAnEmptyPathAsEndpoint(t *testing.T) {
	x := newIndex(t, perEndpointRule("shop/a", func(*Rule) {}))
	if m := x.Match(nil, &Request{Domain: "shop"}); len(m) != 1 || m[0].Endpoint != "" {
		t.Errorf("got %+v, want one match without an endpoint", m)
	}
	if n := len(*x.rules[0].endpoints.paths.Load()); n != 0 {
		t.Errorf("%d paths are stored, want 0", n)
	}
}

func TestInheritEndpoints_KeepsThePathsOfThePreviousIndex(t *testing.T) {
	same, other := perEndpointRule("shop/a", func(*Rule) {}), perEndpointRule("shop/b", func(*Rule) {})
	before := newIndex(t, same, other)
	countKeys(before, 0, maxEndpoints)

	edited := perEndpointRule("shop/a", func(r *Rule) { r.Units = 20 })
	restarted := perEndpointRule("shop/b", func(r *Rule) { r.WindowSeconds = 120 })
	after := newIndex(t, edited, restarted, perEndpointRule("shop/c", func(*Rule) {}))
	after.InheritEndpoints(before)
	if got := countKeys(after, maxEndpoints, maxEndpoints+10); got != 1+10+10 {
		t.Errorf("%d counters for 10 new paths, want 1 of the rule that keeps its paths and 10 of each other rule", got)
	}
	after.InheritEndpoints(newIndex(t))
}

// TestMatch_CountsAllNotationsOfAPathAsOneEndpoint varies the notation of a path at random. All notations must be one endpoint.
func TestMatch_CountsAllNotationsOfAPathAsOneEndpoint(t *testing.T) {
	segment := rapid.StringMatching(`[a-z0-9%é ~-]{1,6}`)
	rapid.Check(t, func(rt *rapid.T) {
		x := newIndex(t, perEndpointRule("shop/a", func(*Rule) {}))
		segments := rapid.SliceOfN(segment, 1, 4).Draw(rt, "segments")
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
			x.Match(nil, &Request{Domain: "shop", Path: NormalPath(notation.String())})
			if n := len(*x.rules[0].endpoints.paths.Load()); n != 1 {
				rt.Fatalf("path %s, normalized to %s: %d endpoints, want 1", notation.String(), NormalPath(notation.String()), n)
			}
		}
	})
}
