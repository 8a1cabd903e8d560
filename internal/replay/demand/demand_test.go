package demand_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/replay/demand"
	"github.com/weir-dev/weir/limiter"
)

var start = limiter.At(time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC))

func limitOf(t testing.TB, algorithm limiter.Algorithm, units int64, window time.Duration) limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(algorithm, units, window)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A sample has each of its identifiers with all requests: with some of them, an identifier would look as if it asked for less.
func TestSample_KeepsIdentifiersWhole(t *testing.T) {
	hashes := make([]uint64, 1000)
	for i := range hashes {
		hashes[i] = rand.Uint64()
	}
	s := demand.NewSample(5000)
	for round := range int64(100) {
		for _, hash := range hashes {
			s.Add(hash, start.Add(time.Duration(round)*time.Second), 1)
		}
	}
	d := s.Demand()
	if d.Requests != 100*d.Identifiers || d.Requests > 5000 || d.SampledOneIn < 16 || d.SampledOneIn > 64 {
		t.Errorf("%d requests of %d identifiers, one in %d", d.Requests, d.Identifiers, d.SampledOneIn)
	}
	if denied := d.Try(limitOf(t, limiter.FixedWindow, 99, time.Hour)); denied != (demand.Denials{Requests: d.Identifiers, Identifiers: d.Identifiers}) {
		t.Errorf("%+v of %d identifiers", denied, d.Identifiers)
	}
}

// One identifier with more requests than the sample takes cannot be halved.
func TestSample_OfOneIdentifierIsBounded(t *testing.T) {
	s := demand.NewSample(100)
	for i := range 1000 {
		s.Add(0, start.Add(time.Duration(i)*time.Second), 1)
	}
	if d := s.Demand(); d.Requests != 100 || d.Identifiers != 1 {
		t.Errorf("%d requests of %d identifiers", d.Requests, d.Identifiers)
	}
}

func TestDemand_FindsTheLeastLimit(t *testing.T) {
	s := demand.NewSample(0)
	for client := range uint64(100) { // client n sends n+1 requests in the first second, and as many an hour later
		for range client + 1 {
			s.Add(client, start, 1)
		}
	}
	for client := range uint64(100) {
		for range client + 1 {
			s.Add(client, start.Add(time.Hour), 1)
		}
	}
	d := s.Demand()
	limitOf := func(units int64) (limiter.Limit, error) {
		return limiter.NewLimit(limiter.FixedWindow, units, time.Minute)
	}
	for share, want := range map[float64]int64{0: 100, 0.01: 99, 0.5: 50} {
		if units, found := d.Least(share, false, limitOf); units != want || !found {
			t.Errorf("%v of the identifiers: %d, want %d", share, units, want)
		}
	}
	if units, found := d.Least(0.1, true, limitOf); units != 69 || !found { // of 10 100 requests: 2·(1 + … + 31) = 992, and one unit less 1056
		t.Errorf("a tenth of the requests: %d, want 69", units)
	}
	if _, found := d.Least(0, false, func(int64) (limiter.Limit, error) { return limiter.NewLimit(limiter.FixedWindow, 1, time.Minute) }); found {
		t.Error("a limit that does not suffice is found")
	}
	limit, _ := limitOf(10)
	if n := d.Counters(limit); n != 100 {
		t.Errorf("%d counters, want 100", n)
	}
	if n := d.PeakUnits(limit); n != 100 {
		t.Errorf("peak of %d units, want 100", n)
	}
}

func TestWithUnits_KeepsTheBurst(t *testing.T) {
	equal := limitOf(t, limiter.TokenBucket, 10, time.Minute)
	other, err := equal.WithBurst(30)
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[limiter.Limit]int64{equal: 20, other: 30, limitOf(t, limiter.FixedWindow, 10, time.Minute): 0} {
		if got, err := demand.WithUnits(limit, 20); err != nil || got.Units() != 20 || got.Burst() != want {
			t.Errorf("%v: %v with burst %d (%v), want %d", limit, got, got.Burst(), err, want)
		}
	}
}

// Each limit of a list denies what it denies alone, for clients with bursts, pauses and several costs.
func TestDemand_TriesLimitsTogether(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, at := demand.NewSample(0), start
	for range 20_000 {
		at = at.Add(time.Duration(random.IntN(3)) * time.Duration(random.IntN(2000)) * time.Millisecond)
		client := random.Uint64N(1 + random.Uint64N(50))
		s.Add(client*0x9e3779b97f4a7c15, at, 1+random.Int64N(1+random.Int64N(4)))
	}
	d := s.Demand()
	for _, algorithm := range limiter.Algorithms() {
		var limits []limiter.Limit
		for _, units := range []int64{1, 2, 3, 4, 5, 7, 10, 11, 12, 15, 20, 30, 50, 51, 70, 100, 200} {
			own := limitOf(t, algorithm, units, time.Minute)
			if algorithm.Traits().Queues && units > 20 {
				own, _ = own.WithBurst(units - 1)
			}
			limits = append(limits, own.NoDelay())
		}
		all, deny := d.TryAll(limits), 0
		for i, limit := range limits {
			alone := d.Try(limit)
			if all[i] != alone {
				t.Errorf("%v: %+v, and %+v alone", limit, all[i], alone)
			}
			if alone.Identifiers > 0 && alone.Identifiers < d.Identifiers {
				deny++
			}
		}
		if deny < 3 {
			t.Errorf("%s: only %d limits deny some of %d identifiers: %+v", algorithm, deny, d.Identifiers, all)
		}
	}
}

// The events of one instant stay in their order, also among those of many other identifiers.
func TestSample_KeepsTheOrderOfAnIdentifier(t *testing.T) {
	s, seconds := demand.NewSample(0), int64(50_000)
	for i := range 4 * seconds {
		at, cost := start.Add(time.Duration(i/4)*time.Second), int64(1)
		if i%4 == 0 {
			cost = 1000
		}
		s.Add((1+rand.Uint64N(3))<<20|rand.Uint64N(1000)<<30|7, at, 1)
		s.Add(7, at, cost)
	}
	denied := s.Demand().Try(limitOf(t, limiter.FixedWindow, 1000, time.Second))
	if denied.Requests != 3*seconds || denied.Identifiers != 1 { // all but the first of each second
		t.Errorf("%+v", denied)
	}
}
