package redisstore

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// meterRecorder records what a Meter receives.
type meterRecorder struct {
	mu     sync.Mutex
	calls  []int
	waited []time.Duration
}

func (m *meterRecorder) Sent(b Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, b.Calls())
	for i := range b.Calls() {
		m.waited = append(m.waited, b.Waited(i))
	}
}

func (*meterRecorder) BreakerChanged(BreakerState) {}

func TestMeter_ReceivesTheSizeOfEachBatch(t *testing.T) {
	g, m := newGate(), &meterRecorder{}
	b := &batcher{send: g.send, meter: m}
	var waits []func() []error
	for range 2 {
		waits = append(waits, callConcurrently(b, 1))
		<-g.arrived
	}
	waits = append(waits, callConcurrently(b, 5))
	awaitWaiting(t, b, 5)
	g.open <- struct{}{}
	<-g.arrived
	close(g.open)
	for _, wait := range waits {
		if err := errors.Join(wait()...); err != nil {
			t.Fatal(err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.calls)
	if want := []int{1, 1, 5}; !slices.Equal(m.calls, want) {
		t.Errorf("batches of %v calls, want %v", m.calls, want)
	}
	if len(m.waited) != 7 || slices.Max(m.waited) == 0 {
		t.Errorf("calls waited %v, want 7 durations", m.waited)
	}
}

func TestBatch_WaitedIsTheTimeUntilTheBatchIsSent(t *testing.T) {
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	b := Batch{Began: began, calls: []*call{{began: began.Add(-3 * time.Millisecond)}, {began: began.Add(time.Millisecond)}}}
	if b.Calls() != 2 || b.Waited(0) != 3*time.Millisecond || b.Waited(1) != 0 {
		t.Errorf("%d calls, %v, %v, want 2, 3ms and 0s", b.Calls(), b.Waited(0), b.Waited(1))
	}
}

// A request with debts has a round trip for each of them. The later ones do not wait for a place in a batch.
func TestMeter_WaitedIsWithoutEarlierRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meterRecorder{}
		s := NewStore(&redisclient.Client{}, patience, WithMeter(m))
		s.batchers.send = func(batch []*call) {
			time.Sleep(10 * time.Millisecond)
			batch[0].reply.decisions = []limiter.Decision{{Allowed: true}}
		}
		debt := limiter.Charge{Key: "{a}", Cost: 1, Debt: true}
		if _, err := s.spendDebts(s.origin(t.Context()), []limiter.Charge{debt, debt, {Key: "{b}", Cost: 1}}); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{0, 0, 0}; !slices.Equal(m.waited, want) {
			t.Errorf("calls waited %v, want %v", m.waited, want)
		}
	})
}

// A call in several slots is repeated in groups if no node can decide it.
func TestMeter_WaitedIsWithoutTheRoundTripInVain(t *testing.T) {
	t.Parallel()                        // it waits for the cluster
	const trip = 300 * time.Millisecond // more than the machine delays the later calls
	node := fixture.RedisClusterNode(t)
	client, err := redisclient.Open(node.URL()+"?addr="+node.Addr(), 10*trip)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	m := &meterRecorder{}
	s := NewStore(client, 10*trip, WithMeter(m))
	inVain, send := true, s.batchers.send
	s.batchers.send = func(batch []*call) {
		if !inVain {
			send(batch)
			return
		}
		inVain = false
		time.Sleep(trip)
		batch[0].reply.err = errSeveralSlots
	}
	limit, err := limiter.NewLimit(limiter.FixedWindow, 10, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	charges := []limiter.Charge{{Key: "weir:{vain-a}", Limit: limit, Cost: 1}, {Key: "weir:{vain-b}", Limit: limit, Cost: 1}}
	if _, err := s.Spend(t.Context(), charges); err != nil {
		t.Fatal(err)
	}
	if len(m.waited) != 3 || slices.Max(m.waited) >= trip {
		t.Errorf("calls waited %v, want 3 durations of less than %v", m.waited, trip)
	}
}

func TestMeter_ReceivesNoBatchThatTheBreakerRejects(t *testing.T) {
	m := &meterRecorder{}
	b := &batcher{send: timesOut, meter: m, breaker: (&breakerConfig{timeout: patience}).newBreaker("node")}
	b.breaker.state.Store(open)
	b.sendBatch([]*call{{deadline: time.Now().Add(patience)}})
	if len(m.calls) != 0 {
		t.Errorf("batches of %v calls, want none", m.calls)
	}
}
