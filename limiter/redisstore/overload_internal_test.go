package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// slowBatcher returns a batcher in front of a Redis that takes a time for each batch, in a bubble of synctest, and a function that returns the modes of the
// calls of each batch, in the order in which the batches are sent.
func slowBatcher(takes time.Duration) (b *batcher, sent func() [][]string) {
	var batches [][]string
	b = &batcher{send: func(batch []*call) {
		var modes []string
		for _, c := range batch {
			modes = append(modes, c.mode)
		}
		b.mu.Lock()
		batches = append(batches, modes)
		b.mu.Unlock()
		time.Sleep(takes)
	}}
	return b, func() [][]string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Clone(batches)
	}
}

// outcome is what a caller gets.
type outcome struct {
	err  error
	took time.Duration
}

// start makes a call with that name and a timeout of 40 ms.
func start(b *batcher, name string) <-chan outcome {
	result := make(chan outcome, 1)
	began := time.Now()
	go func() {
		_, err := b.do(&call{mode: name, began: began, deadline: began.Add(40 * time.Millisecond)})
		result <- outcome{err, time.Since(began)}
	}()
	synctest.Wait()
	return result
}

// occupy makes calls until no further batch can be in flight.
func occupy(b *batcher) (results []<-chan outcome) {
	isFree := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.inFlight < b.trips.MaxInFlight()
	}
	for isFree() {
		results = append(results, start(b, "in flight"))
	}
	return results
}

// A caller whose call is not sent is free to ask elsewhere: nothing was counted.
func TestBatcher_DropsCallsThatRedisCannotDecideInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sent := slowBatcher(30 * time.Millisecond)
		inFlight := occupy(b) // until 30
		time.Sleep(5 * time.Millisecond)
		hopeless := start(b, "hopeless") // its deadline is 45: a batch that begins at 30 ends at 60
		time.Sleep(20 * time.Millisecond)
		late := start(b, "late") // its deadline is 65
		for i, result := range append(inFlight, late) {
			if got := <-result; got.err != nil {
				t.Errorf("call %d: %v", i, got.err)
			}
		}
		if got := <-hopeless; redisclient.Kind(got.err) != redisclient.KindPool || got.took != 25*time.Millisecond {
			t.Errorf("%v after %v, want an error of the kind pool after 25ms", got.err, got.took)
		}
		if got := sent(); len(got) != 3 || !slices.Equal(got[2], []string{"late"}) {
			t.Errorf("batches %q, want two, and then the late call", got)
		}
	})
}

// Redis takes 30 ms, and the timeout is 40 ms: a call that waits for a reply cannot be decided.
func TestBatcher_ReportsASlowRedisInsteadOfAnOverload(t *testing.T) {
	for name, test := range map[string]struct {
		late time.Duration // by which the process reads the replies too late
		want string        // the kind of the error, "" for an overload
	}{
		"in time":    {0, redisclient.KindPool},
		"not late":   {5 * time.Millisecond, redisclient.KindPool}, // it waits for 34 ms: a round trip and a tenth of the timeout
		"a bit late": {6 * time.Millisecond, ""},
		"late":       {15 * time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const trip = 30 * time.Millisecond
				takes := trip
				b := &batcher{send: func([]*call) { time.Sleep(takes) }}
				<-start(b, "measured")
				takes += test.late
				occupy(b)
				time.Sleep(time.Millisecond)
				got := <-start(b, "waiting")
				if errors.Is(got.err, limiter.ErrOverloaded) != (test.want == "") || test.want != "" && redisclient.Kind(got.err) != test.want {
					t.Errorf("%v after %v, want the kind %q", got.err, got.took, test.want)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// Oldest first would decide each call shortly before its deadline.
func TestBatcher_SendsTheNewestCallsFirstOnceCallsAreLate(t *testing.T) {
	for name, test := range map[string]struct {
		waited time.Duration // by the oldest call when a batch can be sent
		want   []string      // the first and the last call of that batch
	}{
		"in time": {10 * time.Millisecond, []string{"000", "063"}},
		"late":    {11 * time.Millisecond, []string{"006", "069"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, sent := slowBatcher(test.waited)
				results := occupy(b)
				for i := range 70 {
					results = append(results, start(b, fmt.Sprintf("%03d", i)))
				}
				for i, result := range results {
					if got := <-result; got.err != nil {
						t.Errorf("call %d: %v", i, got.err)
					}
				}
				batches := sent()
				if len(batches) != 4 || len(batches[2])+len(batches[3]) != 70 {
					t.Fatalf("batches %q, want one of 64 calls and one of 6 after the first two", batches)
				}
				// The two are taken in order, and sent at the same time by two goroutines.
				slices.SortFunc(batches[2:], func(a, b []string) int { return len(b) - len(a) })
				if len(batches[2]) != 64 {
					t.Fatalf("batches of %d and %d calls, want 64 and 6", len(batches[2]), len(batches[3]))
				}
				if got := []string{batches[2][0], batches[2][63]}; !slices.Equal(got, test.want) {
					t.Errorf("the batch after %v has calls from %s to %s, want %q", test.waited, got[0], got[1], test.want)
				}
			})
		})
	}
}

// A connection that has many calls in progress delays its own calls, whatever work each of them is.
func TestBatcher_CallsOfOtherConnectionsDoNotWaitForABacklog(t *testing.T) {
	for name, test := range map[string]struct {
		waited  time.Duration // by the oldest call when a batch can be sent
		charges int           // of each call of the backlog
	}{
		"in time":       {10 * time.Millisecond, 1},
		"late":          {20 * time.Millisecond, 1},
		"large, late":   {20 * time.Millisecond, maxWork},
		"large, almost": {10 * time.Millisecond, maxWork / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, sent := slowBatcher(test.waited)
				results := occupy(b)
				backlog := func(i int) {
					c := &call{
						mode: fmt.Sprintf("backlog %d", i), load: loadClass(int64(100 + i%20)), charges: make([]limiter.Charge, test.charges),
						began: time.Now(), deadline: time.Now().Add(40 * time.Millisecond),
					}
					go func() { _, _ = b.do(c) }() // they can be dropped
				}
				for i := range 150 {
					backlog(i)
				}
				synctest.Wait()
				before := len(sent())
				results = append(results, start(b, "of another"))
				for i := range 150 { // newer ones
					backlog(i)
				}
				for i, result := range results {
					if got := <-result; got.err != nil {
						t.Errorf("call %d: %v", i, got.err)
					}
				}
				if batches := sent(); !slices.Contains(batches[before], "of another") && !slices.Contains(batches[before+1], "of another") {
					t.Errorf("it is not in the next batches, one for each that was in flight: %q", batches[before:])
				}
				time.Sleep(10 * time.Second)
			})
		})
	}
}

