package denials_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
)

func noon() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

func limit(t testing.TB, algorithm limiter.Algorithm, units int64) limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(algorithm, units, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func charge(l limiter.Limit, cost int64) *limiter.Charge {
	return &limiter.Charge{Key: "acme", Limit: l, Cost: cost}
}

func denied(retryAfter time.Duration) limiter.Decision {
	return limiter.Decision{Limit: 10, RetryAfter: retryAfter, ResetAfter: time.Minute}
}

func TestFind_DeniesUntilTheEarliestInstantAndReturnsTheLatest(t *testing.T) {
	const us = time.Microsecond
	d := denials.New(10)
	one := charge(limit(t, limiter.SlidingWindowLog, 10), 1)
	began, answered := noon(), noon().Add(300*us)
	d.Remember(one, denied(2*time.Second), began, answered)
	tests := map[string]struct {
		at         time.Duration // since the store was called
		retryAfter time.Duration // 0: the store has to be called
	}{
		"when the answer arrives, nothing of the wait has passed": {300 * us, 2 * time.Second},
		"a second later a second has passed":                      {time.Second + 300*us, time.Second},
		"just before the earliest instant it is still denied":     {2*time.Second - us, 301 * us},
		"a part of a microsecond is rounded up":                   {2*time.Second - us + 1, 301 * us},
		"at the earliest instant the store is called":             {2 * time.Second, 0},
		"long after it the store is called, too":                  {time.Hour, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, known := d.Find(one, noon().Add(tt.at))
			if known != (tt.retryAfter != 0) || got.RetryAfter != tt.retryAfter {
				t.Fatalf("known %v, retry after %v, want %v", known, got.RetryAfter, tt.retryAfter)
			}
			want := limiter.Decision{
				At: limiter.Instant((tt.at - 300*us) / us), Origin: limiter.OriginDenial, Limit: 10,
				RetryAfter: tt.retryAfter, ResetAfter: 58*time.Second + tt.retryAfter,
			}
			if diff := cmp.Diff(want, got); known && diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFind_ForgetsADenialAfterLife(t *testing.T) {
	d := denials.New(10)
	one := charge(limit(t, limiter.SlidingWindowLog, 10), 1)
	d.Remember(one, denied(time.Hour), noon(), noon())
	if got, known := d.Find(one, noon().Add(denials.Life-1)); !known || got.RetryAfter != time.Hour-denials.Life+time.Microsecond {
		t.Errorf("just before the end of its life: retry after %v, known %v", got.RetryAfter, known)
	}
	if _, known := d.Find(one, noon().Add(denials.Life)); known {
		t.Error("the denial is still known at the end of its life")
	}
}

func TestRemember_CachesOnlyWhatNoOtherRequestCanChange(t *testing.T) {
	tests := map[string]struct {
		algorithm limiter.Algorithm
		cost      int64
		decision  limiter.Decision
		took      time.Duration
		want      bool
	}{
		"a log that denies one unit":                             {limiter.SlidingWindowLog, 1, denied(time.Second), 0, true},
		"a counter that denies one unit":                         {limiter.SlidingWindowCounter, 1, denied(time.Second), 0, true},
		"a token bucket that denies one unit":                    {limiter.TokenBucket, 1, denied(time.Second), 0, true},
		"a leaky bucket that denies one unit":                    {limiter.LeakyBucket, 1, denied(time.Second), 0, true},
		"a fixed window that denies one unit":                    {limiter.FixedWindow, 1, denied(time.Second), 0, true},
		"a fixed window with nothing left":                       {limiter.FixedWindow, 5, denied(time.Second), 0, true},
		"not a fixed window with units left":                     {limiter.FixedWindow, 5, limiter.Decision{Remaining: 4, RetryAfter: time.Second}, 0, false},
		"not a log that denies five units":                       {limiter.SlidingWindowLog, 5, denied(time.Second), 0, false},
		"not a bucket that denies five units":                    {limiter.TokenBucket, 5, denied(time.Second), 0, false},
		"not a cost above the limit":                             {limiter.FixedWindow, 11, denied(limiter.Never), 0, false},
		"not an allowed charge":                                  {limiter.FixedWindow, 1, limiter.Decision{Allowed: true}, 0, false},
		"not a wait that may have ended when the answer arrives": {limiter.FixedWindow, 1, denied(time.Second), time.Second, false},
		"a wait that ends a nanosecond after the answer":         {limiter.FixedWindow, 1, denied(time.Second), time.Second - 1, true},
		"not an answer that arrives after Life":                  {limiter.FixedWindow, 1, denied(time.Minute), denials.Life, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := denials.New(10)
			l := limit(t, tt.algorithm, 10)
			d.Remember(charge(l, tt.cost), tt.decision, noon(), noon().Add(tt.took))
			_, known := d.Find(charge(l, 1), noon())
			if known != tt.want || d.Len() != map[bool]int{true: 1}[tt.want] {
				t.Errorf("known %v with %d cached, want %v", known, d.Len(), tt.want)
			}
		})
	}
}

func TestFind_AppliesADenialOnlyToChargesThatWaitAsLong(t *testing.T) {
	tests := map[string]struct {
		algorithm limiter.Algorithm
		units     int64
		cost      int64
		want      bool
	}{
		"one unit of a fixed window":                             {limiter.FixedWindow, 10, 1, true},
		"all units of a fixed window":                            {limiter.FixedWindow, 10, 10, true},
		"not more units than the limit, which are never allowed": {limiter.FixedWindow, 10, 11, false},
		"not a cost of 0, which may be allowed":                  {limiter.FixedWindow, 10, 0, false},
		"one unit of a log":                                      {limiter.SlidingWindowLog, 10, 1, true},
		"not two units of a log, which wait longer":              {limiter.SlidingWindowLog, 10, 2, false},
		"not two units of a counter":                             {limiter.SlidingWindowCounter, 10, 2, false},
		"not two units of a bucket":                              {limiter.TokenBucket, 10, 2, false},
		"not another limit":                                      {limiter.FixedWindow, 11, 1, false},
		"not another limit of a log on the same key":             {limiter.SlidingWindowLog, 9, 1, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := denials.New(10)
			d.Remember(charge(limit(t, tt.algorithm, 10), 1), denied(time.Second), noon(), noon())
			if _, known := d.Find(charge(limit(t, tt.algorithm, tt.units), tt.cost), noon()); known != tt.want {
				t.Errorf("known %v, want %v", known, tt.want)
			}
		})
	}
}

func TestForget_DropsDenialsOfCallsThatBeganBefore(t *testing.T) {
	one := charge(limit(t, limiter.FixedWindow, 10), 1)
	at := func(seconds int) time.Time { return noon().Add(time.Duration(seconds) * time.Second) }
	tests := map[string]struct {
		began, forgotten, answered int // seconds
		key                        string
		want                       bool
	}{
		"a cached denial":                       {0, 2, 1, "acme", false},
		"a call in flight":                      {0, 1, 2, "acme", false},
		"a call that began at the same instant": {1, 1, 2, "acme", false},
		"not a call that begins later":          {2, 1, 3, "acme", true},
		"not the denial of another counter (unless both share one of 256 stripes)": {0, 2, 1, "", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := denials.New(10)
			key := tt.key
			if key == "" {
				key = "globex"
			}
			remember := func() { d.Remember(one, denied(9*time.Second), at(tt.began), at(tt.answered)) }
			if tt.answered < tt.forgotten {
				remember()
			}
			d.Forget(key, at(tt.forgotten))
			d.Forget(key, at(0)) // by a clock that was read earlier
			if tt.answered >= tt.forgotten {
				remember()
			}
			if _, known := d.Find(one, at(3)); known != tt.want {
				t.Errorf("known %v, want %v", known, tt.want)
			}
		})
	}
}

// Goroutines call Remember, Forget and Find. After a Forget has returned, no Find returns a denial of a call that began before it.
func TestForget_WinsAgainstConcurrentRemember(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := denials.New(100)
	l := limit(t, limiter.FixedWindow, 10)
	var ticks, found atomic.Int64
	now := func() time.Time { return noon().Add(time.Duration(ticks.Add(1)) * time.Nanosecond) }
	key := func(i int) string { return fmt.Sprint("tenant-", i%3) }
	var forgotten [3]atomic.Int64 // the latest Forget that has returned, in ns since the epoch
	find := func(i int) bool {
		least := forgotten[i%3].Load()
		got, known := d.Find(&limiter.Charge{Key: key(i), Limit: l, Cost: 1}, noon())
		if known && got.Limit <= least {
			t.Errorf("found a denial of a call that began at %d, after a Forget at %d", got.Limit, least)
			return false
		}
		if known {
			found.Add(1)
		}
		return true
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := range 20_000 {
				began := now()
				d.Remember(&limiter.Charge{Key: key(i), Limit: l, Cost: 1}, limiter.Decision{
					Limit: began.UnixNano(), RetryAfter: time.Second,
				}, began, now())
				if !find(i) { // on one CPU the goroutines may run one after another: this one finds what it has remembered
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 20_000 {
			at := now()
			d.Forget(key(i), at)
			forgotten[i%3].Store(at.UnixNano())
		}
	})
	for range 2 {
		wg.Go(func() {
			for i := range 20_000 {
				if !find(i) {
					return
				}
			}
		})
	}
	wg.Wait()
	if found.Load() == 0 {
		t.Error("no Find returned a denial: this test has proved nothing")
	}
}

func TestRemember_BoundsTheNumberOfDenials(t *testing.T) {
	const most = 1000
	d := denials.New(most)
	l := limit(t, limiter.FixedWindow, 10)
	for i := range 50 * most {
		d.Remember(&limiter.Charge{Key: fmt.Sprint("tenant-", i), Limit: l, Cost: 1}, denied(time.Second), noon(), noon())
		if n := d.Len(); n > most+most/10 {
			t.Fatalf("after %d denials %d are cached, want about %d at most", i+1, n, most)
		}
	}
	if n := d.Len(); n < most/2 {
		t.Errorf("%d are cached, want about %d", n, most)
	}
}

func BenchmarkFind(b *testing.B) {
	d := denials.New(100_000)
	l := limit(b, limiter.SlidingWindowCounter, 100)
	charges := make([]limiter.Charge, 1000)
	now := time.Now()
	for i := range charges {
		charges[i] = limiter.Charge{Key: fmt.Sprintf("weir:throttle:tenant:{tenant-%d}:shop/tenant-daily:k3f9q2wz", i), Limit: l, Cost: 1}
		d.Remember(&charges[i], denied(time.Hour), now, now)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if _, known := d.Find(&charges[n%len(charges)], now); !known {
			b.Fatal("the denial is not known")
		}
	}
}
