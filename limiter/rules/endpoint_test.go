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

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func startOfClock() *clock { return &clock{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

// asked returns what the paths with these numbers are counted under, without repetition.
func asked(e *endpoints, c *clock, kind string, from, before int) map[string]bool {
	names := map[string]bool{}
	for i := from; i < before; i++ {
		names[e.name(fmt.Sprintf("/%s/%d", kind, i), c.now)] = true
	}
	return names
}

func TestEndpoints_CountAThousandPathsSeparately(t *testing.T) {
	c := startOfClock()
	e := newEndpoints(time.Minute)
	if got := asked(e, c, "first", 0, maxEndpoints); len(got) != maxEndpoints || got[OtherEndpoints] {
		t.Fatalf("the first %d are counted as %d", maxEndpoints, len(got))
	}
	if got := asked(e, c, "more", 0, 5000); len(got) != 1 || !got[OtherEndpoints] {
		t.Errorf("the others are counted as %d, want together", len(got))
	}
	if got := asked(e, c, "first", 0, maxEndpoints); len(got) != maxEndpoints || got[OtherEndpoints] {
		t.Errorf("later the first are counted as %d", len(got))
	}
}

func TestEndpoints_EvictUnusedPaths(t *testing.T) {
	c := startOfClock()
	e := newEndpoints(time.Minute)
	asked(e, c, "junk", 0, maxEndpoints-1)
	asked(e, c, "shop", 0, 1)
	for range 2 { // windows; within the first all have been asked for
		c.at = c.at.Add(time.Minute)
		asked(e, c, "shop", 0, 1)
		asked(e, c, "late", 0, 1)
	}
	if got := asked(e, c, "late", 0, 500); len(got) != 500 || got[OtherEndpoints] {
		t.Errorf("500 later paths are counted as %d", len(got))
	}
	if got := asked(e, c, "shop", 0, 1); !got["/shop/0"] {
		t.Errorf("a path that was asked for in every window is counted as %v", got)
	}
	if n := len(*e.paths.Load()); n != 501 {
		t.Errorf("%d paths are remembered, want 501", n)
	}
}

func TestEndpoints_KeepPathsInUse(t *testing.T) {
	c := startOfClock()
	e := newEndpoints(time.Minute)
	for range 10 {
		asked(e, c, "shop", 0, maxEndpoints)
		if got := asked(e, c, "junk", 0, 100); len(got) != 1 || !got[OtherEndpoints] {
			t.Fatalf("100 more are counted as %d, want together", len(got))
		}
		c.at = c.at.Add(time.Minute)
	}
}

// TestEndpoints_BoundTheirNumberInEveryWindow is the promise to the store: whatever is asked for and when, a rule begins no more than
// two thousand counters in any window, and those of the window before may still be there.
func TestEndpoints_BoundTheirNumberInEveryWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := startOfClock()
		e := newEndpoints(time.Minute)
		began := map[string]time.Time{}
		for range rapid.IntRange(1, 5).Draw(rt, "bursts") {
			from := rapid.IntRange(0, 2000).Draw(rt, "from")
			for name := range asked(e, c, "p", from, from+rapid.IntRange(1, 1500).Draw(rt, "many")) {
				if _, known := began[name]; !known || c.at.Sub(began[name]) >= time.Minute {
					began[name] = c.at
				}
			}
			maps.DeleteFunc(began, func(_ string, at time.Time) bool { return c.at.Sub(at) >= time.Minute })
			if len(began) > 2*maxEndpoints+1 || len(*e.paths.Load()) > maxEndpoints {
				rt.Fatalf("%d counters in a window, %d places", len(began), len(*e.paths.Load()))
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
			t.Errorf("%d bytes are remembered of a path", len(key))
		}
	}
	if n := len(*e.paths.Load()); n != 2 {
		t.Errorf("%d paths are remembered, want 2", n)
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
		t.Errorf("%d paths are remembered, want %d", n, maxEndpoints)
	}
}

func perEndpoint(policy string, change func(*Rule)) Rule {
	r := Rule{
		Policy: policy, Domain: "shop", Axis: "Tenant", Identifier: Identifier{From: FromClientIP}, PerEndpoint: true,
		Algorithm: limiter.FixedWindow, Units: 10, WindowSeconds: 60,
	}
	change(&r)
	return r
}

func indexed(t *testing.T, list ...Rule) *Index {
	t.Helper()
	x, err := NewIndex(Set{Rules: list}, "r", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// counters are the keys under which the requests to so many paths are counted.
func counters(x *Index, from, to int) int {
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
		"each endpoint":         {perEndpoint("shop/a", func(*Rule) {}), maxEndpoints + 1},
		"each endpoint of host": {perEndpoint("shop/a", func(r *Rule) { r.Match.Hosts = []string{"a.example"} }), maxEndpoints + 1},
		"the axis Endpoint": {
			perEndpoint("shop/a", func(r *Rule) { r.PerEndpoint, r.Identifier = false, Identifier{From: FromEndpoint} }), maxEndpoints + 1,
		},
		"paths that it names": {
			perEndpoint("shop/a", func(r *Rule) { r.Match.Paths = []PathMatch{{Type: PathPrefix, Value: "/"}} }), 1,
		},
		"no endpoints at all": {perEndpoint("shop/a", func(r *Rule) { r.PerEndpoint = false }), 1},
	} {
		x := indexed(t, tc.rule)
		if got := counters(x, 0, 2*maxEndpoints); got != tc.want {
			t.Errorf("%s: %d counters, want %d", name, got, tc.want)
		}
	}
}

func TestMatch_IgnoresAnEmptyPathAsEndpoint(t *testing.T) {
	x := indexed(t, perEndpoint("shop/a", func(*Rule) {}))
	if m := x.Match(nil, &Request{Domain: "shop"}); len(m) != 1 || m[0].Endpoint != "" {
		t.Errorf("%+v", m)
	}
	if n := len(*x.rules[0].endpoints.paths.Load()); n != 0 {
		t.Errorf("%d places taken", n)
	}
}

func TestInheritEndpoints_KeepsThePathsOfThePreviousIndex(t *testing.T) {
	same, other := perEndpoint("shop/a", func(*Rule) {}), perEndpoint("shop/b", func(*Rule) {})
	before := indexed(t, same, other)
	counters(before, 0, maxEndpoints)

	edited := perEndpoint("shop/a", func(r *Rule) { r.Units = 20 })
	restarted := perEndpoint("shop/b", func(r *Rule) { r.WindowSeconds = 120 })
	after := indexed(t, edited, restarted, perEndpoint("shop/c", func(*Rule) {}))
	after.InheritEndpoints(before)
	if got := counters(after, maxEndpoints, maxEndpoints+10); got != 1+10+10 {
		t.Errorf("%d counters for 10 new paths, want 1 of the rule that goes on and 10 of each other", got)
	}
	after.InheritEndpoints(indexed(t))
}

// TestMatch_CountsAllSpellingsOfAPathAsOneEndpoint escapes and pads a path at random: it stays one endpoint.
func TestMatch_CountsAllSpellingsOfAPathAsOneEndpoint(t *testing.T) {
	segment := rapid.StringMatching(`[a-z0-9%é ~-]{1,6}`)
	rapid.Check(t, func(rt *rapid.T) {
		x := indexed(t, perEndpoint("shop/a", func(*Rule) {}))
		segments := rapid.SliceOfN(segment, 1, 4).Draw(rt, "segments")
		for range 10 {
			var spelled strings.Builder
			for _, s := range segments {
				spelled.WriteString(rapid.SampledFrom([]string{"/", "//", "/./", "/x/../", "/%2e/", "%2F"}).Draw(rt, "slash"))
				for i := range len(s) {
					if rapid.Bool().Draw(rt, "escaped") || strings.IndexByte(" %?#", s[i]) >= 0 {
						fmt.Fprintf(&spelled, "%%%02x", s[i])
					} else {
						spelled.WriteByte(s[i])
					}
				}
			}
			spelled.WriteString(rapid.SampledFrom([]string{"", "/", "?q=" + url.QueryEscape(segments[0]), "#x"}).Draw(rt, "end"))
			x.Match(nil, &Request{Domain: "shop", Path: NormalPath(spelled.String())})
			if n := len(*x.rules[0].endpoints.paths.Load()); n != 1 {
				rt.Fatalf("%s is %s: %d endpoints", spelled.String(), NormalPath(spelled.String()), n)
			}
		}
	})
}