func TestStore_KnowsWhatTheConnectionOfARequestHasInProgress(t *testing.T) {
	s := &Store{timeout: time.Second}
	share := new(overload.Shares).Share()
	share.Add(100)
	for name, test := range map[string]struct {
		ctx  context.Context //nolint:containedctx // an input
		want int
	}{
		"100 requests": {overload.WithShare(t.Context(), share), 7},
		"no request":   {t.Context(), 0},
	} {
		if got := s.origin(test.ctx).load; got != test.want {
			t.Errorf("%s: class %d, want %d", name, got, test.want)
		}
	}
	if got := loadClass(1 << 40); got != loadClasses-1 {
		t.Errorf("class %d of 2^40 requests, want the last", got)
	}
}

// While this process or Redis pauses, calls wait past their deadline of 40 ms. The next batch takes all of them, unless they are a backlog.
func TestBatcher_DecidesLateCallsAfterAPause(t *testing.T) {
	for name, test := range map[string]struct {
		trip    time.Duration // shortest round trip
		waiting int           // calls
		decided bool
	}{
		"one call":                          {time.Millisecond, 1, true},
		"one batch":                         {time.Millisecond, maxBatch, true},
		"a backlog":                         {time.Millisecond, maxBatch + 1, false},
		"half of the timeout is enough":     {20 * time.Millisecond, 1, true},
		"a round trip takes more than half": {21 * time.Millisecond, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takes, least := test.trip, time.Duration(0)
				b := &batcher{send: func(batch []*call) {
					least = time.Until(latestDeadline(batch))
					time.Sleep(takes)
				}}
				<-start(b, "measured")
				takes = 100 * time.Millisecond
				occupy(b)
				takes = test.trip
				var results []<-chan outcome
				for range test.waiting {
					results = append(results, start(b, "waiting"))
				}
				for i, result := range results {
					if got := <-result; (got.err == nil) != test.decided || got.err != nil && !errors.Is(got.err, limiter.ErrOverloaded) {
						t.Errorf("call %d: %v after %v, want it decided: %t", i, got.err, got.took, test.decided)
					}
				}
				if test.decided && least != 20*time.Millisecond {
					t.Errorf("Redis had %v for the batch, want half of the timeout", least)
				}
			})
		})
	}
}

// Only the batch knows whether Redis has answered: a call that was counted must not be decided again.
func TestBatcher_WaitsForTheReplyToACallThatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := slowBatcher(60 * time.Millisecond)
		alone := start(b, "sent alone")
		if got := <-alone; got.err != nil || got.took != 60*time.Millisecond {
			t.Errorf("%v after %v, want the reply after 60ms", got.err, got.took)
		}
	})
}

func TestBatcher_KeepsMoreBatchesInFlightToADistantRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sent := slowBatcher(3500 * time.Microsecond)
		<-start(b, "measured")
		var results []<-chan outcome
		for i := range 6 {
			results = append(results, start(b, strconv.Itoa(i)))
		}
		if got := len(sent()) - 1; got != 5 {
			t.Errorf("%d batches in flight to a Redis at 3.5 ms, want 5", got)
		}
		for _, result := range results {
			if got := <-result; got.err != nil {
				t.Error(got.err)
			}
		}
	})
}

// The batch in flight can be lost. Without another call, those that wait are not sent: a timer for each call would take processor time.
func TestBatcher_SendsAPartOfABatchWhenTheOldestCallHasWaitedForLong(t *testing.T) {
	for pause, isSent := range map[time.Duration]bool{longWait: false, longWait + time.Microsecond: true} {
		synctest.Test(t, func(t *testing.T) {
			b, sent := slowBatcher(20 * time.Millisecond)
			b.trips.Add(time.Now(), 100*time.Microsecond)
			results := occupy(b)
			for range 3 {
				results = append(results, start(b, "slow"))
			}
			<-results[0] // the three are sent
			synctest.Wait()
			results = append(results[1:], start(b, "first"))
			time.Sleep(pause)
			results = append(results, start(b, "second"))
			if got := len(sent()); (got == 4) != isSent {
				t.Errorf("after %v, %d batches are sent", pause, got)
			}
			for _, result := range results {
				if got := <-result; got.err != nil {
					t.Error(got.err)
				}
			}
			if got, want := sent()[2:], [][]string{{"slow", "slow", "slow"}, {"first", "second"}}; !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("after %v, batches %q, want %q", pause, got, want)
			}
		})
	}
}
