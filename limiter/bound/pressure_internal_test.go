package bound

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter"
)

const room = 1000 << 20

// usageOf returns the usage of policies from their megabytes by name, namespace/policy.
func usageOf(megabytes map[string]float64) *usage {
	u := &usage{byPolicy: map[storage]float64{}, byNamespace: map[string]float64{}}
	for policy, n := range megabytes {
		namespace, _, _ := strings.Cut(policy, "/")
		u.add(storage{policy: policy, namespace: namespace, compact: true, algorithm: limiter.FixedWindow}, n*(1<<20))
	}
	return u
}

func TestUsage_StopsTheLargestFirst(t *testing.T) {
	flood := map[string]float64{"flood/x": 400, "shop/a": 200, "shop/b": 150, "other/x": 1}
	// Two policies of one namespace: its policy of 20 MB is within the share of a policy, 0.05 · 1000 MB / 1 namespace / 2 policies.
	one := map[string]float64{"shop/flood": 700, "shop/small": 20}
	for name, test := range map[string]struct {
		of   map[string]float64
		used float64
		want string
	}{
		"below 80 %":                     {flood, 0.7999, ""},
		"the largest namespace":          {flood, 0.80, "flood/x"},
		"also the second one":            {flood, 0.82, "flood/x shop/a"}, // level of namespaces 346.7, of shop's policies 173.3
		"half way":                       {flood, 0.875, "flood/x shop/a shop/b"},
		"all but those in their reserve": {flood, 0.99, "flood/x shop/a shop/b"},
		"more than full":                 {flood, 1.2, "flood/x shop/a shop/b"},
		"an equal namespace is no flood": {map[string]float64{"a/x": 10, "b/x": 10}, 0.9, ""}, // something else fills Redis
		"one namespace":                  {one, 0.80, "shop/flood"},
		"one namespace, full":            {one, 0.96, "shop/flood"},
		"no counters":                    {nil, 0.99, ""},
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(usageOf(test.of).policiesOver(test.used, room))), " "); got != test.want {
			t.Errorf("%s: %q make no counters, want %q", name, got, test.want)
		}
	}
}

// Many small namespaces together take more than the flood.
func TestUsage_AFloodBelowTheSumOfTheOthersStopsAlone(t *testing.T) {
	of := map[string]float64{"flood/x": 50}
	for i := range 750 {
		of[strings.Repeat("n", i+1)+"/x"] = 1
	}
	if got := usageOf(of).policiesOver(0.90, room); len(got) != 1 || !got["flood/x"] {
		t.Errorf("%d policies make no counters, want only that of the flood", len(got))
	}
}

// A flood below the largest namespace stops before Redis is full, whatever the others take.
func TestUsage_AFloodBelowTheLargestNamespaceStops(t *testing.T) {
	for megabytes := 0.0; ; megabytes++ {
		used := 0.80 + megabytes/1000
		if used >= pressureFull {
			t.Fatalf("a flood of %.0f MB makes counters", megabytes)
		}
		if usageOf(map[string]float64{"big/x": 800, "flood/x": megabytes}).policiesOver(used, room)["flood/x"] {
			return
		}
	}
}

// The figures are those of docs/how-to/run-on-redis.md.
func TestStorage_TakesTheDocumentedBytes(t *testing.T) {
	for n, want := range map[float64]float64{20_000: 196, 100_000: 117, 1_000_000: 27, 10_000_000: 16} {
		if got := (storage{compact: true, algorithm: limiter.FixedWindow}).bytes(n) / n; math.Abs(got-want) > want/4 {
			t.Errorf("%.0f compact counters: %.0f bytes each, want about %.0f", n, got, want)
		}
	}
	for algorithm, want := range map[limiter.Algorithm]float64{
		limiter.FixedWindow: 200, limiter.SlidingWindowCounter: 200, limiter.SlidingWindowLog: 208, limiter.TokenBucket: 220, limiter.LeakyBucket: 220,
	} {
		if got := (storage{algorithm: algorithm}).bytes(10); got != 10*want {
			t.Errorf("%s: %.0f bytes, want %.0f", algorithm, got, 10*want)
		}
	}
}
