package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore/lua"
	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds the wait for something that takes milliseconds on an idle machine.
const patience = 20 * time.Second

// sharedCounters are the counters of the calls of a batch, in Redis and in memory.
type sharedCounters struct {
	store  *Store
	now    limiter.Instant
	keys   []string
	states []limiter.State
	limits [][]limiter.Limit // of each counter: calls use different limits for one counter while a policy changes
}

func TestSend_DecidesABatchLikeItsCallsInSequence(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	batches := 0
	rapid.Check(t, func(rt *rapid.T) {
		batches++
		c := newSharedCounters(rt, client, batches)
		for range rapid.IntRange(1, 3).Draw(rt, "batches") {
			c.batch(rt)
			c.now = c.now.Add(time.Duration(rapid.Int64Range(-500_000, 2_000_000).Draw(rt, "pause")) * time.Microsecond)
		}
	})
}

func openURL(t *testing.T, url string) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(url, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newSharedCounters(rt *rapid.T, client *redisclient.Client, number int) *sharedCounters {
	// The clock is ahead of the time of Redis, so that Redis does not expire the counters.
	c := &sharedCounters{now: limiter.At(time.Now().Add(24 * time.Hour))}
	c.store = NewStore(client, patience, WithClock(func() time.Time { return c.now.Time() }))
	algorithms := limiter.Algorithms()
	for i := range rapid.IntRange(1, 4).Draw(rt, "counters") {
		algorithm := rapid.SampledFrom(algorithms).Draw(rt, "algorithm")
		var limits []limiter.Limit
		for range rapid.IntRange(1, 2).Draw(rt, "limits") {
			units := rapid.OneOf(rapid.Int64Range(1, 9), rapid.Int64Range(lua.MaxWholeLog-3, lua.MaxWholeLog+3)).Draw(rt, "units")
			limit, err := limiter.NewLimit(algorithm, units, time.Second)
			if err != nil {
				rt.Fatal(err)
			}
			limits = append(limits, limit)
		}
		scope := fmt.Sprintf("batch/%d-%d", number, i)
		c.keys = append(c.keys, limiter.NewKeySpace("weir:", "Tenant", scope, limits[0]).Key("acme", ""))
		c.states = append(c.states, limits[0].NewState())
		c.limits = append(c.limits, limits)
	}
	return c
}

// batch sends calls in one batch. Each must be decided as if it were sent alone, in their order.
func (c *sharedCounters) batch(rt *rapid.T) {
	var calls []*call
	for range rapid.IntRange(2, maxBatch).Draw(rt, "calls") {
		calls = append(calls, c.call(rt))
	}
	c.store.send(calls)
	for i, call := range calls {
		if call.reply.err != nil {
			rt.Fatal(call.reply.err)
		}
		if diff := cmp.Diff(c.decide(call), call.reply.decisions); diff != "" {
			rt.Fatalf("call %d, %s %+v (-memory +batch):\n%s", i, call.mode, call.charges, diff)
		}
	}
}

func (c *sharedCounters) call(rt *rapid.T) *call {
	made := &call{mode: "spend", deadline: time.Now().Add(patience)}
	if rapid.IntRange(0, 4).Draw(rt, "peek") == 4 {
		made.mode = "peek"
	}
	for i, key := range c.keys {
		if i != len(c.keys)-1 && rapid.Bool().Draw(rt, "leave out") {
			continue
		}
		made.charges = append(made.charges, limiter.Charge{
			Key: key, Limit: rapid.SampledFrom(c.limits[i]).Draw(rt, "limit"), Cost: rapid.Int64Range(0, 4).Draw(rt, "cost"),
			Shadow: rapid.IntRange(0, 3).Draw(rt, "shadow") == 3,
			Debt:   c.limits[i][0].Algorithm().HasCompact() && rapid.IntRange(0, 3).Draw(rt, "debt") == 3,
		})
	}
	return made
}

// decide decides a call in memory.
func (c *sharedCounters) decide(made *call) []limiter.Decision {
	var states []limiter.State
	for _, charge := range made.charges {
		for i, key := range c.keys {
			if key == charge.Key {
				states = append(states, c.states[i])
			}
		}
	}
	if made.mode == "peek" {
		return limiter.Peek(c.now, made.charges, states)
	}
	return limiter.Spend(c.now, made.charges, states)
}

// One batch of the largest size, in which every call has seventeen charges. The scripts read a thousand keys at a time.
func TestSend_ReadsTheCounterOfEveryOfAThousandKeys(t *testing.T) {
	const chargesPerCall = 17
	now := time.Now()
	store := NewStore(openURL(t, fixture.Redis(t).URL()), patience, WithClock(func() time.Time { return now }))
	limit, err := limiter.NewLimit(limiter.FixedWindow, limiter.MaxUnits, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	calls := func(cost func(number int) int64) []*call {
		var all []*call
		for i := range maxBatch {
			made := &call{mode: modeSpend, deadline: time.Now().Add(patience)}
			for j := range chargesPerCall {
				number := i*chargesPerCall + j
				key := fmt.Sprintf("weir:{many}:%d", number)
				made.charges = append(made.charges, limiter.Charge{Key: key, Limit: limit, Cost: cost(number)})
			}
			all = append(all, made)
		}
		return all
	}
	// Every counter has another count, so a value of another key changes a decision.
	store.send(calls(func(number int) int64 { return int64(number + 1) }))
	again := calls(func(int) int64 { return 5 })
	store.send(again)
	for i, made := range again {
		if made.reply.err != nil {
			t.Fatal(made.reply.err)
		}
		for j, d := range made.reply.decisions {
			if want := limiter.MaxUnits - int64(i*chargesPerCall+j+1) - 5; !d.Allowed || d.Remaining != want {
				t.Fatalf("key %d: %+v, want %d remaining", i*chargesPerCall+j, d, want)
			}
		}
	}
	var refunds []limiter.Refund
	for _, made := range again {
		for j, c := range made.charges {
			refunds = append(refunds, limiter.Refund{Key: c.Key, Limit: c.Limit, Cost: 3, At: made.reply.decisions[j].At})
		}
	}
	if err := store.refundInSlot(t.Context(), refunds); err != nil {
		t.Fatal(err)
	}
	for i, r := range refunds {
		d, err := store.Peek(t.Context(), []limiter.Charge{{Key: r.Key, Limit: r.Limit}})
		if want := limiter.MaxUnits - int64(i+1) - 2; err != nil || d[0].Remaining != want {
			t.Fatalf("key %d after the refund: %+v, %v, want %d remaining", i, d, err, want)
		}
	}
}

func TestSpend_DecidesSixteenPoliciesInOneRoundTrip(t *testing.T) {
	server := fixture.Redis(t)
	store := NewStore(openURL(t, server.URL()), patience)
	var charges []limiter.Charge
	for i := range 16 {
		algorithm := []limiter.Algorithm{
			limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket,
		}[i%4]
		limit, err := limiter.NewLimit(algorithm, int64(2+i), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		key := limiter.NewKeySpace("weir:", "Tenant", fmt.Sprintf("test/sixteen-%d", i), limit).Key("acme", "")
		charges = append(charges, limiter.Charge{Key: key, Limit: limit, Cost: 1})
	}
	for spent := int64(1); spent <= 3; spent++ {
		decisions, err := store.Spend(t.Context(), charges)
		if err != nil {
			t.Fatal(err)
		}
		counted := min(spent, 2) // the first policy denies the third spend
		for i, d := range decisions {
			if want := charges[i].Limit.Units() - counted; d.Remaining != want || d.Allowed != (spent <= 2 || i > 0) {
				t.Errorf("spend %d, policy %d: allowed %t with %d remaining, want %d", spent, i, d.Allowed, d.Remaining, want)
			}
		}
	}
	client := openURL(t, server.URL())
	stats, err := client.Redis().InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var calls, evals, reads int
	_, _ = fmt.Sscanf(stats["Commandstats"]["cmdstat_evalsha"], "calls=%d", &calls)
	_, _ = fmt.Sscanf(stats["Commandstats"]["cmdstat_eval"], "calls=%d", &evals)
	_, _ = fmt.Sscanf(stats["Commandstats"]["cmdstat_getrange"], "calls=%d", &reads)
	if calls != 3 || evals != 1 {
		t.Errorf("3 spends took %d EVALSHA and %d EVAL, want 3 and 1 (to load the script)", calls, evals)
	}
	if reads != 3*len(charges) { // a log can be a ring of megabytes, which MGET would read
		t.Errorf("3 spends read %d counters with %d GETRANGE, want one each", 3*len(charges), reads)
	}
}

// The script remembers what it writes only if the client reports that a later call of the batch reads it.
func TestArguments_ReportCallsWithACommonCounter(t *testing.T) {
	limit, err := limiter.NewLimit(limiter.FixedWindow, 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	charging := func(keys ...string) *call {
		c := &call{mode: modeSpend}
		for _, key := range keys {
			c.charges = append(c.charges, limiter.Charge{Key: key, Limit: limit, Cost: 1})
		}
		return c
	}
	store := NewStore(openURL(t, "redis://127.0.0.1:1"), patience)
	for _, test := range []struct {
		calls []*call
		want  string
	}{
		{[]*call{charging("a", "b")}, ""},
		{[]*call{charging("a"), charging("b")}, ""},
		{[]*call{charging("a"), charging("c")}, ""}, // has a key in common with the last batch
		{[]*call{charging("a", "b"), charging("c", "b")}, "repeated"},
		{[]*call{charging("a"), charging("b"), charging("a")}, "repeated"},
	} {
		if _, keys, args := store.batchRequest(test.calls); args[2] != test.want {
			t.Errorf("a batch with the keys %q has the argument %q, want %q", keys, args[2], test.want)
		}
	}
}
