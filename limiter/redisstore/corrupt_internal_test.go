package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// packed is a number as the scripts store it.
func packed(numbers ...int64) string {
	var b strings.Builder
	for _, n := range numbers {
		for shift := 48; shift >= 0; shift -= 8 {
			b.WriteByte(byte(n >> shift))
		}
	}
	return b.String()
}

// corruptLimits has each algorithm, and a log of each layout.
func corruptLimits(t testing.TB) []limiter.Limit {
	t.Helper()
	var limits []limiter.Limit
	for _, of := range []struct {
		algorithm limiter.Algorithm
		units     int64
	}{
		{limiter.FixedWindow, 10},
		{limiter.SlidingWindowCounter, 10},
		{limiter.SlidingWindowLog, 10},
		{limiter.SlidingWindowLog, 1000},
		{limiter.TokenBucket, 10},
		{limiter.LeakyBucket, 1},
	} {
		limit, err := limiter.NewLimit(of.algorithm, of.units, limiter.MaxWindow)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, limit)
	}
	return limits
}

// corruptValues are values that no script writes for limit, or only with a wrong clock.
func corruptValues(limit limiter.Limit) map[string]string {
	const never = 1<<56 - 1
	now := time.Now().UnixMicro()
	switch limit.Algorithm() {
	case limiter.FixedWindow, limiter.SlidingWindowCounter:
		return map[string]string{
			"text": "corrupt", "empty": "", "negative": "-5", "fraction": "0.5", "too large": "1e300", "infinite": "inf", "no number": "nan",
			"cut": packed(1, 2), "window in the far future": packed(never, 1, 1), "too many units": packed(now/limiter.MaxWindow.Microseconds(), never, never),
		}
	case limiter.SlidingWindowLog:
		values := map[string]string{
			"text": "corrupt", "cut list": "L" + packed(now)[:5], "empty list": "L", "list of the far future": "L" + packed(never),
			"cut ring": "S" + packed(now)[:2], "ring of the far future": ring1(never, 1, 0, 1) + entry(now, 0),
			"ring without entries": ring1(now, 1, 0, 0), "ring with more entries than units": ring1(now, 1, 0, 2) + entry(now-1, 0) + entry(now, 0),
			"ring that lacks slots": ring1(now, 900, 0, 900) + entry(now, 1), "ring with a slot outside": ring1(now, 1, 1<<22, 1) + entry(now, 0),
			"ring of an older version": "R" + packed(1000, 1, 1, now) + packed(now),
		}
		return values
	default:
		return map[string]string{
			"text": "corrupt", "empty": "", "cut": packed(now, 1, 0), "far future": packed(never, 1, 0, never),
			"too large part": packed(now, 0, never, never), "trailing bytes": packed(now, 1, 0, now+60_000_000) + "x",
		}
	}
}

func limitName(l limiter.Limit) string { return fmt.Sprintf("%s-%d", l.Algorithm(), l.Units()) }

// A batch has calls of unrelated clients: one corrupt value must not fail them.
func TestSend_ACorruptCounterStartsOverAlone(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	ctx := t.Context()
	for _, limit := range corruptLimits(t) {
		for name, value := range corruptValues(limit) {
			t.Run(limitName(limit)+"/"+name, func(t *testing.T) {
				var reported []string
				store := NewStore(client, patience, WithCorruptCounters(func(keys []string) { reported = append(reported, keys...) }),
					WithCountersAhead(func(keys []string) { reported = append(reported, keys...) }))
				keys := []string{"healthy-1", "corrupt", "healthy-2"}
				if err := client.Redis().FlushDB(ctx).Err(); err != nil {
					t.Fatal(err)
				}
				for _, round := range []string{"the corrupt value", "the value that replaced it"} {
					if round == "the corrupt value" {
						client.Redis().Set(ctx, "corrupt", value, time.Minute)
					}
					var calls []*call
					for _, key := range keys {
						calls = append(calls, &call{
							mode: modeSpend, deadline: time.Now().Add(patience), charges: []limiter.Charge{{Key: key, Limit: limit, Cost: 1}},
						})
					}
					store.send(calls)
					for i, c := range calls {
						if c.reply.err != nil {
							t.Fatalf("%s: call for %s: %v", round, keys[i], c.reply.err)
						}
					}
					if got, want := calls[1].reply.decisions[0].Remaining, calls[0].reply.decisions[0].Remaining; got != want {
						t.Errorf("%s: %d units remain, want %d as of the other counters", round, got, want)
					}
				}
				if want := []string{"corrupt"}; !slices.Equal(reported, want) && value != "" {
					t.Errorf("reported %q, want %q", reported, want)
				}
			})
		}
	}
}

