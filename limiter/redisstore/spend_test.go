package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/storetest"
	"github.com/weir-dev/weir/test/fixture"
)

// longTimeout is a timeout for tests that do not test timeouts.
const longTimeout = 10 * time.Second

func TestStore_ConformsOnRedis(t *testing.T) {
	server := fixture.Redis(t)
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		flush(t, server.URL())
		return subject(t, server.URL(), clock)
	})
}

func TestStore_ConformsOnAClusterWithSeveralSlotsPerRequest(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			t.Parallel()
			url := primaries(t, nodes).URL()
			storetest.Run(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
				flush(t, url)
				s := subject(t, url, clock)
				s.Spread = true
				return s
			})
		})
	}
}

func TestStore_ConformsWithCompactCounters(t *testing.T) {
	server := fixture.Redis(t)
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		flush(t, server.URL())
		return compactSubject(t, server.URL(), clock)
	})
}

// The blocks of a compact counter are in one slot, and counters of several blocks are on several nodes.
func TestStore_ConformsWithCompactCountersOnACluster(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			t.Parallel()
			url := primaries(t, nodes).URL()
			storetest.Scenarios(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
				flush(t, url)
				s := compactSubject(t, url, clock)
				s.Spread = true
				return s
			})
		})
	}
}

// hack/demo uses miniredis if there is no redis-server. Its Lua is another implementation.
func TestStore_ConformsOnMiniredis(t *testing.T) {
	storetest.Scenarios(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		server := miniredis.RunT(t)
		server.SetTime(clock.Now()) // fixed: miniredis stores times to live, which would drift from the clock
		return subject(t, "redis://"+server.Addr(), clock)
	})
}

// compactSubject is subject with compact counters.
func compactSubject(t testing.TB, url string, clock *storetest.Clock) storetest.Subject {
	of, raw := subject(t, url, clock), rawClient(t, url)
	limits := &sync.Map{}
	blockExpires := of.Expires
	of.Compact, of.Store = true, expiringStore{of.Store, expireBlocks(raw, clock), limits}
	of.Expires = func(key string) (earliest, latest limiter.Instant, ok bool) {
		block, field, isCompact := limiter.CompactKey(key)
		if !isCompact {
			return blockExpires(key)
		}
		for _, block := range []string{block, block[:len(block)-1] + "1"} {
			value, err := raw.HGet(t.Context(), block, string(field[:])).Result()
			if errors.Is(err, redis.Nil) {
				continue
			}
			if err != nil || ok {
				t.Fatalf("HGET %s: %v; found before: %t", block, err, ok)
			}
			last, err := raw.HGet(t.Context(), block, "").Int64()
			if err != nil {
				t.Fatal(err)
			}
			part, current := decodeUnits(t, value)
			index := last - (last-part)%32 // of the window of the counter, at most that of the last one
			found, _ := limits.Load(key)
			limit, _ := found.(limiter.Limit)
			if limit.Algorithm() == limiter.SlidingWindowCounter && current > 0 {
				index++ // the next window weighs this one
			}
			latest, ok = limiter.Instant(index+1)*limiter.Instant(limit.Window().Microseconds()), true
			if _, until, exists := blockExpires(block); !exists || until.Add(time.Millisecond) < latest { // it exists until that millisecond ends
				t.Errorf("the block expires at %v (exists: %t), its counter at %v", until, exists, latest)
			}
		}
		return latest, latest, ok
	}
	return of
}

// decodeUnits returns the part of the index of the window that a compact counter stores, and its units in that window, see counts.lua.
func decodeUnits(t testing.TB, value string) (index, current int64) {
	t.Helper()
	if len(value) == 21 {
		return unpackNumber(value[:7]), unpackNumber(value[7:14])
	}
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	radix := map[int64]int64{0: 256, 1: 4096, 2: 65536}[number%4]
	return number / 4 / radix / radix, number / 4 / radix % radix
}

