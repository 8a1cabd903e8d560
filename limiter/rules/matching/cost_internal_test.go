package matching

import (
	"strconv"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/pattern"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// cost is the work of one call of Match: bytes that were looked up in maps, and steps of regular expressions.
func cost(x *Index, r *rules.Request) int {
	s := search{index: x, request: r, kind: r.Kind(), steps: pattern.MaxSteps}
	s.find()
	if s.readings != nil {
		s.cost += pattern.MaxSteps - s.readings.steps
	}
	return s.cost + pattern.MaxSteps - s.steps
}

// costIndex has 20 path prefixes of different lengths and depths, 20 wildcard hosts, 20 exact paths and 20 regular expressions.
func costIndex(tb testing.TB) *Index {
	tb.Helper()
	var list []rules.Rule
	add := func(kind string, i int, match rules.Match) {
		list = append(list, rules.Rule{
			Policy: "shop/" + kind + string(rune('a'+i)), Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
			Algorithm: "FixedWindow", Units: 1, WindowSeconds: 60, Match: match,
		})
	}
	for i := range 20 {
		add("a", i, rules.Match{Paths: []rules.PathMatch{{Type: rules.PathExact, Value: "/v1/" + strings.Repeat("a", i)}}})
	}
	for i := range 20 {
		add("b", i, rules.Match{Hosts: []string{"*" + strings.Repeat(".a", i+1)}, Paths: []rules.PathMatch{{Type: rules.PathPrefix, Value: "/"}}})
	}
	for i := range 20 {
		add("c", i, rules.Match{Paths: []rules.PathMatch{{Type: rules.PathPrefix, Value: strings.Repeat("/a", 1+i*12)}}})
	}
	for i := range 20 {
		add("d", i, rules.Match{Paths: []rules.PathMatch{{Type: rules.PathRegex, Value: `(/a|a/|/|a|\pL)*` + strings.Repeat("x", i+1)}}})
	}
	x, err := NewIndex(rules.Set{Rules: list}, "", "weir:")
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

func FuzzMatch_CostIsBounded(f *testing.F) {
	x := costIndex(f)
	f.Add("/a", "x.a", 15<<10)
	f.Add("/", ".", 60<<10)
	f.Add("a", "a", 1)
	f.Add(`/a/%2e%2e\..;%2f//.%252e`, "a", 8)
	f.Fuzz(func(t *testing.T, path, host string, times int) {
		times = min(max(times, 1), 60<<10/max(len(path), len(host), 1))
		r := &rules.Request{Domain: "shop", Host: rules.NormalHost(strings.Repeat(host, times))}
		r.SetTarget(strings.Repeat(path, times))
		if got := cost(x, r); got > maxMatchCost {
			t.Errorf("path %q and host %q, %d times: cost %d, want at most %d", path, host, times, got, maxMatchCost)
		}
	})
}

// BenchmarkMatch_Readings has the most readings that a path can have, and a long path with too many of them.
func BenchmarkMatch_Readings(b *testing.B) {
	x := costIndex(b)
	for name, target := range map[string]string{
		"two": "/v1/aaa;x=1", "an attack": "/v1/aaa/..%2F..", "the most": strings.Repeat("/a", 40) + `/%2e%2e%2f..\//../x`,
		"too many": strings.Repeat(`/a/%2e%2e%2f..\//..;x`, 1000), "long": strings.Repeat("/a", 2000) + "/..%2F..",
	} {
		r := &rules.Request{Domain: "shop"}
		r.SetTarget(target)
		dst := make([]Matched, 0, 128)
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(len(reading.Of(r.RawPath).Paths)), "readings")
			b.ReportAllocs()
			for b.Loop() {
				x.Match(dst, r)
			}
		})
	}
}

func BenchmarkMatch_WorstCost(b *testing.B) {
	x := costIndex(b)
	for _, size := range []int{64, 1 << 10, 8 << 10, 60 << 10} {
		r := &rules.Request{Domain: "shop", Path: reading.NormalPath(strings.Repeat("/a", size/2)), Host: rules.NormalHost(strings.Repeat(".a", size/2))}
		dst := make([]Matched, 0, 128)
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.ReportMetric(float64(cost(x, r)), "cost")
			b.ReportAllocs()
			for b.Loop() {
				x.Match(dst, r)
			}
		})
	}
}

// TestMatch_CostDoesNotGrowWithTheRequest searches for the request with the highest cost of each size. docs/reference/performance.md has
// the result.
func TestMatch_CostDoesNotGrowWithTheRequest(t *testing.T) {
	x := costIndex(t)
	parts := []string{"/a", "/", "a", "/v1/a", "/a/a", "aaa/", "\u00e9", "/\u65e5", ".a", "x.a", ".", "a.a.a", "%2Fa", "/aaaaaaaaaaaaaaaa", "/a/..", "/a;", "/a/..%2F", `/a/%2e%2e\..;%2f//.%252e`, "//a#"}
	for _, size := range []int{64, 1 << 10, 8 << 10, 60 << 10} {
		worst, of := 0, ""
		for _, path := range parts {
			for _, host := range parts {
				r := &rules.Request{Domain: "shop", Host: rules.NormalHost(strings.Repeat(host, size/len(host)))}
				r.SetTarget(strings.Repeat(path, size/len(path)))
				if got := cost(x, r); got > worst {
					worst, of = got, path+" "+host
				}
			}
		}
		t.Logf("%d bytes: worst cost %d (path and host of %s)", size, worst, of)
		if worst > maxMatchCost {
			t.Errorf("%d bytes: cost %d, want at most %d", size, worst, maxMatchCost)
		}
	}
}

// maxMatchCost is the bound for costIndex: the path (8 KiB) is looked up among the exact paths of one host and of 20 wildcard hosts, the
// prefixes have 20 lengths of at most 512 bytes, and the wildcards 20 of at most 253. In addition, the readings of a path are looked up among the exact
// paths and the prefixes.
const maxMatchCost = 8<<10 + 253 + 20*512 + 20*253 + pattern.MaxSteps + 20*(pattern.MinSteps+10) + 21*reading.MaxBytes + pattern.MaxSteps