func TestSpend_ACorruptCounterStartsOver(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	ctx := t.Context()
	for _, limit := range corruptLimits(t) {
		for name, value := range corruptValues(limit) {
			t.Run(limitName(limit)+"/"+name, func(t *testing.T) {
				var reported []string
				store := NewStore(client, patience, WithCorruptCounters(func(keys []string) { reported = append(reported, keys...) }),
					WithCountersAhead(func(keys []string) { reported = append(reported, keys...) }))
				client.Redis().Set(ctx, "one", value, time.Minute)
				charges := []limiter.Charge{{Key: "one", Limit: limit, Cost: 1}}
				refund := []limiter.Refund{{Key: "one", Limit: limit, Cost: 1, At: limiter.At(time.Now())}}
				if err := store.Refund(ctx, refund); err != nil {
					t.Errorf("refund: %v", err)
				}
				for round, want := range []int64{limit.Capacity() - 1, max(0, limit.Capacity()-2)} {
					decisions, err := store.Spend(ctx, charges)
					if err != nil || decisions[0].Remaining != want {
						t.Fatalf("spend %d: %+v, %v; want %d units to remain", round, decisions, err, want)
					}
				}
				if ttl := client.Redis().PTTL(ctx, "one").Val(); ttl <= 0 || ttl > 2*limiter.MaxWindow+time.Second {
					t.Errorf("time to live %v, want that of a counter", ttl)
				}
				want := []string{"one", "one"} // the refund, the first spend
				if strings.Contains(name, "far future") {
					want = want[1:] // there is nothing to refund
				}
				if !slices.Equal(reported, want) && value != "" {
					t.Errorf("reported %q, want %q", reported, want)
				}
			})
		}
	}
}

// A key of another type is replaced, too.
func TestSpend_AKeyOfAnotherTypeStartsOver(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	store := NewStore(client, patience)
	for _, limit := range corruptLimits(t) {
		key := limitName(limit)
		client.Redis().RPush(t.Context(), key, "a", "b")
		if err := store.Refund(t.Context(), []limiter.Refund{{Key: key, Limit: limit, Cost: 1, At: limiter.At(time.Now())}}); err != nil {
			t.Errorf("%s: refund: %v", key, err)
		}
		decisions, err := store.Spend(t.Context(), []limiter.Charge{{Key: key, Limit: limit, Cost: 1}})
		if err != nil || decisions[0].Remaining != limit.Capacity()-1 {
			t.Errorf("%s: %+v, %v", key, decisions, err)
		}
	}
}

// FuzzStoredValues stores any bytes: no script fails, and every decision is possible under the limit.
func FuzzStoredValues(f *testing.F) {
	limits := corruptLimits(f)
	for i, limit := range limits {
		for _, value := range corruptValues(limit) {
			f.Add(uint8(i), []byte(value), uint16(1))
		}
	}
	client, err := redisclient.Open(fixture.Redis(f).URL(), patience)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = client.Close() })
	f.Fuzz(func(t *testing.T, which uint8, value []byte, cost uint16) {
		limit := limits[int(which)%len(limits)]
		store := NewStore(client, patience)
		for _, decide := range []func(context.Context, ...string) ([]limiter.Decision, error){
			func(ctx context.Context, keys ...string) ([]limiter.Decision, error) { // the script for one charge
				return store.Spend(ctx, chargesOn(limit, int64(cost), keys[:1]...))
			},
			func(ctx context.Context, keys ...string) ([]limiter.Decision, error) { // the script for several
				return store.Spend(ctx, chargesOn(limit, int64(cost), keys...))
			},
		} {
			setOrDelete(t, client.Redis(), "fuzz", value)
			client.Redis().Del(t.Context(), "other")
			for range 2 {
				decisions, err := decide(t.Context(), "fuzz", "other")
				if err != nil {
					t.Fatalf("%s, value %q: %v", limitName(limit), value, err)
				}
				for _, d := range decisions {
					checkPossible(t, limit, int64(cost), d)
				}
			}
			setOrDelete(t, client.Redis(), "fuzz", value)
			at := limiter.At(time.Now())
			for _, refunds := range [][]limiter.Refund{
				{{Key: "fuzz", Limit: limit, Cost: int64(cost), At: at}},
				{{Key: "fuzz", Limit: limit, Cost: int64(cost), At: at}, {Key: "other", Limit: limit, Cost: int64(cost), At: at}},
			} {
				if err := store.refundInSlot(t.Context(), refunds); err != nil {
					t.Fatalf("%s, refund on value %q: %v", limitName(limit), value, err)
				}
			}
		}
	})
}

func chargesOn(limit limiter.Limit, cost int64, keys ...string) []limiter.Charge {
	charges := make([]limiter.Charge, len(keys))
	for i, key := range keys {
		charges[i] = limiter.Charge{Key: key, Limit: limit, Cost: cost}
	}
	return charges
}

func setOrDelete(t *testing.T, rdb redis.UniversalClient, key string, value []byte) {
	t.Helper()
	if err := rdb.Set(t.Context(), key, value, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
}

// checkPossible fails if no counter under limit causes the decision.
func checkPossible(t *testing.T, limit limiter.Limit, cost int64, d limiter.Decision) {
	t.Helper()
	const longest = (1 + 10) * 366 * 24 * time.Hour // a clock that is a year ahead, and the longest drain
	switch {
	case d.Remaining < 0 || d.Remaining > limit.Capacity():
		t.Fatalf("%s: %+v: impossible remaining units", limitName(limit), d)
	case d.ResetAfter < 0 || d.ResetAfter > longest || d.Delay < 0 || d.Delay > longest:
		t.Fatalf("%s: %+v: impossible duration", limitName(limit), d)
	case d.Allowed && (d.RetryAfter != 0 || cost > limit.Capacity()):
		t.Fatalf("%s: %+v: allowed, for a cost of %d", limitName(limit), d, cost)
	case !d.Allowed && d.RetryAfter != limiter.Never && (d.RetryAfter <= 0 || d.RetryAfter > longest):
		t.Fatalf("%s: %+v: impossible wait", limitName(limit), d)
	case d.RetryAfter == limiter.Never && cost <= limit.Capacity():
		t.Fatalf("%s: %+v: a cost of %d is possible", limitName(limit), d, cost)
	}
}