func unpackNumber(bytes string) (n int64) {
	for _, b := range []byte(bytes) {
		n = n<<8 | int64(b)
	}
	return n
}

// expiringStore lets the blocks of compact counters expire by the clock of a test: their counters store only a part of the index of
// their window, because Redis drops a block before another one has the same part. It records the limits of keys.
type expiringStore struct {
	limiter.Store
	expire func(ctx context.Context) error
	limits *sync.Map // limiter.Limit by key
}

func (s expiringStore) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	for _, c := range charges {
		s.limits.Store(c.Key, c.Limit)
	}
	if err := s.expire(ctx); err != nil {
		return nil, err
	}
	return s.Store.Spend(ctx, charges)
}

func (s expiringStore) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.expire(ctx); err != nil {
		return nil, err
	}
	return s.Store.Peek(ctx, charges)
}

func (s expiringStore) Refund(ctx context.Context, refunds []limiter.Refund) error {
	if err := s.expire(ctx); err != nil {
		return err
	}
	return s.Store.Refund(ctx, refunds)
}

// expireBlocks deletes the blocks that expire at a time of the clock. Windows have whole seconds, so rounding makes up for the clock of
// Redis, which does not stop for PTTL.
func expireBlocks(raw redis.UniversalClient, clock *storetest.Clock) func(context.Context) error {
	const script = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function is_over(key)
	return math.floor((now + redis.call('PTTL', key)) / 1000 + 0.5) * 1000000 <= tonumber(ARGV[1])
end
for _, key in ipairs(redis.call('KEYS', '*:[01]')) do
	local _ = is_over(key) and redis.call('DEL', key)
end
return 1`
	return func(ctx context.Context) error {
		at := clock.Now().UnixMicro()
		if cluster, is := raw.(*redis.ClusterClient); is {
			return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Eval(ctx, script, nil, at).Err() })
		}
		return raw.Eval(ctx, script, nil, at).Err()
	}
}

func subject(t testing.TB, url string, clock *storetest.Clock) storetest.Subject {
	store := redisstore.NewStore(open(t, url), longTimeout, redisstore.WithClock(clock.Now))
	raw := rawClient(t, url)
	return storetest.Subject{Store: store, Expires: func(key string) (earliest, latest limiter.Instant, ok bool) {
		at, err := raw.PExpireTime(t.Context(), key).Result()
		if redis.HasErrorPrefix(err, "unknown command") { // before Redis 7.0
			at, err = expireTime(t, raw, key)
		}
		if err != nil {
			t.Fatalf("PEXPIRETIME %s: %v", key, err)
		}
		switch {
		case at == -2:
			return 0, 0, false
		case at < 0:
			t.Fatalf("%s has no time to live", key)
		}
		latest = limiter.Instant(at.Microseconds())
		return latest - 999, latest, true // Redis stores milliseconds, and the scripts round up
	}}
}

// expireTime is PEXPIRETIME for Redis 6.2. A script stops the clock, but not for PTTL, so the result can be a millisecond too early: then
// expireTime repeats it.
func expireTime(t testing.TB, raw redis.UniversalClient, key string) (time.Duration, error) {
	t.Helper()
	const script = `local now = redis.call('TIME')
local left = redis.call('PTTL', KEYS[1])
if left < 0 then return left end
return now[1] * 1000 + math.floor(now[2] / 1000) + left`
	latest := int64(math.MinInt64)
	for range 3 {
		at, err := raw.Eval(t.Context(), script, []string{key}).Int64()
		if err != nil {
			return 0, err
		}
		latest = max(latest, at)
	}
	if latest < 0 {
		return time.Duration(latest), nil
	}
	return time.Duration(latest) * time.Millisecond, nil
}

func open(t testing.TB, url string) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(url, longTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func rawClient(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	first, parameters, _ := strings.Cut(url, "?")
	options, err := redis.ParseURL(first)
	if err != nil {
		t.Fatal(err)
	}
	var client redis.UniversalClient
	if parameters == "" {
		client = redis.NewClient(options)
	} else {
		client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{options.Addr}, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // they outlive Close
		})
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func flush(t testing.TB, url string) {
	t.Helper()
	raw := rawClient(t, url)
	err := raw.FlushAll(t.Context()).Err()
	if cluster, ok := raw.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newStore returns a Store that uses the clock of Redis, and a charge.
func newStore(t testing.TB, url string) (*redisstore.Store, []limiter.Charge) {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, 3, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	key := limiter.NewKeySpace("weir:", "Tenant", "test/redis-clock", limit).Key("acme", "")
	return redisstore.NewStore(open(t, url), longTimeout), []limiter.Charge{{Key: key, Limit: limit, Cost: 1}}
}

func remaining(t testing.TB, store *redisstore.Store, charges []limiter.Charge) int64 {
	t.Helper()
	decisions, err := store.Spend(t.Context(), charges)
	if err != nil {
		t.Fatalf("spend: %v", err)
	}
	return decisions[0].Remaining
}

func TestSpend_SucceedsAfterRedisLostItsData(t *testing.T) {
	t.Run("SCRIPT FLUSH keeps the counters", func(t *testing.T) {
		server := fixture.Redis(t)
		store, charges := newStore(t, server.URL())
		first := remaining(t, store, charges)
		if err := rawClient(t, server.URL()).ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if second := remaining(t, store, charges); first != 2 || second != 1 {
			t.Errorf("remaining %d, then %d; want 2, then 1", first, second)
		}
	})
	t.Run("a restart removes the counters", func(t *testing.T) {
		server := fixture.Redis(t)
		store, charges := newStore(t, server.URL())
		first := remaining(t, store, charges)
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The pool can return connections to the old process. Each fails one call and is then removed.
		var second int64 = -1
		for range 3 {
			if decisions, err := store.Spend(t.Context(), charges); err == nil {
				second = decisions[0].Remaining
				break
			}
		}
		if first != 2 || second != 2 {
			t.Errorf("remaining %d, then %d; want 2 both times", first, second)
		}
	})
}

func TestSpend_UsesTheClockOfRedis(t *testing.T) {
	server := fixture.Redis(t)
	store, charges := newStore(t, server.URL())
	raw := rawClient(t, server.URL())
	bucket, err := limiter.NewLimit(limiter.TokenBucket, 3600, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tokens := limiter.Charge{Key: "weir:{acme}:tokens", Limit: bucket, Cost: 60}
	now := func() limiter.Instant {
		at, err := raw.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return limiter.At(at)
	}
	for name, call := range map[string]func() ([]limiter.Decision, error){
		"spend on one counter":  func() ([]limiter.Decision, error) { return store.Spend(t.Context(), charges) },
		"spend on two counters": func() ([]limiter.Decision, error) { return store.Spend(t.Context(), append(charges, tokens)) },
		"peek at two counters":  func() ([]limiter.Decision, error) { return store.Peek(t.Context(), append(charges, tokens)) },
	} {
		before := now()
		decisions, err := call()
		after := now()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range decisions {
			if d.At < before || d.At > after {
				t.Errorf("%s: decided at %d, want from %d to %d", name, d.At, before, after)
			}
		}
	}
	ttl, err := raw.PTTL(t.Context(), charges[0].Key).Result()
	if err != nil {
		t.Fatal(err)
	}
	if ttl > time.Hour+time.Millisecond || ttl < time.Hour-longTimeout {
		t.Errorf("the counter expires in %v, want its window, one hour, rounded up to the millisecond", ttl)
	}
	// One unit drains every second, so a refund by another clock would refund fewer units.
	spent, err := store.Spend(t.Context(), []limiter.Charge{tokens})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Refund(t.Context(), []limiter.Refund{{Key: tokens.Key, Limit: bucket, Cost: 60, At: spent[0].At}}); err != nil {
		t.Fatal(err)
	}
	if left := peekRemaining(t, store, []limiter.Charge{tokens}); left < 3600-61 || left > 3600-61+int64(longTimeout/time.Second) {
		t.Errorf("%d units remain, want about %d: all of the second spend are refunded except the one that drains", left, 3600-61)
	}
}

// A small log is a list, read and written as a whole. A large one is a ring, read and written in place.
func TestSpend_StoresOnlyLargeLogsAsRings(t *testing.T) {
	server := fixture.Redis(t)
	store := redisstore.NewStore(open(t, server.URL()), longTimeout)
	raw := rawClient(t, server.URL())
	charge := func(policy string, units int64) limiter.Charge { return unitsOf(t, policy, "acme", units)[0] }
	large := []limiter.Charge{charge("in-place", 257)}
	for range 10 {
		remaining(t, store, large)
	}
	writes := 0
	stats := raw.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_set")
	if _, err := fmt.Sscanf(stats, "calls=%d", &writes); err != nil || writes != 1 {
		t.Errorf("10 spends wrote the ring as a whole %d times (%v), want only the first time", writes, err)
	}
	for name, charges := range map[string][]limiter.Charge{
		"one small":  {charge("a", 256)},
		"one large":  {charge("b", 257)},
		"two small":  {charge("c", 256), charge("d", 256)},
		"two large":  {charge("e", 257), charge("f", 257)},
		"with other": {charge("g", 257), {Key: "weir:{acme}:counter", Limit: counterLimit(t), Cost: 1}},
	} {
		for range 2 {
			remaining(t, store, charges)
		}
		for _, c := range charges {
			want, length := "L", 1+2*7 // a mark, and 7 bytes for each unit
			if c.Limit.Units() > 256 {
				want, length = "S", 1+5*7+2*8 // and five numbers, and 8 bytes for each instant
			}
			value, err := raw.Get(t.Context(), c.Key).Result()
			if err != nil {
				t.Fatal(err)
			}
			if c.Limit.Algorithm() == limiter.SlidingWindowLog && (value[:1] != want || len(value) != length) {
				t.Errorf("%s: the log of %d units is %d bytes that begin with %q, want %d and %s", name, c.Limit.Units(), len(value), value[:1], length, want)
			}
		}
	}
}

// A limit can become smaller: a small log is read from the ring that the larger one wrote.
func TestSpend_ReadsARingUnderASmallLimit(t *testing.T) {
	server := fixture.Redis(t)
	clock := &storetest.Clock{}
	store := redisstore.NewStore(open(t, server.URL()), longTimeout, redisstore.WithClock(clock.Now))
	type spend struct {
		after time.Duration
		cost  int64
	}
	for name, test := range map[string]struct {
		spends []spend
		left   map[time.Duration]int64 // of 256 units
	}{
		"from its first slot": {
			[]spend{{0, 1}, {20 * time.Minute, 2}, {40 * time.Minute, 3}},
			map[time.Duration]int64{
				40 * time.Minute: 250, time.Hour - time.Microsecond: 250, time.Hour: 251, 80 * time.Minute: 253, 100 * time.Minute: 256,
			},
		},
		"around its end": {
			[]spend{{0, 250}, {time.Hour, 4}, {80 * time.Minute, 6}, {100 * time.Minute, 8}},
			map[time.Duration]int64{
				100 * time.Minute: 238, 2*time.Hour - time.Microsecond: 238, 2 * time.Hour: 242, 140 * time.Minute: 248, 160 * time.Minute: 256,
			},
		},
	} {
		large, small := unitsOf(t, name, "acme", 257), unitsOf(t, name, "acme", 256)
		small[0].Key = large[0].Key
		for _, s := range test.spends {
			clock.Set(storetest.Epoch().Add(s.after))
			large[0].Cost = s.cost
			remaining(t, store, large)
		}
		for after, want := range test.left {
			clock.Set(storetest.Epoch().Add(after))
			if got := peekRemaining(t, store, small); got != want {
				t.Errorf("%s: after %v, %d units remain, want %d", name, after, got, want)
			}
		}
	}
}

// A unit that no longer counts takes no memory after the next spend.
func TestSpend_RemovesExpiredUnitsFromSmallLogs(t *testing.T) {
	server := fixture.Redis(t)
	clock := &storetest.Clock{}
	store := redisstore.NewStore(open(t, server.URL()), longTimeout, redisstore.WithClock(clock.Now))
	charges := unitsOf(t, "expired", "acme", 256)
	for i, want := range []int{1 + 7, 1 + 2*7, 1 + 2*7, 1 + 2*7, 1 + 7} {
		hours := []time.Duration{0, 30 * time.Minute, time.Hour, 90 * time.Minute, 4 * time.Hour}
		clock.Set(storetest.Epoch().Add(hours[i]))
		remaining(t, store, charges)
		if got := rawClient(t, server.URL()).StrLen(t.Context(), charges[0].Key).Val(); got != int64(want) {
			t.Errorf("after %v the log has %d bytes, want %d", hours[i], got, want)
		}
	}
}

func counterLimit(t *testing.T) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.SlidingWindowCounter, limiter.MaxUnits, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

func TestSpend_FailsAtItsDeadlineOnly(t *testing.T) {
	server := fixture.Redis(t)
	_, charges := newStore(t, server.URL())
	const timeout = 100 * time.Millisecond
	client, err := redisclient.Open(server.URL(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := redisstore.NewStore(client, timeout)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Spend(canceled, charges); err != nil {
		t.Errorf("a canceled context canceled the call: %v", err)
	}

	if err := rawClient(t, server.URL()).Do(t.Context(), "CLIENT", "PAUSE", "2000", "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = store.Spend(t.Context(), charges)
	if took := time.Since(began); err == nil || took < timeout/2 || took > 10*timeout {
		t.Errorf("Redis does not reply: error %v after %v, want an error after about %v", err, took, timeout)
	}
}

func TestSpend_ReplacesAValueThatIsNotAString(t *testing.T) {
	server := fixture.Redis(t)
	store, charges := newStore(t, server.URL())
	raw := rawClient(t, server.URL())
	if err := raw.HSet(t.Context(), charges[0].Key, "not", "a counter").Err(); err != nil {
		t.Fatal(err)
	}
	for spent := int64(1); spent <= 2; spent++ {
		decisions, err := store.Spend(t.Context(), charges)
		if err != nil || decisions[0].Remaining != decisions[0].Limit-spent {
			t.Errorf("spend %d: %+v, %v", spent, decisions, err)
		}
	}
	if ttl := raw.PTTL(t.Context(), charges[0].Key).Val(); ttl <= 0 {
		t.Errorf("the counter's time to live is %v", ttl)
	}
}

func BenchmarkSpend(b *testing.B) {
	server := fixture.Redis(b)
	store := redisstore.NewStore(open(b, server.URL()), longTimeout)
	for _, algorithm := range limiter.Algorithms() {
		limit, err := limiter.NewLimit(algorithm, limiter.MaxLogUnits, time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		charges := []limiter.Charge{{Key: limiter.NewKeySpace("weir:", "Tenant", "test/bench", limit).Key("acme", ""), Limit: limit, Cost: 1}}
		b.Run(string(algorithm), func(b *testing.B) {
			for b.Loop() {
				if _, err := store.Spend(b.Context(), charges); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Redis Enterprise, and other services that hide a cluster behind one address, report that they are no cluster and reject keys in several slots.
func TestStore_ConformsOnAServerThatHidesItsSlots(t *testing.T) {
	t.Parallel()
	node := fixture.RedisClusterNode(t) // without ?cluster=true
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		flush(t, node.URL())
		s := subject(t, node.URL(), clock)
		s.Spread = true
		return s
	})
}
