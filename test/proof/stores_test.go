package proof

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/proof/promise"
)

// longTimeout is the timeout of calls in tests that do not test timeouts.
const longTimeout = 10 * time.Second

// open returns a client that is closed when the test ends.
func open(t testing.TB, url string, timeout time.Duration) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(url, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

const (
	clients  = 64 // concurrent, on each counter
	replicas = 3  // that share one Redis
)

// journal is a log that several clients write to.
type journal struct {
	mu  sync.Mutex
	log promise.Log
}

func (j *journal) write(requests promise.Log) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log = append(j.log, requests...)
}

// The instant of every decision is known, so the check is exact to the microsecond.
func TestStore_KeepsThePromisesFromSeveralStores(t *testing.T) {
	server := fixture.Redis(t)
	checkClock(t, server)
	var stores [replicas]limiter.Store
	for i := range stores {
		stores[i] = redisstore.NewStore(open(t, server.URL(), maxLateness), maxLateness)
	}
	const (
		units  = 100
		window = time.Second
		burst  = 20
		calm   = 3 * time.Second / 2 // without disturbances at the end, so that the test sees the recovery from the last one
		length = 3 * time.Second
		// steady is the promise of two whole windows, which the time contains even if they are aligned, less the precision of
		// MinCounted: per window up to two units for requests of up to three units, and one for the time until the next request.
		steady = 2 * units * 9 / 10
	)
	rounds(t, func(round int) {
		began := time.Now()
		end := began.Add(length)
		all := withCompact(counters(units, window, burst, time.Microsecond))
		journals := make([]journal, len(all))
		var wg sync.WaitGroup
		for i, c := range all {
			for client := range clients {
				charge := c.charge(t, strconv.Itoa(round), c.String())
				charge.Cost = 1 + int64(client%3)
				wg.Go(func() { journals[i].write(spendUntil(t, end, stores[client/3%replicas], charge)) })
			}
		}
		disturbances := disturb(t.Context(), t, server, end.Add(-calm))
		wg.Wait()
		for i, c := range all {
			c.checkLog(t, journals[i].log, steady)
			checkRecovery(t, c, journals[i].log, disturbances)
		}
	})
	checkClock(t, server)
}

// spendUntil spends repeatedly and returns the results.
func spendUntil(t *testing.T, end time.Time, store limiter.Store, charge limiter.Charge) promise.Log {
	t.Helper()
	var log promise.Log
	for time.Now().Before(end) {
		r := promise.Request{From: micros(), Units: charge.Cost}
		decisions, err := store.Spend(t.Context(), []limiter.Charge{charge})
		r.To = micros()
		if err != nil {
			r.Outcome, r.To = promise.Lost, r.To+maxLateness.Microseconds()
			log = append(log, r)
			continue
		}
		d := decisions[0]
		if at := int64(d.At); at < r.From || at > r.To {
			t.Errorf("%v: a call from %d to %d was decided at %d", charge.Limit, r.From, r.To, at)
		}
		r.From, r.To, r.Delay = int64(d.At), int64(d.At), d.Delay.Microseconds()
		if !d.Allowed {
			r.Outcome = promise.Denied
		}
		log = append(log, r)
		if !d.Allowed {
			time.Sleep(rand.N(10 * time.Millisecond)) // without pauses the clients would only wait for the CPU
		}
	}
	return log
}

// redisTime parses a reply to TIME, in microseconds.
func redisTime(t testing.TB, reply any) int64 {
	t.Helper()
	var seconds, fraction int64
	if _, err := fmt.Sscanf(fmt.Sprint(reply), "[%d %d]", &seconds, &fraction); err != nil {
		t.Fatalf("invalid reply to TIME: %v: %v", reply, err)
	}
	return seconds*1_000_000 + fraction
}
