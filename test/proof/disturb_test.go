package proof

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/proof/promise"
)

const (
	// disturbEvery is the time between two disturbances. There are several in each window.
	disturbEvery = 150 * time.Millisecond
	// maxLateness is how long after its failure a request can still be counted: its script can be in a socket buffer.
	maxLateness = time.Second
)

// A disturbance began and ended at instants in microseconds.
type disturbance struct {
	from, to int64
	// closesConnections means that replies may have been lost.
	closesConnections bool
}

// disturb alternately flushes the scripts of Redis and closes its connections. It returns the disturbances.
func disturb(ctx context.Context, t *testing.T, server *fixture.RedisProcess, until time.Time) []disturbance {
	t.Helper()
	var all []disturbance
	killed := int64(0)
	ticks := time.NewTicker(disturbEvery)
	defer ticks.Stop()
	for n := 0; time.Now().Before(until); n++ {
		<-ticks.C
		from := micros()
		if n%2 == 0 {
			if _, err := server.Do(ctx, "SCRIPT", "FLUSH"); err != nil {
				t.Errorf("SCRIPT FLUSH: %v", err)
			}
			all = append(all, disturbance{from, micros(), false})
			continue
		}
		reply, err := server.Do(ctx, "CLIENT", "KILL", "TYPE", "normal")
		all = append(all, disturbance{from, micros(), true})
		if err != nil {
			t.Errorf("CLIENT KILL: %v", err)
		}
		connections, _ := reply.(int64)
		killed += connections
	}
	if killed == 0 {
		t.Error("no connection was killed")
	}
	return all
}

// countedTwice returns the log with a lost request for each request during which connections were closed: a limiter makes a call whose reply was
// lost again, and the first one may have been counted, whatever the result of the second one is. See docs/adr/0081.
func countedTwice(log promise.Log, disturbances []disturbance) promise.Log {
	all := slices.Clone(log)
	for _, r := range log {
		if slices.ContainsFunc(disturbances, func(d disturbance) bool { return d.closesConnections && r.From <= d.to && d.from <= r.To }) {
			r.Outcome, r.Delay = promise.Lost, 0
			all = append(all, r)
		}
	}
	return all
}

// checkRecovery checks that requests are admitted within two windows after every disturbance.
func checkRecovery(t *testing.T, c counter, log promise.Log, disturbances []disturbance) {
	t.Helper()
	for _, d := range disturbances {
		at := d.from
		next := int64(-1)
		for _, r := range log {
			if r.Outcome == promise.Admitted && r.From > at && (next < 0 || r.From < next) {
				next = r.From
			}
		}
		if next < 0 || next-at > 2*c.window.Microseconds() {
			t.Errorf("%v: disturbance at %d, next request admitted at %d; want it within two windows", c, at, next)
		}
	}
}

// micros returns the time in microseconds. Redis runs on this machine and reads the same clock, see checkClock.
func micros() int64 { return time.Now().UnixMicro() }

// checkClock checks that the time of Redis is between two local readings.
func checkClock(t *testing.T, server *fixture.RedisProcess) {
	t.Helper()
	before := micros()
	reply, err := server.Do(t.Context(), "TIME")
	after := micros()
	if err != nil {
		t.Fatal(err)
	}
	if at := redisTime(t, reply); at < before || at > after {
		t.Fatalf("the time of Redis is %d, want it between %d and %d: the clocks differ", at, before, after)
	}
}
