package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// states records the states of a breaker.
type states struct {
	mu   sync.Mutex
	list []redisstore.BreakerState
}

func (*states) Sent(redisstore.Batch) {}

func (s *states) BreakerChanged(to redisstore.BreakerState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, to)
}

func (s *states) all() []redisstore.BreakerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func TestMeter_ReceivesEachChangeOfABreaker(t *testing.T) {
	server, outages, changes := fixture.Redis(t), newOutageRecorder(), &states{}
	outages.recovering = func(context.Context, time.Duration) error { return errors.New("a report failed") }
	store := storeWithBreaker(t, server.URL(), outages, redisstore.WithMeter(changes))
	charges := unitsOf(t, "shop/a", "acme", 1000)
	awaitSpend(t, store, charges)
	if got := changes.all(); len(got) != 0 {
		t.Errorf("before the outage: %v", got)
	}
	server.Kill()
	if _, err := store.Spend(t.Context(), charges); err == nil {
		t.Fatal("no error from the first call after the fault")
	}
	receive(t, outages.unavailable)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, outages.recovered)
	want := []redisstore.BreakerState{"open", "recovering", "closed"}
	if got := changes.all(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v: failed probes and reports change nothing", got, want)
	}
}
