package redisstore

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// unusedObserver ignores all events.
type unusedObserver struct{}

func (o unusedObserver) Unavailable(string, error)                       {}
func (o unusedObserver) Recovering(context.Context, time.Duration) error { return nil }
func (o unusedObserver) Recovered(string)                                {}
func (o unusedObserver) ProbeFailed(string, error)                       {}
func (o unusedObserver) PartUnavailable(string, string, error)           {}
func (o unusedObserver) PartRecovered(string, string)                    {}
func (o unusedObserver) CounterUnavailable(string, error)                {}
func (o unusedObserver) SplitsBySlot(string)                             {}

// neverReached is the probe of a node that does not answer.
func neverReached(context.Context, string) error { return context.DeadlineExceeded }

func timesOut(batch []*call) {
	for _, c := range batch {
		c.reply.err = redisclient.WithKind(context.DeadlineExceeded)
	}
}

// A call across slots spends most of its time on the first node. Its timeout on the second one is no evidence of an outage.
func TestBreaker_IgnoresATimeoutOfACallerThatIsLate(t *testing.T) {
	for name, test := range map[string]struct {
		left time.Duration // until the deadline of the latest call
		want int32
	}{
		"late":    {patience/2 - 1, closed},
		"expired": {-time.Second, closed},
		"in time": {patience / 2, open},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // no probes
				b := (&breakerConfig{probe: neverReached, observer: unusedObserver{}, ctx: ctx, timeout: patience}).newBreaker("node")
				batch := []*call{{deadline: time.Now().Add(test.left)}, {deadline: time.Now().Add(-time.Minute)}}
				b.send(batch, timesOut)
				if got := b.state.Load(); got != test.want {
					t.Errorf("state %d, want %d", got, test.want)
				}
			})
		})
	}
}

// A round trip can fail long after it began, when the node has been unavailable and is available again.
func TestBreaker_IgnoresAFailureFromBeforeARecovery(t *testing.T) {
	available := func(context.Context, string) error { return nil }
	b := (&breakerConfig{probe: available, observer: unusedObserver{}, ctx: t.Context(), timeout: patience}).newBreaker("node")
	b.send([]*call{{deadline: time.Now().Add(patience)}}, func(batch []*call) {
		b.state.Store(open)
		b.tripped.Add(1)
		b.probeUntilRecovered("key", io.EOF, time.Now(), func() {}, func() {})
		batch[0].reply.err = redisclient.WithKind(io.EOF)
	})
	if state, tripped := b.state.Load(), b.tripped.Load(); state != closed || tripped != 0 {
		t.Errorf("state %d, %d breakers are not closed; want closed and none", state, tripped)
	}
}

// Other errors than a timeout do not depend on the time that was left.
func TestBreaker_OpensOnABrokenConnectionOfACallerThatIsLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := (&breakerConfig{probe: neverReached, observer: unusedObserver{}, ctx: ctx, timeout: patience}).newBreaker("node")
	b.send([]*call{{deadline: time.Now().Add(time.Millisecond)}}, func(batch []*call) {
		batch[0].reply.err = redisclient.WithKind(io.EOF)
	})
	b.send([]*call{{deadline: time.Now().Add(time.Millisecond)}}, func(batch []*call) {
		batch[0].reply.err = redisclient.WithKind(redis.ErrPoolTimeout)
	})
	if got := b.state.Load(); got != open {
		t.Errorf("state %d, want open", got)
	}
}

func TestLatestDeadline_IsThatOfAnyCall(t *testing.T) {
	now := time.Now()
	for latest := range 3 {
		batch := []*call{{deadline: now}, {deadline: now}, {deadline: now}}
		batch[latest].deadline = now.Add(time.Second)
		if got := latestDeadline(batch); !got.Equal(now.Add(time.Second)) {
			t.Errorf("%v from the start, want that of call %d after 1 s", got.Sub(now), latest)
		}
	}
}

// The last call of a batch can have less time than another.
func TestSend_UsesTheLatestDeadlineOfABatch(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	store := NewStore(client, patience)
	limit := corruptLimits(t)[0]
	calls := []*call{
		{mode: modeSpend, charges: chargesOn(limit, 1, "in-time"), deadline: time.Now().Add(patience)},
		{mode: modeSpend, charges: chargesOn(limit, 1, "late"), deadline: time.Now().Add(-time.Second)},
	}
	store.send(calls)
	for _, c := range calls {
		if c.reply.err != nil || !c.reply.decisions[0].Allowed {
			t.Errorf("%s: %+v, %v", c.key(), c.reply.decisions, c.reply.err)
		}
	}
}

