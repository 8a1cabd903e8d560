package redisstore

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
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
	for range minInFlight {
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

func TestMeter_ReceivesNoBatchThatTheBreakerRejects(t *testing.T) {
	m := &meterRecorder{}
	b := &batcher{send: timesOut, meter: m, breaker: (&breakerConfig{timeout: patience}).newBreaker("node")}
	b.breaker.state.Store(open)
	b.sendBatch([]*call{{deadline: time.Now().Add(patience)}})
	if len(m.calls) != 0 {
		t.Errorf("batches of %v calls, want none", m.calls)
	}
}
