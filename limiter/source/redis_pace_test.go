package source

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// timed is a ruleSets that records when Current is called.
type timed struct {
	stub
	mu   sync.Mutex
	at   []time.Time
	wake chan string
}

func (s *timed) Current(ctx context.Context) (string, error) {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	s.mu.Unlock()
	return s.stub.Current(ctx)
}

func (s *timed) Subscribe(context.Context) <-chan string { return s.wake }

// waits returns the times between the fetches since the last call.
func (s *timed) waits() (waits []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.at); i++ {
		waits = append(waits, s.at[i].Sub(s.at[i-1]))
	}
	s.at = s.at[max(0, len(s.at)-1):]
	return waits
}

// wantWaits checks waits that may differ from want by a fifth.
func wantWaits(t *testing.T, when string, waits, want []time.Duration) {
	t.Helper()
	if len(waits) < len(want) {
		t.Fatalf("%s: waits of %v, want %v", when, waits, want)
	}
	for i := range want {
		if waits[i] < want[i]*4/5 || waits[i] > want[i]*6/5 {
			t.Errorf("%s: waits of %v, want %v with a fifth more or less", when, waits[:len(want)], want)
			return
		}
	}
}

func TestRedis_PollsEveryTwoSecondsAndBacksOffAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data, revision := setOf(1)
		s := &timed{wake: make(chan string)}
		s.fail(errors.New("refused"))
		var got applied
		running(t, NewRedis(s, "", got.applyShards, slog.New(slog.DiscardHandler)).Run)
		backoff := []time.Duration{
			100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
			3200 * time.Millisecond, 5 * time.Second, 5 * time.Second,
		}
		time.Sleep(30 * time.Second)
		wantWaits(t, "without Redis", s.waits(), backoff)
		s.set(revision, data)
		time.Sleep(20 * time.Second)
		wantWaits(t, "with Redis", s.waits()[1:], []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second})
		s.fail(errors.New("refused"))
		time.Sleep(40 * time.Second)
		wantWaits(t, "in the next outage", s.waits(), append([]time.Duration{2 * time.Second}, backoff...))
	})
}

// Replicas that started together do not fetch together.
func TestRedis_PollsAtIrregularTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data, revision := setOf(1)
		s := &timed{wake: make(chan string)}
		s.set(revision, data)
		var got applied
		running(t, NewRedis(s, "", got.applyShards, slog.New(slog.DiscardHandler)).Run)
		time.Sleep(time.Hour)
		waits := s.waits()
		if len(waits) < 1000 {
			t.Fatalf("%d waits in an hour", len(waits))
		}
		short, long := waits[0], waits[0]
		for _, wait := range waits {
			short, long = min(short, wait), max(long, wait)
		}
		if short < 1600*time.Millisecond || short > 1700*time.Millisecond || long > 2400*time.Millisecond || long < 2300*time.Millisecond {
			t.Errorf("waits of %v to %v, want some of about 1.6 s and some of about 2.4 s", short, long)
		}
	})
}

func TestRedis_FetchesAfterEachPublicationAndEndsWithTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &timed{wake: make(chan string)}
		var got applied
		r := NewRedis(s, "", got.applyShards, slog.New(slog.DiscardHandler))
		ended := make(chan struct{})
		go func() { r.Run(t.Context()); close(ended) }()
		synctest.Wait()
		data, revision := setOf(1)
		s.set(revision, data)
		s.wake <- revision
		synctest.Wait()
		if got.last() != revision {
			t.Error("the publication is not active before the next poll")
		}
		close(s.wake)
		<-ended
	})
}