// Between the batcher and the connection, a process without CPU time can be late. Redis decides nevertheless.
func TestSend_SendsABatchWhoseDeadlineHasPassed(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	store := NewStore(client, patience)
	c := &call{mode: modeSpend, charges: chargesOn(corruptLimits(t)[0], 1, "late"), deadline: time.Now().Add(-time.Second)}
	store.send([]*call{c})
	if c.reply.err != nil || !c.reply.decisions[0].Allowed {
		t.Errorf("%+v, %v", c.reply.decisions, c.reply.err)
	}
}

// A batch in time ends at its deadline, and a late one after half of a timeout.
func TestLeaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &Store{timeout: 50 * time.Millisecond}
		for left, want := range map[int]int64{-9: 25, 0: 25, 24: 25, 25: 25, 26: 26, 50: 50} { // ms
			deadline := time.Now().Add(time.Duration(left) * time.Millisecond)
			batch := []*call{{deadline: deadline}, {deadline: deadline}}
			if got := time.Until(store.leaveTime(batch)).Milliseconds(); got != want {
				t.Errorf("%d ms before its deadline, a batch has %d ms, want %d", left, got, want)
			}
			if got := time.Until(latestDeadline(batch)).Milliseconds(); got != want {
				t.Errorf("%d ms before its deadline, the calls of a batch have %d ms, want %d", left, got, want)
			}
		}
	})
}

// A node that accepts no connection within the prolonged time is no overload of this process: the callers get a decision without Redis.
func TestLeaveTime_OfABatchThatCannotBeSent(t *testing.T) {
	for late, overloaded := range map[time.Duration]bool{0: false, patience/maxLateness + 1: true} {
		synctest.Test(t, func(t *testing.T) {
			store := &Store{timeout: patience}
			b := (&breakerConfig{probe: neverReached, observer: unusedObserver{}, ctx: t.Context(), timeout: patience}).newBreaker("node")
			batch := []*call{{deadline: time.Now()}}
			b.send(batch, func(batch []*call) {
				time.Sleep(time.Until(store.leaveTime(batch)) + late)
				timesOut(batch)
			})
			if got := errors.Is(batch[0].reply.err, limiter.ErrOverloaded); got != overloaded || b.state.Load() != closed {
				t.Errorf("%v late: %v, state %d; want ErrOverloaded %t, closed", late, batch[0].reply.err, b.state.Load(), overloaded)
			}
		})
	}
}

// Refunds are not charged with the time that the call has already used.
func TestRefundGroups_HasItsOwnDeadline(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	failed := 0
	store := NewStore(client, patience, WithRefundFailures(func(err error) { failed++; t.Error(err) }))
	limit := corruptLimits(t)[0]
	charges := chargesOn(limit, 1, "refunded")
	spent, err := store.Spend(t.Context(), charges)
	if err != nil {
		t.Fatal(err)
	}
	store.refundGroups([]chargeGroup{{charges: charges, indexes: []int{0}}}, spent)
	after, err := store.Peek(t.Context(), charges)
	if err != nil || after[0].Remaining != limit.Capacity() {
		t.Errorf("%+v, %v: the unit was not refunded", after, err)
	}
}

// A context ends a call only before it is sent. A process in time notices that at the deadline: then the node did not accept a
// connection. A late one was busy.
func TestBreaker_IgnoresCallsThatThisProcessWasTooLateToSend(t *testing.T) {
	for name, test := range map[string]struct {
		ago     time.Duration // when the deadline passed
		want    int32
		dropped bool
	}{
		"in time": {patience / maxLateness, open, false},
		"late":    {patience/maxLateness + 1, closed, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // no probes
				b := (&breakerConfig{probe: neverReached, observer: unusedObserver{}, ctx: ctx, timeout: patience}).newBreaker("node")
				batch := []*call{{deadline: time.Now().Add(patience)}, {deadline: time.Now().Add(patience)}}
				b.send(batch, func(batch []*call) {
					for _, c := range batch {
						c.reply.err, c.deadline = redisclient.WithKind(context.DeadlineExceeded), time.Now().Add(-test.ago)
					}
				})
				if got := b.state.Load(); got != test.want {
					t.Errorf("state %d, want %d", got, test.want)
				}
				if got := errors.Is(batch[1].reply.err, limiter.ErrOverloaded); got != test.dropped {
					t.Errorf("error %v", batch[1].reply.err)
				}
			})
		})
	}
}

// A probe that this process could not send in time shows nothing about the node.
func TestBreaker_RepeatsAProbeThatWasNotSent(t *testing.T) {
	probes := 0
	observer := &countingObserver{}
	b := (&breakerConfig{observer: observer, ctx: t.Context(), timeout: patience, probe: func(context.Context, string) error {
		if probes++; probes < 3 {
			return limiter.ErrOverloaded
		}
		return nil
	}}).newBreaker("node")
	b.state.Store(open)
	b.probeUntilRecovered("key", io.EOF, time.Now(), func() {}, func() {})
	if probes != 3 || b.state.Load() != closed || observer.outages != 0 {
		t.Errorf("%d probes, state %d, %d outages reported, want 3, closed, none", probes, b.state.Load(), observer.outages)
	}
}

