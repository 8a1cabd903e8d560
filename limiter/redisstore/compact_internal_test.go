package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/fixture"
)

const testBlock = "weir:throttle:tenant:{b3f1}:shop/tenant-daily:k3f9q2wz:0"

// inBlock is the key of counter i in a block.
func inBlock(i int) string { return fmt.Sprintf("%s#%012x", testBlock, i) }

func compactLimit(t testing.TB, algorithm limiter.Algorithm) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(algorithm, 10, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

func compactAlgorithms() []limiter.Algorithm {
	return []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowCounter}
}

func spendOne(t *testing.T, store *Store, key string, limit limiter.Limit) limiter.Decision {
	t.Helper()
	decisions, err := store.Spend(t.Context(), []limiter.Charge{{Key: key, Limit: limit, Cost: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return decisions[0]
}

// 400 counters of a block are those of 26 million identifiers of a policy.
func TestSpend_CompactCountersShareASmallBlock(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	store, rdb := NewStore(client, patience), client.Redis()
	const counters = 400
	for _, algorithm := range compactAlgorithms() {
		limit := compactLimit(t, algorithm)
		rdb.FlushDB(t.Context())
		for want := int64(9); want >= 8; want-- {
			for i := range counters {
				if d := spendOne(t, store, inBlock(i), limit); d.Remaining != want {
					t.Fatalf("%s: counter %d has %d units left, want %d", algorithm, i, d.Remaining, want)
				}
			}
		}
		keys := rdb.Keys(t.Context(), "*").Val()
		if len(keys) != 1 {
			t.Fatalf("%s: keys %q, want one block", algorithm, keys)
		}
		if encoding := rdb.ObjectEncoding(t.Context(), keys[0]).Val(); encoding != "listpack" && encoding != "ziplist" {
			t.Errorf("%s: the encoding is %s, want the small one", algorithm, encoding)
		}
		if bytes := rdb.MemoryUsage(t.Context(), keys[0], 0).Val(); bytes > 20*counters {
			t.Errorf("%s: %d counters take %d bytes, want at most 20 each", algorithm, counters, bytes)
		}
		if ttl := rdb.PTTL(t.Context(), keys[0]).Val(); ttl <= 0 || ttl > 2*limiter.MaxWindow {
			t.Errorf("%s: time to live %v", algorithm, ttl)
		}
	}
}

// Counters of a block are in windows of their own, also if the clock steps back.
func TestSpend_CompactCountersOfABlockHaveTheirOwnWindows(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	for _, algorithm := range compactAlgorithms() {
		limit := compactLimit(t, algorithm)
		client.Redis().FlushDB(t.Context())
		window := limiter.Instant(limit.Window().Microseconds())
		start := (limiter.At(time.Now())/window + 5) * window
		now := start
		var reported []string
		store := NewStore(client, patience, WithClock(func() time.Time { return now.Time() }),
			WithCountersAhead(func(keys []string) { reported = append(reported, keys...) }))
		states := map[int]limiter.State{}
		for _, step := range []struct{ windows, counter int }{{0, 1}, {0, 2}, {1, 1}, {0, 1}, {0, 2}, {2, 3}, {0, 2}, {1, 2}, {2, 2}, {0, 3}, {3, 1}, {3, 3}} {
			now = start + limiter.Instant(step.windows)*window + 1
			if states[step.counter] == nil {
				states[step.counter] = limit.NewState()
			}
			charges := []limiter.Charge{{Key: inBlock(step.counter), Limit: limit, Cost: 1}}
			want := limiter.Spend(now, charges, []limiter.State{states[step.counter]})[0]
			if got := spendOne(t, store, inBlock(step.counter), limit); got != want {
				t.Errorf("%s, %+v: %+v, want %+v", algorithm, step, got, want)
			}
		}
		if want := []string{inBlock(3), inBlock(3)}; !slices.Equal(reported, want) { // two windows ahead, and three windows old
			t.Errorf("%s: reported %q, want %q", algorithm, reported, want)
		}
		for _, key := range client.Redis().Keys(t.Context(), "*").Val() {
			if ttl := client.Redis().PTTL(t.Context(), key).Val(); ttl <= 0 {
				t.Errorf("%s: time to live of %s: %v", algorithm, key, ttl)
			}
		}
	}
}

// A corrupt value affects its counter, or its block if nothing of that is readable.
func TestSpend_ACorruptCompactCounterStartsOver(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	ctx, rdb := t.Context(), client.Redis()
	_, field, _ := limiter.CompactKey(inBlock(1))
	for name, test := range map[string]struct {
		corrupt    func(ctx context.Context, block string) error
		keepsOther bool
	}{
		"another type": {func(ctx context.Context, block string) error { return rdb.Set(ctx, block, "x", 0).Err() }, false},
		"a text": {func(ctx context.Context, block string) error {
			return rdb.HSet(ctx, block, string(field[:]), "x").Err()
		}, true},
		"a fraction": {func(ctx context.Context, block string) error {
			return rdb.HSet(ctx, block, string(field[:]), "0.5").Err()
		}, true},
		"a window beyond 32": {func(ctx context.Context, block string) error {
			return rdb.HSet(ctx, block, string(field[:]), 1<<40).Err()
		}, true},
		"window 32, of 0 to 31": {func(ctx context.Context, block string) error {
			return rdb.HSet(ctx, block, string(field[:]), 32<<18).Err()
		}, true},
		"a window that is not": {func(ctx context.Context, block string) error {
			return rdb.HSet(ctx, block, "", "x", string(field[:]), "y").Err()
		}, false},
		"a window far ahead": {func(ctx context.Context, block string) error {
			return rdb.HSet(ctx, block, "", 1<<50, string(field[:]), "y").Err()
		}, true},
	} {
		for _, algorithm := range compactAlgorithms() {
			t.Run(name+"/"+string(algorithm), func(t *testing.T) {
				limit := compactLimit(t, algorithm)
				rdb.FlushDB(ctx)
				var reported []string
				store := NewStore(client, patience, WithCorruptCounters(func(keys []string) { reported = append(reported, keys...) }))
				spendOne(t, store, inBlock(1), limit)
				spendOne(t, store, inBlock(2), limit)
				block := rdb.Keys(ctx, "*").Val()[0]
				if err := test.corrupt(ctx, block); err != nil {
					t.Fatal(err)
				}
				for _, want := range []int64{9, 8} {
					if d := spendOne(t, store, inBlock(1), limit); d.Remaining != want {
						t.Errorf("%d units left, want %d", d.Remaining, want)
					}
				}
				if len(reported) != 1 || reported[0] != inBlock(1) {
					t.Errorf("reported %q, want the key once", reported)
				}
				want := int64(9)
				if test.keepsOther {
					want = 8
				}
				if d := spendOne(t, store, inBlock(2), limit); d.Remaining != want {
					t.Errorf("the other counter of the block has %d units left, want %d", d.Remaining, want)
				}
				if ttl := rdb.PTTL(ctx, block).Val(); ttl <= 0 || ttl > 2*limit.Window() {
					t.Errorf("time to live %v", ttl)
				}
			})
		}
	}
}

// Limiters drop what they know of a key, which is not the name of a Redis key.
func TestRefund_InvalidatesTheKeysOfCompactCounters(t *testing.T) {
	url := fixture.Redis(t).URL()
	client, another := openURL(t, url), openURL(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	keys, ended := follow(ctx, client)
	awaitKey(t, keys, all)
	store := NewStore(another, patience, WithInvalidations(InvalidationChannel("weir:")))
	for i, algorithm := range compactAlgorithms() {
		limit := compactLimit(t, algorithm)
		decision := spendOne(t, store, inBlock(i), limit)
		if err := store.Refund(ctx, []limiter.Refund{{Key: inBlock(i), Limit: limit, Cost: 1, At: decision.At}}); err != nil {
			t.Fatal(err)
		}
		awaitKey(t, keys, inBlock(i))
		spendOne(t, store, inBlock(7), limit)
		if err := store.Reset(ctx, []string{inBlock(7)}, ""); err != nil {
			t.Fatal(err)
		}
		awaitKey(t, keys, "reset: "+inBlock(7))
		if d := spendOne(t, store, inBlock(7), limit); d.Remaining != 9 {
			t.Errorf("%s: %d units left after a reset and a spend", algorithm, d.Remaining)
		}
		client.Redis().FlushDB(ctx)
	}
	cancel()
	awaitEnd(t, ended)
}

// A clock that was an hour ahead leaves blocks that would live for as long. The next counter that enters the block ends that, and the counters of
// the block that did not count in that hour keep their units.
func TestSpend_CompactCountersSurviveAClockThatWasWrong(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	for i, algorithm := range slices.Concat(compactAlgorithms(), compactAlgorithms()) {
		wrongBy := 7 * time.Hour // no multiple of 32 windows, and read as a later one
		if i >= len(compactAlgorithms()) {
			wrongBy = time.Hour // read as an earlier one
		}
		limit, err := limiter.NewLimit(algorithm, 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		client.Redis().FlushDB(t.Context())
		now := time.Now().Add(time.Hour).Truncate(time.Minute)
		var reported []string
		store := NewStore(client, patience, WithClock(func() time.Time { return now }),
			WithCountersAhead(func(keys []string) { reported = append(reported, keys...) }),
			WithCorruptCounters(func(keys []string) { t.Errorf("%s: %q are corrupt", algorithm, keys) }))
		spendOne(t, store, inBlock(1), limit)
		now = now.Add(wrongBy)
		spendOne(t, store, inBlock(2), limit)
		spendOne(t, store, inBlock(4), limit)
		now = now.Add(-wrongBy)
		// A refund, and two charges in one run.
		if err := store.Refund(t.Context(), []limiter.Refund{{Key: inBlock(4), Limit: limit, Cost: 1, At: limiter.At(now)}}); err != nil {
			t.Fatal(err)
		}
		if len(reported) > 0 {
			t.Errorf("%s: a refund reports %q", algorithm, reported)
		}
		charges := []limiter.Charge{{Key: inBlock(4), Limit: limit, Cost: 1}, {Key: inBlock(5), Limit: limit, Cost: 1}}
		if d, err := store.Spend(t.Context(), charges); err != nil || d[0].Remaining != 9 || d[1].Remaining != 9 {
			t.Errorf("%s: %+v, %v", algorithm, d, err)
		}
		for n, want := range map[int]int64{1: 8, 2: 9, 3: 9} {
			if d := spendOne(t, store, inBlock(n), limit); d.Remaining != want || d.ResetAfter > 2*limit.Window() {
				t.Errorf("%s: counter %d: %+v, want %d units left", algorithm, n, d, want)
			}
		}
		if slices.Sort(reported); !slices.Equal(reported, []string{inBlock(2), inBlock(4)}) {
			t.Errorf("%s, ahead by %v: reported %q, want the two counters that were ahead", algorithm, wrongBy, reported)
		}
		for _, block := range client.Redis().Keys(t.Context(), "*").Val() {
			if ttl := client.Redis().PTTL(t.Context(), block).Val(); ttl <= 0 || ttl > time.Hour+3*limit.Window() {
				t.Errorf("%s: time to live %v", algorithm, ttl)
			}
		}
	}
}

// A key exists in the whole millisecond in which it expires. Requests in that millisecond must not prolong the block of the window before: the
// counters in it would be read again when their index recurs.
func TestSpend_NoRequestProlongsTheBlockOfAWindowThatEnded(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	limit, err := limiter.NewLimit(limiter.FixedWindow, 1_000_000, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	store := NewStore(client, patience)
	_, field, _ := limiter.CompactKey(inBlock(2))
	began := spendOne(t, store, inBlock(2), limit).At
	for now := began; now.Sub(began) < 3*limit.Window(); {
		now = spendOne(t, store, inBlock(1), limit).At
	}
	if value, err := client.Redis().HGet(t.Context(), client.Redis().Keys(t.Context(), "*").Val()[0], string(field[:])).Result(); err == nil {
		t.Errorf("the block of an earlier window still has the counter %q", value)
	}
}

// The fields of two counters can have the same text although their windows have different lengths.
func TestSpend_DecidesCompactCountersOfDifferentWindowsInOneRun(t *testing.T) {
	const period = 32 * 3600 // seconds: both windows have an index that is a multiple of 32
	now := time.Unix((time.Now().Unix()/period+1)*period, 0)
	store := NewStore(openURL(t, fixture.Redis(t).URL()), patience, WithClock(func() time.Time { return now }))
	var charges []limiter.Charge
	for i, window := range []time.Duration{time.Hour, time.Minute} {
		limit, err := limiter.NewLimit(limiter.FixedWindow, 10, window)
		if err != nil {
			t.Fatal(err)
		}
		key := strings.Replace(inBlock(1), "tenant-daily", []string{"hourly", "by-the-minute"}[i], 1)
		charges = append(charges, limiter.Charge{Key: key, Limit: limit, Cost: 1})
	}
	for want := int64(9); want >= 7; want-- {
		decisions, err := store.Spend(t.Context(), charges)
		if err != nil || decisions[0].Remaining != want || decisions[1].Remaining != want {
			t.Errorf("%+v, %v; want %d units left of both", decisions, err, want)
		}
	}
}

// A counter has a field in the block of its window, or in that of the window before, which can be unreadable, too.
func TestSpend_AnUnreadableFieldOfTheWindowBeforeStartsOver(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	ctx, rdb := t.Context(), client.Redis()
	_, field, _ := limiter.CompactKey(inBlock(1))
	limit, err := limiter.NewLimit(limiter.SlidingWindowCounter, 10, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Hour).Add(time.Hour)
	index := now.Unix() / 3600
	ahead := strconv.FormatInt((index+13)%32<<18, 10)
	for name, test := range map[string]struct {
		before, current, want string
	}{
		"corrupt":           {"x", "", "corrupt"},
		"ahead":             {ahead, "", "ahead"},
		"ahead and corrupt": {ahead, "x", "corrupt"},
		"corrupt and ahead": {"x", strconv.FormatInt((index+14)%32<<18, 10), "corrupt"},
	} {
		rdb.FlushDB(ctx)
		var reported []string
		at := now
		store := NewStore(client, patience, WithClock(func() time.Time { return at }),
			WithCorruptCounters(func(keys []string) { reported = append(append(reported, "corrupt"), keys...) }),
			WithCountersAhead(func(keys []string) { reported = append(append(reported, "ahead"), keys...) }))
		spendOne(t, store, inBlock(1), limit)
		before := rdb.Keys(ctx, "*").Val()[0]
		rdb.HSet(ctx, before, string(field[:]), test.before)
		if test.current != "" {
			current := before[:len(before)-1] + string('0'+'1'-before[len(before)-1])
			rdb.HSet(ctx, current, string(field[:]), test.current)
		}
		at = at.Add(time.Hour)
		for _, want := range []int64{9, 8} {
			if d := spendOne(t, store, inBlock(1), limit); d.Remaining != want {
				t.Errorf("%s: %d units left, want %d", name, d.Remaining, want)
			}
		}
		if want := []string{test.want, inBlock(1)}; !slices.Equal(reported, want) {
			t.Errorf("%s: reported %q, want %q", name, reported, want)
		}
		if test.current == "" && rdb.HExists(ctx, before, string(field[:])).Val() {
			t.Errorf("%s: the block of the window before still has the counter", name)
		}
	}
}
