package proof

import (
	"context"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/proof/promise"
)

const (
	// disturbEvery is the pause between two disturbances: several in every window.
	disturbEvery = 150 * time.Millisecond
	// lateness is how long after a request has failed it may still be counted: its script may wait in a socket.
	lateness = time.Second
)

// disturb makes Redis forget its scripts and drop its connections, in turn, and returns when it did.
func disturb(ctx context.Context, t *testing.T, server *fixture.RedisProcess, until time.Time) []int64 {
	t.Helper()
	var when []int64
	killed := int64(0)
	ticks := time.NewTicker(disturbEvery)
	defer ticks.Stop()
	for n := 0; time.Now().Before(until); n++ {
		<-ticks.C
		when = append(when, micros())
		if n%2 == 0 {
			if _, err := server.Do(ctx, "SCRIPT", "FLUSH"); err != nil {
				t.Errorf("SCRIPT FLUSH: %v", err)
			}
			continue
		}
		reply, err := server.Do(ctx, "CLIENT", "KILL", "TYPE", "normal")
		if err != nil {
			t.Errorf("CLIENT KILL: %v", err)
		}
		connections, _ := reply.(int64)
		killed += connections
	}
	if killed == 0 {
		t.Error("no connection was killed")
	}
	return when
}

// recovers wants requests to be admitted within two windows of every disturbance.
func recovers(t *testing.T, c counter, log promise.Log, disturbances []int64) {
	t.Helper()
	for _, at := range disturbances {
		soonest := int64(-1)
		for _, r := range log {
			if r.Outcome == promise.Admitted && r.From > at && (soonest < 0 || r.From < soonest) {
				soonest = r.From
			}
		}
		if soonest < 0 || soonest-at > 2*c.window.Microseconds() {
			t.Errorf("%v: after the disturbance at %d the next request is admitted at %d", c, at, soonest)
		}
	}
}

// micros is the time in microseconds. Redis runs on this machine and reads the same clock, see sharesTheClock.
func micros() int64 { return time.Now().UnixMicro() }

// sharesTheClock wants the time of Redis to lie between two readings of ours.
func sharesTheClock(t *testing.T, server *fixture.RedisProcess) {
	t.Helper()
	before := micros()
	reply, err := server.Do(t.Context(), "TIME")
	after := micros()
	if err != nil {
		t.Fatal(err)
	}
	if at := redisTime(t, reply); at < before || at > after {
		t.Fatalf("Redis says that it is %d, between %d and %d here: the clocks differ", at, before, after)
	}
}
