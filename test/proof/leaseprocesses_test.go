package proof

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/proof/promise"
)

// leaseHolder is a process that crashes and starts again.
type leaseHolder struct {
	weir       string
	args       []string
	url, ready string

	mu      sync.Mutex
	process *fixture.WeirProcess
}

func (h *leaseHolder) start(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	if h.process, err = fixture.StartWeir(h.weir, h.args...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, h.ready, http.StatusOK); err != nil {
		t.Fatalf("%v; log:\n%s", err, h.process.Log())
	}
}

func (h *leaseHolder) kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.process.Kill()
}

// startHolders starts three processes that enforce the counters with one Redis.
func startHolders(t *testing.T, redisURL string, all []counter) [replicas]*leaseHolder {
	t.Helper()
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	policies := writePolicies(t, all)
	var holders [replicas]*leaseHolder
	for i := range holders {
		var addrs [2]string
		for j := range addrs {
			if addrs[j], err = fixture.FreeAddr(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		holders[i] = &leaseHolder{weir: weir, url: "http://" + addrs[0], ready: "http://" + addrs[1] + "/readyz", args: []string{
			"serve", "--policies", policies, "--redis", redisURL, "--redis-timeout", maxLateness.String(), "--replicas", strconv.Itoa(replicas),
			"--grpc-listen=", "--listen", addrs[0], "--ops-listen", addrs[1],
		}}
		holders[i].start(t)
		t.Cleanup(holders[i].kill)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return holders
}

// Processes that hold leases crash and start again while Redis flushes scripts, loses connections and pauses. The units of a crashed
// process stay spent. See [TestLimiter_KeepsThePromisesFromSeveralProcesses] about the instants of decisions.
func TestLeases_KeepThePromisesFromSeveralProcesses(t *testing.T) {
	server := fixture.Redis(t)
	checkClock(t, server)
	const (
		units  = 600
		window = 2 * time.Second
		share  = 0.5
		age    = 300 * time.Millisecond
		length = 4 * time.Second
	)
	all := counters(units, window, units, time.Millisecond)[:4] // without LeakyBucket
	for i := range all {
		all[i].lease, all[i].fromLeases = "{maxShare: 50%, maxAge: 300ms}", &atomic.Int64{}
	}
	holders := startHolders(t, server.URL(), all)
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: longTimeout}
	t.Cleanup(web.CloseIdleConnections)
	rounds(t, func(round int) {
		end := time.Now().Add(length)
		journals := make([]journal, len(all))
		var wg sync.WaitGroup
		for client := range clients {
			d := checkClient{web: web, url: holders[client%replicas].url, tenant: strconv.Itoa(round), units: 1}
			wg.Go(func() {
				for n := client; time.Now().Before(end); n++ {
					from := micros()
					r, err := d.check(t, all[n%len(all)])
					if err != nil { // of a process that crashed
						r = promise.Request{From: from, To: micros() + maxLateness.Microseconds(), Units: d.units, Outcome: promise.Lost}
						time.Sleep(10 * time.Millisecond)
					}
					journals[n%len(all)].write(promise.Log{r})
				}
			})
		}
		wg.Go(func() {
			for n := 0; time.Until(end) > window; n++ {
				time.Sleep(window / 4)
				holders[n%replicas].kill()
				holders[n%replicas].start(t)
			}
		})
		wg.Go(func() {
			time.Sleep(window / 2)
			if err := server.Pause(); err != nil {
				t.Error(err)
			}
			time.Sleep(window / 8)
			if err := server.Resume(); err != nil {
				t.Error(err)
			}
		})
		disturb(t.Context(), t, server, end.Add(-window))
		wg.Wait()
		for i, c := range all {
			log := journals[i].log
			for _, p := range promise.Leased(c.promise, age.Microseconds(), share*units) {
				if err := p.CheckAdmitted(log); err != nil {
					t.Errorf("more than promised: %v", err)
				}
			}
			admitted, _ := log.Counted()
			t.Logf("%v: %d requests, %d units admitted, %d of them from leases in all rounds", c, len(log), admitted, c.fromLeases.Load())
			if c.fromLeases.Load() < units/4 {
				t.Errorf("%v: %d requests were admitted from leases: too few to show anything", c, c.fromLeases.Load())
			}
		}
	})
	checkClock(t, server)
}
