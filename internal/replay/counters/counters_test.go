package counters_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/replay/counters"
	"github.com/weir-dev/weir/limiter"
)

func limitOf(t testing.TB, algorithm limiter.Algorithm, units int64) limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(algorithm, units, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Ten million identifiers fit into a gibibyte, with what the process needs besides.
func TestTable_NeedsLittleMemory(t *testing.T) {
	table := counters.NewTable(limitOf(t, limiter.TokenBucket, 10))
	const identifiers = 1_000_000
	for i := range identifiers {
		if number := table.Find(rand.Uint64()); number != i {
			t.Fatalf("entry %d has number %d", i, number)
		}
	}
	if bytes := table.Bytes() / identifiers; bytes > 85 {
		t.Errorf("%d bytes for each identifier, want at most 85", bytes)
	}
}

// Hashes whose lower halves, or upper halves, are equal belong to different identifiers.
func TestTable_FindsEachHash(t *testing.T) {
	table, want := counters.NewTable(limitOf(t, limiter.FixedWindow, 10)), map[uint64]int{}
	for i := range 200_000 {
		hash := rand.Uint64()
		switch i % 3 {
		case 0:
			hash &= 0xffff // few homes
		case 1:
			hash = hash>>48<<48 | uint64(i)
		}
		number := table.Find(hash)
		if earlier, found := want[hash]; found && earlier != number || !found && number != len(want) {
			t.Fatalf("hash %x has number %d, want %d of %d", hash, number, earlier, len(want))
		}
		want[hash] = number
	}
	if table.Len() != len(want) {
		t.Errorf("%d entries, want %d", table.Len(), len(want))
	}
}

func TestEntry_RecordsThePeakOfAWindow(t *testing.T) {
	var e counters.Entry
	for _, step := range []struct {
		window uint32
		units  int64
		peak   uint32
	}{{1, 3, 3}, {1, 2, 5}, {2, 4, 5}, {3, 1, 5}, {3, 5, 6}, {3, 1 << 40, 1<<32 - 1}} {
		if e.Ask(step.window, step.units); e.Peak != step.peak {
			t.Errorf("peak %d after %+v", e.Peak, step)
		}
	}
	if e.Peak != 1<<32-1 || e.Requests != 6 {
		t.Errorf("%+v", e)
	}
	if !e.Deny(5e6) || e.Deny(9e6) || e.Denied != 2 || e.FirstDenial != 5 {
		t.Errorf("%+v", e)
	}
}

// The log of an identifier that does not come back is freed.
func TestStore_FreesLogs(t *testing.T) {
	limit := limitOf(t, limiter.SlidingWindowLog, 10)
	table, states := counters.NewTable(limit), counters.NewStates(limit)
	var s counters.Store
	now := limiter.At(time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC))
	for i := range 20_000 {
		now = now.Add(100 * time.Millisecond)
		charge := limiter.Charge{Key: fmt.Sprint("client-", i), Limit: limit, Cost: 1}
		slots := []counters.Slot{{Key: charge.Key, Hash: counters.HashOf([]byte(charge.Key)), Table: table}}
		counters.Find(slots)
		s.Begin(now, slots)
		if _, err := s.Spend(t.Context(), []limiter.Charge{charge}); err != nil {
			t.Fatal(err)
		}
		states.Spend(slots[0].Number, &charge, now)
	}
	if live := table.Logs(); live > 600+20_000/8 { // those of the last minute, and those that one round of sweeps has not reached
		t.Errorf("%d logs are left", live)
	}
	if live := states.Logs(); live > 600+20_480/8 {
		t.Errorf("%d logs of another limit are left", live)
	}
}

func TestStore_RejectsWhatTheRequestDoesNotHave(t *testing.T) {
	var s counters.Store
	s.Begin(1, nil)
	charges := []limiter.Charge{{Key: "other", Limit: limitOf(t, limiter.FixedWindow, 1), Cost: 1}}
	if _, err := s.Spend(t.Context(), charges); err == nil {
		t.Error("a charge without an entry is spent")
	}
	if _, err := s.Peek(t.Context(), charges); err == nil {
		t.Error("a charge without an entry is peeked at")
	}
	if s.Refund(t.Context(), nil) == nil || s.Reset(t.Context(), nil, "") == nil {
		t.Error("a refund or a reset succeeds")
	}
}
