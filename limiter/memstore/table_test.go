package memstore_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
)

// keysOf returns those of keys whose counters exist.
func keysOf(s *memstore.Store, keys ...string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, ok := s.Expires(key)
		return !ok
	})
}

func TestStats_BytesCountTheCounterItsKeyAndItsState(t *testing.T) {
	fixed := limitOf(t, limiter.FixedWindow, 10, time.Hour)
	bytes := func(key string, spends int) int {
		s := memstore.New(newHand().Now)
		for range spends {
			spend(t, s, key, fixed, 1)
		}
		return s.Stats().Bytes
	}
	one := bytes("a", 1)
	if one < 100 || one > 500 {
		t.Errorf("a counter takes %d bytes", one)
	}
	if again := bytes("a", 5); again != one {
		t.Errorf("a counter takes %d bytes after one request and %d after five", one, again)
	}
	if long := bytes("0123456789a", 1); long != one+10 {
		t.Errorf("a key that is 10 bytes longer takes %d bytes more", long-one)
	}
}

func TestReset_FreesSlotsAndStates(t *testing.T) {
	clock := newHand()
	s := memstore.New(clock.Now)
	before := heap()
	var keys []string
	fixed := limitOf(t, limiter.FixedWindow, 10, time.Hour)
	for i := range 20_000 {
		keys = append(keys, fmt.Sprint("client-", i))
		spend(t, s, keys[i], fixed, 1)
	}
	if err := s.Reset(t.Context(), keys, ""); err != nil {
		t.Fatal(err)
	}
	if used := heap() - before; used > 100_000 {
		t.Errorf("%d bytes are used after all counters were deleted", used)
	}

	spend(t, s, "small", fixed, 1)
	log := limitOf(t, limiter.SlidingWindowLog, 1000, time.Hour)
	for i := range 20 {
		for range 1000 {
			clock.now = clock.now.Add(time.Millisecond)
			spend(t, s, fmt.Sprint("large-", i), log, 1)
		}
	}
	for i := range 20 {
		if err := s.Reset(t.Context(), []string{fmt.Sprint("large-", i)}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if used := heap() - before; used > 100_000 {
		t.Errorf("%d bytes are used after the large counters were deleted", used)
	}
	runtime.KeepAlive(s)
}

func TestRefund_SkipsCountersThatDoNotExist(t *testing.T) {
	s := memstore.New(newHand().Now)
	l := limitOf(t, limiter.FixedWindow, 10, time.Hour)
	d := spend(t, s, "client", l, 3)
	err := s.Refund(t.Context(), []limiter.Refund{
		{Key: "unknown", Limit: l, Cost: 1, At: d.At}, {Key: "client", Limit: l, Cost: 2, At: d.At},
	})
	if after := spend(t, s, "client", l, 0); err != nil || after.Remaining != 9 {
		t.Errorf("%d units remain after a refund of 2 of 3, %v; want 9", after.Remaining, err)
	}
}

func TestExpires_EndsAtTheInstant(t *testing.T) {
	clock := newHand()
	s := memstore.New(clock.Now)
	spend(t, s, "client", limitOf(t, limiter.FixedWindow, 10, time.Hour), 1)
	at, ok := s.Expires("client")
	if want := limiter.At(clock.now.Add(time.Hour)); !ok || at != want {
		t.Errorf("expires at %d, %v; want %d", at, ok, want)
	}
	clock.now = clock.now.Add(time.Hour - time.Microsecond)
	if _, ok := s.Expires("client"); !ok {
		t.Error("expires 1 µs early")
	}
	clock.now = clock.now.Add(time.Microsecond)
	if _, ok := s.Expires("client"); ok {
		t.Error("exists at the instant at which it expires")
	}
}

// A sweep looks at hundreds of counters, so only one of 64 spends has one.
func TestSpend_SweepsEvery64Spends(t *testing.T) {
	clock := newHand()
	s := memstore.New(clock.Now)
	hour, day := limitOf(t, limiter.FixedWindow, 10, time.Hour), limitOf(t, limiter.FixedWindow, 10, 24*time.Hour)
	for i := range 10 {
		spend(t, s, fmt.Sprint("short-", i), hour, 1)
	}
	clock.now = clock.now.Add(time.Hour)
	for i := 11; i <= 128; i++ {
		spend(t, s, "long", day, 0)
		if want := 10; i < 64 && s.Len() != want {
			t.Fatalf("%d counters after %d spends, want %d", s.Len(), i, want)
		}
		if i >= 64 && s.Len() != 0 {
			t.Fatalf("%d counters after %d spends, want that those that expire now are removed", s.Len(), i)
		}
	}
}

func TestMaxBytes_IsAnInclusiveBound(t *testing.T) {
	l := limitOf(t, limiter.FixedWindow, 10, time.Hour)
	three := memstore.New(newHand().Now)
	for _, key := range []string{"a", "b", "c"} {
		spend(t, three, key, l, 1)
	}
	bytes := three.Stats().Bytes
	for most, want := range map[int]int{bytes: 3, bytes - 1: 2} {
		s := memstore.New(newHand().Now, memstore.MaxBytes(most))
		for _, key := range []string{"a", "b", "c"} {
			spend(t, s, key, l, 1)
		}
		if s.Len() != want || s.Stats().Evicted != int64(3-want) {
			t.Errorf("%+v with %d bytes, want %d counters", s.Stats(), most, want)
		}
	}
}

func TestStats_EvictedCountsOnlyCountersThatHaveNotExpired(t *testing.T) {
	for after, want := range map[time.Duration]int64{time.Hour - time.Microsecond: 1, time.Hour: 0} {
		clock := newHand()
		s := memstore.New(clock.Now, memstore.MaxBytes(1))
		l := limitOf(t, limiter.FixedWindow, 10, time.Hour)
		spend(t, s, "a", l, 1)
		clock.now = clock.now.Add(after)
		spend(t, s, "b", l, 1)
		if stats := s.Stats(); stats.Evicted != want || stats.Counters != 1 {
			t.Errorf("%+v after %v, want %d evicted", stats, after, want)
		}
	}
}

// Among few counters the choice is exact. The part counts, not the number of units.
func TestSpend_EvictsTheSmallestPartOfEightCounters(t *testing.T) {
	large, small := limitOf(t, limiter.FixedWindow, 1000, time.Hour), limitOf(t, limiter.FixedWindow, 10, time.Hour)
	for least := range 8 {
		for round := range 5 { // a random choice would be right now and then
			room := memstore.New(newHand().Now)
			var keys []string
			for i := range 8 {
				keys = append(keys, fmt.Sprint("key-", i))
				spend(t, room, keys[i], small, 1)
			}
			s := memstore.New(newHand().Now, memstore.MaxBytes(room.Stats().Bytes-1))
			for i, key := range keys {
				if i == least {
					spend(t, s, key, large, 300)
				} else {
					spend(t, s, key, small, int64(4+(i+round)%5))
				}
			}
			if want := slices.Delete(slices.Clone(keys), least, least+1); least < 7 && !slices.Equal(keysOf(s, keys...), want) {
				t.Fatalf("%v are left, want all but %s", keysOf(s, keys...), keys[least])
			}
			if least == 7 && (s.Len() != 7 || !slices.Contains(keysOf(s, keys...), keys[7])) {
				t.Fatalf("%v are left, want the counter of the request", keysOf(s, keys...))
			}
		}
	}
}
