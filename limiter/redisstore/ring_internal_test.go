package redisstore

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore/lua"
	"github.com/weir-dev/weir/test/fixture"
)

// logPair is a log in Redis and its model in memory.
type logPair struct {
	t      *testing.T
	store  *Store
	model  limiter.Store
	client *redisclient.Client
	now    time.Time
}

func newLogPair(t *testing.T) *logPair {
	t.Helper()
	p := &logPair{t: t, client: openURL(t, fixture.Redis(t).URL()), now: time.Now().Add(time.Hour)} // ahead, so that Redis expires no key
	clock := func() time.Time { return p.now }
	p.store, p.model = NewStore(p.client, patience, WithClock(clock)), memstore.New(clock)
	return p
}

func logLimit(t *testing.T, units int64, window time.Duration) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, units, window)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// spend fails the test if the two decide differently.
func (p *logPair) spend(limit limiter.Limit, cost int64) limiter.Decision {
	p.t.Helper()
	charges := []limiter.Charge{{Key: "log", Limit: limit, Cost: cost}}
	got, err := p.store.Spend(p.t.Context(), charges)
	want, modelErr := p.model.Spend(p.t.Context(), charges)
	if err != nil || modelErr != nil || got[0] != want[0] {
		p.t.Fatalf("spend of %d under %v: %+v, want %+v; %v, %v", cost, limit, got, want, err, modelErr)
	}
	return got[0]
}

func (p *logPair) refund(limit limiter.Limit, cost int64, at limiter.Instant) {
	p.t.Helper()
	refunds := []limiter.Refund{{Key: "log", Limit: limit, Cost: cost, At: at}}
	if err := p.store.Refund(p.t.Context(), refunds); err != nil {
		p.t.Fatal(err)
	}
	if err := p.model.Refund(p.t.Context(), refunds); err != nil {
		p.t.Fatal(err)
	}
}

// The tiers of a policy share a log, and an edit changes its limit: the ring has no size of its own.
func TestSpend_DecidesALogUnderChangingLimits(t *testing.T) {
	for seed := range uint64(16) {
		random := rand.New(rand.NewPCG(1, seed))
		stepsBack := 20
		hasPieces := seed%2 == 1 // a log that is ahead starts over at the first denial, so it grows only if the clock seldom steps back
		if hasPieces {
			stepsBack = 500
		}
		p := newLogPair(t)
		var limits []limiter.Limit
		for _, units := range []int64{3, 200, 257, 300, 420, 700, limiter.MaxLogUnits} {
			limits = append(limits, logLimit(t, units, 10*time.Second))
		}
		longest, mostPieces := int64(0), byte(0)
		var spent []limiter.Instant
		pace := 10 // ms
		limit := limits[2]
		for i := range 4000 {
			if i%100 == 0 {
				limit, pace = limits[random.IntN(len(limits))], []int{1, 10, 100, 2000}[random.IntN(4)]
			}
			p.now = p.now.Add(time.Duration(random.IntN(pace*1000)) * time.Microsecond)
			cost := random.Int64N(4)
			if random.IntN(50) == 0 {
				cost = random.Int64N(300_000)
			}
			used := limit
			if random.IntN(4) == 0 {
				used = limits[random.IntN(len(limits))]
			}
			spent = append(spent, p.spend(used, cost).At)
			if random.IntN(3) == 0 {
				p.refund(used, random.Int64N(5), spent[max(0, len(spent)-1-random.IntN(200))])
			}
			if random.IntN(stepsBack) == 0 {
				p.now = p.now.Add(-time.Duration(random.IntN(1000)) * time.Millisecond)
			}
			header := p.client.Redis().GetRange(t.Context(), "log", 0, 0).Val()
			if header != "" {
				mostPieces = max(mostPieces, header[0])
			}
			longest = max(longest, p.client.Redis().StrLen(t.Context(), "log").Val())
		}
		if longest > 36+8*4000 {
			t.Errorf("seed %d: the value grew to %d bytes", seed, longest)
		}
		if hasPieces && mostPieces < 'T' {
			t.Errorf("seed %d: the ring had at most %c pieces", seed, mostPieces)
		}
	}
}

// A ring that is full and continues in its first slot has no room if the limit rises.
func TestSpend_ARingContinuesBehindItselfWhenTheLimitRises(t *testing.T) {
	p := newLogPair(t)
	small, large := logLimit(t, 300, 10*time.Second), logLimit(t, 900, 10*time.Second)
	each := func(n int, limit limiter.Limit, pause time.Duration) {
		for range n {
			p.now = p.now.Add(pause)
			p.spend(limit, 1)
		}
	}
	each(300, small, 20*time.Millisecond)
	p.now = p.now.Add(6 * time.Second) // the first 100 expire
	for i, step := range []struct {
		spends int
		limit  limiter.Limit
		pause  time.Duration
		want   string
	}{
		{90, small, time.Millisecond, "T"},
		{500, large, time.Millisecond, "U"},
		{1, large, 5 * time.Second, "T"}, // the entries of the first piece have expired
		{1, large, 4800 * time.Millisecond, "S"},
		{1000, small, 40 * time.Millisecond, "T"},
	} {
		each(step.spends, step.limit, step.pause)
		if got := p.client.Redis().GetRange(t.Context(), "log", 0, 0).Val(); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if got, most := p.client.Redis().StrLen(t.Context(), "log").Val(), int64(36+8*900); got > most {
		t.Errorf("the value has %d bytes, want at most %d", got, most)
	}
}

// Sums and times are stored modulo a power of two.
func TestSpend_ARingLastsForYears(t *testing.T) {
	p := newLogPair(t)
	limit := logLimit(t, limiter.MaxLogUnits, limiter.MaxWindow)
	for range 400 {
		p.now = p.now.Add(5*24*time.Hour + time.Microsecond)
		p.spend(limit, 150_001)
	}
}

// A refund finds its run among few newer ones, and moves these. Among many, the oldest units are refunded: as many remain, but some longer.
func TestRefund_OfALargeLogTakesBoundedWork(t *testing.T) {
	for _, test := range []struct {
		newer   int
		isExact bool
	}{{lua.MaxWholeLog, true}, {lua.MaxWholeLog + 1, false}, {5000, false}} {
		t.Run(strconv.Itoa(test.newer), func(t *testing.T) {
			p := newLogPair(t)
			limit := logLimit(t, limiter.MaxLogUnits, time.Minute)
			var first limiter.Instant
			for i := range 10 {
				p.now = p.now.Add(time.Second)
				if at := p.spend(limit, 7).At; i == 5 {
					first = at
				}
			}
			for range test.newer - 4 {
				p.now = p.now.Add(time.Millisecond)
				p.spend(limit, 1)
			}
			p.refund(limit, 5, first)
			peek := []limiter.Charge{{Key: "log", Limit: limit}}
			isExact := true
			for range 80 {
				got, err := p.store.Peek(t.Context(), peek)
				want, modelErr := p.model.Peek(t.Context(), peek)
				if err != nil || modelErr != nil {
					t.Fatal(err, modelErr)
				}
				isExact = isExact && slices.Equal(got, want)
				if got[0].Remaining > want[0].Remaining || got[0].Remaining < want[0].Remaining-5 {
					t.Fatalf("%d units remain, want up to 5 fewer than %d", got[0].Remaining, want[0].Remaining)
				}
				p.now = p.now.Add(time.Second)
			}
			if isExact != test.isExact {
				t.Errorf("exact: %t, want %t", isExact, test.isExact)
			}
		})
	}
}
