package engine

import (
	"hash/maphash"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestEstimate_IsWithinFivePercentOfTheDistinctHashes(t *testing.T) {
	for _, n := range []int{0, 1, 10, 100, 1000, 2500, 10_000, 100_000, 2_000_000} {
		worst, sum := 0.0, 0.0
		const rounds = 5
		for range rounds {
			seed, a, b := maphash.MakeSeed(), &sketch{}, &sketch{}
			for i := range n {
				hash := maphash.String(seed, strconv.Itoa(i))
				switch i % 3 {
				case 0:
					a.add(hash)
					b.add(hash)
				case 1:
					a.add(hash)
				default:
					b.add(hash)
				}
			}
			deviation := math.Abs(estimate(a, b)-float64(n)) / math.Max(float64(n), 1)
			worst, sum = math.Max(worst, deviation), sum+deviation
		}
		if worst > 0.15 || sum/rounds > 0.06 {
			t.Errorf("%d hashes: off by %.1f %% on average and %.1f %% at most", n, 100*sum/rounds, 100*worst)
		}
	}
}

func TestLifetime_IsTheTimeToLiveOfAFullCounter(t *testing.T) {
	windowBegins := time.Unix(0, 0).Add(1000 * time.Hour)
	for _, algorithm := range limiter.Algorithms() {
		limit, err := limiter.NewLimit(algorithm, 10, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if bursting, err := limit.WithBurst(50); err == nil {
			limit = bursting
		}
		store := memstore.New(func() time.Time { return windowBegins })
		charge := limiter.Charge{Key: "k", Limit: limit, Cost: limit.Capacity()}
		decisions, err := store.Spend(t.Context(), []limiter.Charge{charge})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := lifetime(limit), decisions[0].ResetAfter; got != want {
			t.Errorf("%s: %v, want %v", algorithm, got, want)
		}
	}
}

func TestOverrideClass_LastsAtLeastAsLongAsTheCounters(t *testing.T) {
	for window, want := range map[time.Duration]int{
		time.Second: 0, 2 * time.Second: 1, 3 * time.Second: 2, time.Minute: 6, limiter.MaxWindow: 22,
	} {
		limit, err := limiter.NewLimit(limiter.FixedWindow, 1, window)
		if err != nil {
			t.Fatal(err)
		}
		if got := overrideClass(limit); got != want {
			t.Errorf("%v: class %d, want %d", window, got, want)
		}
	}
	longest, err := limiter.NewLimit(limiter.SlidingWindowCounter, 1, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	if got := overrideClass(longest); got != 23 {
		t.Errorf("a counter of two windows has class %d, want 23", got)
	}
	bucket, err := limiter.NewLimit(limiter.TokenBucket, 1, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	if bucket, err = bucket.WithBurst(100); err != nil {
		t.Fatal(err)
	}
	if got := overrideClass(bucket); got != 23 {
		t.Errorf("a bucket that drains for years has class %d, want the last one, 23", got)
	}
}

// The upper ten bits select the register, the others have up to 54 leading zeros.
func TestSketch_KeepsTheMostLeadingZeros(t *testing.T) {
	for hash, want := range map[uint64]uint32{0: 55, 1: 54, 2: 53, 1 << 53: 1, 1<<54 - 1: 1, 1 << 52: 2} {
		s := &sketch{}
		s.add(hash)
		if got := s[0].Load(); got != want {
			t.Errorf("hash %x: register %d, want %d", hash, got, want)
		}
		s.add(1 << 53)
		if got := s[0].Load(); got != want {
			t.Errorf("hash %x: register %d after a smaller one, want %d", hash, got, want)
		}
		s.add(1<<54 | hash)
		s.add(1<<56 | hash)
		if got := s[0].Load(); got != want|want<<8 || s[1].Load() != want {
			t.Errorf("hash %x: registers %x, %x after the same in two others", hash, got, s[1].Load())
		}
	}
}

// With 1024 registers that are all 2, the sum of algorithm 6 is 1024/4. With half of them 1 and the others empty it is
// 1024·(1/4 + 1/2 + 1/4 + 1/8 + 1/64 + 1/8192 + …). The estimate is 1024²/(2·ln 2·sum).
func TestEstimate_IsThatOfTheFormula(t *testing.T) {
	for _, test := range []struct {
		a, b uint32
		want float64
	}{
		{0x02010201, 0x01020102, 2954.64},
		{0x00010000, 0x00010001, 647.52},
		{0x00000000, 0x00000000, 0},
		{0x37363736, 0x36363636, 2.047377936e19}, // half of them have the highest rank, so that τ(1/2) = 0.1499… counts
	} {
		a, b := &sketch{}, &sketch{}
		for i := range a {
			a[i].Store(test.a)
			b[i].Store(test.b)
		}
		if got := estimate(a, b); math.Abs(got-test.want) > max(0.01, test.want*1e-9) {
			t.Errorf("%08x, %08x: %f, want %f", test.a, test.b, got, test.want)
		}
	}
}

func TestMultiplied_IsExactBelowAnyBound(t *testing.T) {
	for _, test := range []struct{ cost, times, want int64 }{
		{3, 7, 21},
		{666_666_666, 3, 1_999_999_998},
		{666_666_667, 3, 2_000_000_000},
		{math.MaxInt64, math.MaxInt64, 2_000_000_000},
		{5, 0, 0},
		{0, 5, 0},
		{-5, 5, 0},
		{5, -5, 0},
	} {
		if got := multiplied(test.cost, test.times); got != test.want {
			t.Errorf("%d · %d: %d, want %d", test.cost, test.times, got, test.want)
		}
	}
}

func TestSwap_DropsThePopulationsOfRulesThatNoLongerExist(t *testing.T) {
	e := New(memstore.New(time.Now), SourceMemory, NewMetrics(prometheus.NewRegistry()), BoundIdentifiers(Identifiers{Max: 10}))
	swap := func(list ...rules.Rule) {
		x, err := rules.NewIndex(rules.Set{Rules: list}, "sha256:1", "weir:")
		if err != nil {
			t.Fatal(err)
		}
		e.Swap(x)
	}
	tenants := rules.Rule{
		Policy: "shop/a", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.TokenBucket, Units: 10, WindowSeconds: 60,
	}
	swap(tenants)
	if _, err := e.Check(t.Context(), ofAcme()); err != nil {
		t.Fatal(err)
	}
	if n := len(e.populations.byKey); n != 1 {
		t.Fatalf("%d populations of one rule", n)
	}
	swap(tenants)
	if n := len(e.populations.byKey); n != 1 {
		t.Errorf("%d populations of the same rule", n)
	}
	swap()
	if n := len(e.populations.byKey); n != 0 {
		t.Errorf("%d populations without a rule", n)
	}
}
