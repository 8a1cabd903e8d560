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