// A busy process notices a deadline some milliseconds late. That is no reason to repeat a probe that had much longer than a call: the outage
// would not be reported.
func TestWithin_ComparesLatenessWithTheTimeoutOfTheProbe(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	const ofACall, ofTheProbe = 50 * time.Millisecond, 250 * time.Millisecond
	for late, overloaded := range map[time.Duration]bool{20 * time.Millisecond: false, 30 * time.Millisecond: true} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := NewStore(client, ofACall).within(t.Context(), ofTheProbe, func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(late)
					return ctx.Err()
				})
				if got := errors.Is(err, limiter.ErrOverloaded); err == nil || got != overloaded {
					t.Errorf("%v, want an error, and ErrOverloaded: %t", err, overloaded)
				}
			})
		})
	}
}

// countingObserver counts outages.
type countingObserver struct {
	unusedObserver

	outages int
}

func (o *countingObserver) Unavailable(string, error) { o.outages++ }

// While the node answers others, a call that waited in vain for a connection is no evidence against it. A process in time decides the call without
// Redis, and a late one is busy.
func TestBreaker_IgnoresACallThatWasNotSentWhileTheNodeAnswersOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no probes
	b := (&breakerConfig{probe: neverReached, observer: unusedObserver{}, ctx: ctx, timeout: patience}).newBreaker("node")
	soon := func() *call { return &call{deadline: time.Now().Add(patience)} }
	waiting := []*call{soon()}
	b.send(waiting, func(batch []*call) {
		b.send([]*call{soon()}, func([]*call) {}) // is answered
		batch[0].reply.err = redisclient.WithKind(context.DeadlineExceeded)
	})
	if err := waiting[0].reply.err; b.state.Load() != closed || errors.Is(err, limiter.ErrOverloaded) || redisclient.Kind(err) != redisclient.KindUnreachable {
		t.Errorf("state %d, %v, want closed and the kind unreachable", b.state.Load(), err)
	}
	b.send(waiting, func(batch []*call) {
		b.send([]*call{soon()}, func([]*call) {}) // is answered
		batch[0].reply.err, batch[0].deadline = redisclient.WithKind(context.DeadlineExceeded), time.Now().Add(-patience)
	})
	if err := waiting[0].reply.err; b.state.Load() != closed || !errors.Is(err, limiter.ErrOverloaded) {
		t.Errorf("a process that is late: state %d, %v, want closed and ErrOverloaded", b.state.Load(), err)
	}
	b.send([]*call{soon()}, func(batch []*call) {
		batch[0].reply.err = redisclient.WithKind(context.DeadlineExceeded)
	})
	if got := b.state.Load(); got != open {
		t.Errorf("state %d after a call that nothing contradicts, want open", got)
	}
}

// An error reply to a call while the node answers others can be due to what the call needs. It is no reason to hold back the others.
func TestBreaker_StaysClosedAfterAnErrorReplyWhileTheNodeAnswersOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no probes
	b := (&breakerConfig{probe: neverReached, observer: unusedObserver{}, ctx: ctx, timeout: patience}).newBreaker("node")
	for _, text := range []string{"NOPERM no permissions to run hget", "ERR unknown command", "ERR what", "NOSCRIPT"} {
		b.send([]*call{{deadline: time.Now().Add(patience)}}, func(batch []*call) {
			b.send([]*call{{deadline: time.Now().Add(patience)}}, func([]*call) {}) // is answered
			batch[0].reply.err = redisclient.WithKind(replyError(text))
		})
		if got := b.state.Load(); got != closed {
			t.Errorf("%s: state %d, want closed", text, got)
		}
	}
	b.send([]*call{{deadline: time.Now().Add(patience)}}, func(batch []*call) {
		batch[0].reply.err = redisclient.WithKind(replyError("NOPERM no permissions to run hget"))
	})
	if got := b.state.Load(); got != open {
		t.Errorf("state %d after a reply that nothing contradicts, want open", got)
	}
}

// Subscriptions connect again after an outage, and not after a broken connection.
func TestBreaker_AnnouncesARecovery(t *testing.T) {
	for probes, want := range map[int]int{1: 0, 2: 1} {
		n, announced := 0, 0
		b := (&breakerConfig{
			observer: unusedObserver{}, ctx: t.Context(), timeout: patience, recovered: func() { announced++ },
			probe: func(context.Context, string) error {
				if n++; n < probes {
					return io.EOF
				}
				return nil
			},
		}).newBreaker("node")
		b.state.Store(open)
		b.probeUntilRecovered("key", io.EOF, time.Now(), func() {}, func() {})
		if announced != want {
			t.Errorf("%d recoveries announced after %d probes, want %d", announced, probes, want)
		}
	}
}
