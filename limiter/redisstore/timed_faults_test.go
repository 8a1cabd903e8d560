package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/latency"
)

const (
	faultTimeout = 150 * time.Millisecond // of a call
	faultPause   = 40 * time.Millisecond  // between the requests of a case
	// faultsAtOnce is the number of cases at the same time. Each of them mostly waits.
	faultsAtOnce = 60
	// faultLasts is how long a fault that lasts has: a failing call, a second until that is an outage, and the delay of a log line.
	faultLasts = 4500 * time.Millisecond
	// faultRecovers is the longest pause of the probe of a counter, and then some.
	faultRecovers = 9 * time.Second
)

// replyFaults are the replies that a server or a proxy can give in place of the right one.
func replyFaults() map[string]respFault {
	faults := map[string]respFault{
		"nil": {reply: "$-1\r\n"}, "text": {reply: "+OK\r\n"}, "an integer": {reply: ":1\r\n"}, "an empty list": {reply: "*0\r\n"},
		"a list of texts": {reply: "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"}, "not Redis": {reply: "HTTP/1.1 400 Bad Request\r\n\r\n"},
		"EOF": {then: closes}, "EOF before it ran": {then: closes, unsent: true}, "RST": {then: resets}, "no reply": {then: hangs},
		"no reply, and it did not run": {then: hangs, unsent: true}, "half a reply": {then: halves},
	}
	for _, text := range []string{
		"ERR an unknown error", "upstream failure", "LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
		"MASTERDOWN Link with MASTER is down", "CLUSTERDOWN The cluster is down", "MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1", "TRYAGAIN Multiple keys request",
		"CROSSSLOT Keys in request don't hash to the same slot", "NOSCRIPT No matching script.", "BUSY Redis is busy running a script.",
		"OOM command not allowed when used memory > 'maxmemory'.", "MISCONF Redis is configured to save RDB snapshots", "NOREPLICAS Not enough good replicas",
		"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair", "NOPERM this user has no permissions", "WRONGTYPE Operation against a key",
		"ERR unknown command", "ERR max number of clients reached", "UNKILLABLE Sorry the script already executed write commands", "EXECABORT Transaction discarded",
		"ERR Error running script: @user_script:1: -OOM command not allowed",
	} {
		faults[text] = respFault{reply: "-" + text + "\r\n", unsent: true}
	}
	return faults
}

// Whatever a server replies to whichever command, once, for a while, or until it is repaired: no request of a policy with onStoreFailure Local fails, and
// no decision is local without a metric, and a line with the reason. What lasts is local mode, in which requests do not pay for a round trip. What ends is
// decided in Redis again.
func TestStore_DecidesLocallyOnlyWithMetricLogAndReason(t *testing.T) {
	latency.Alone(t) // calls of 150 ms, to many proxies
	server := fixture.Redis(t)
	late := watchLateness(t)
	var group sync.WaitGroup
	running := make(chan struct{}, faultsAtOnce)
	for _, command := range []string{"evalsha", "getrange", "set", "hello", "client", "eval"} {
		for name, fault := range replyFaults() {
			fault.command = command
			c := &faultCase{t: t, name: command + ": " + name, fault: fault, late: late}
			c.start(server.Addr())
			group.Go(func() {
				running <- struct{}{}
				defer func() { <-running }()
				c.run()
			})
		}
	}
	// Calls of one kind: a permission, or a proxy that does not know a script.
	for name, fault := range replyFaults() {
		fault.command, fault.about = "evalsha", ":0 " // the block of compact counters
		c := &faultCase{t: t, name: "compact counters: " + name, fault: fault, late: late}
		c.start(server.Addr())
		group.Go(func() {
			running <- struct{}{}
			defer func() { <-running }()
			c.run()
		})
	}
	group.Wait()
}

// watchLateness returns a function that reports whether this process was late since an instant: the processor was taken from it.
func watchLateness(t *testing.T) (late func(since time.Time) bool) {
	var last atomic.Int64
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			began := time.Now()
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			if time.Since(began) > faultTimeout/20 {
				last.Store(time.Now().UnixNano())
			}
		}
	}()
	return func(since time.Time) bool { return last.Load() >= since.UnixNano() }
}

// faultCase is a fault, and a Store behind a proxy that injects it.
type faultCase struct {
	t     *testing.T
	name  string
	fault respFault
	late  func(time.Time) bool

	proxy  *faultProxy
	redis  *redisstore.Store
	store  *failover.Store
	errors atomic.Int64 // of calls, as in weir_store_errors_total
	log    logBuffer
	next   int
	shapes []func() []limiter.Charge
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (c *faultCase) start(address string) {
	c.proxy = startFaultProxy(c.t, address)
	client, err := redisclient.Open("redis://"+c.proxy.listener.Addr().String(), faultTimeout)
	if err != nil {
		c.t.Fatal(err)
	}
	c.redis = redisstore.NewStore(client, faultTimeout)
	c.store = failover.New(c.redis, local.New(1<<20, time.Now), time.Now, slog.New(slog.NewTextHandler(&c.log, nil)))
	c.store.ObserveCalls(func(_ string, _ time.Duration, err error) {
		if err != nil {
			c.errors.Add(1)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	c.redis.EnableBreaker(ctx, c.store)
	c.t.Cleanup(func() {
		cancel()
		_ = client.Close()
	})
	exact, compact := newCounter(c.t, limiter.TokenBucket, 10, false), newCounter(c.t, limiter.FixedWindow, 10, true)
	same := newCounter(c.t, limiter.SlidingWindowLog, 1_000_000, false)()
	c.shapes = []func() []limiter.Charge{
		exact, compact, func() []limiter.Charge { return same }, func() []limiter.Charge { return append(exact(), same...) },
	}
}

// outcomes of requests.
type outcomes struct{ requests, local, store int }

// request makes one request. No request fails.
func (c *faultCase) request(seen *outcomes) {
	began := time.Now()
	charges := c.shapes[c.next%len(c.shapes)]()
	c.next++
	decisions, err := c.store.Spend(context.Background(), charges)
	seen.requests++
	if isLate := errors.Is(err, limiter.ErrOverloaded) && c.late(began); err != nil && !isLate {
		c.t.Errorf("%s: a request fails: %v", c.name, err)
	}
	if took := time.Since(began); took > 4*faultTimeout && !c.late(began) {
		c.t.Errorf("%s: a request took %v", c.name, took)
	}
	where := &seen.store
	for _, d := range decisions {
		if d.Origin == limiter.OriginLocal {
			where = &seen.local
		}
	}
	*where++
}

// requests makes requests for a time.
func (c *faultCase) requests(d time.Duration) (seen outcomes) {
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(faultPause) {
		c.request(&seen)
	}
	return seen
}

func (c *faultCase) run() {
	if seen := c.requests(10 * faultPause); seen.local > 0 {
		c.t.Errorf("%s: %d local decisions before the fault:\n%s", c.name, seen.local, &c.log)
		return
	}
	for _, step := range []struct {
		name  string
		n     int64
		lasts time.Duration
	}{{"once", 1, 400 * time.Millisecond}, {"for a while", 1 << 60, 700 * time.Millisecond}, {"until it is repaired", 1 << 60, faultLasts}} {
		c.step(step.name, step.n, step.lasts)
	}
}

func (c *faultCase) step(name string, n int64, lasts time.Duration) {
	name = c.name + ", " + name
	errorsBefore := c.errors.Load()
	fault := c.fault
	c.proxy.inject(&fault, n)
	first := c.requests(lasts - min(lasts/2, time.Second))
	scripts := c.proxy.scripts.Load()
	last := c.requests(min(lasts/2, time.Second))
	scripts = c.proxy.scripts.Load() - scripts
	_, wasLocalMode := c.store.LocalMode() // also one that began in an earlier step, without errors since
	quarantined := c.redis.Quarantined()
	if lasts == faultLasts && 2*last.local > last.requests {
		if !wasLocalMode && quarantined == 0 {
			c.t.Errorf("%s: %d of %d requests of the last second are local, without local mode or a counter on its own:\n%s", name, last.local, last.requests, &c.log)
		}
		if most := int64(last.requests)/2 + 24; scripts > most { // some probes
			c.t.Errorf("%s: %d runs of scripts for %d requests of the last second, want at most %d:\n%s", name, scripts, last.requests, most, &c.log)
		}
	}
	c.proxy.inject(nil, 0)
	repaired := time.Now()
	var seen outcomes
	inRow := 0
	for inRow < 2*len(c.shapes) && time.Since(repaired) < faultRecovers {
		before := seen.local
		if c.request(&seen); seen.local > before {
			inRow = 0
		} else {
			inRow++
		}
		time.Sleep(faultPause / 2)
	}
	if _, isLocalMode := c.store.LocalMode(); inRow < 2*len(c.shapes) || isLocalMode {
		c.t.Errorf("%s: %d of %d requests are local after the repair, local mode: %t, %d counters on their own:\n%s",
			name, seen.local, seen.requests, isLocalMode, c.redis.Quarantined(), &c.log)
	}
	if first.local+last.local+seen.local == 0 {
		return
	}
	if c.errors.Load() == errorsBefore && quarantined == 0 && !wasLocalMode {
		c.t.Errorf("%s: %d local decisions without a metric", name, first.local+last.local+seen.local)
	}
	// A line about decisions of one kind is written once a minute, and 2 s after the decision: an earlier step may have written it.
	hasReason := func() bool { return strings.Contains(c.log.String(), "error=") }
	for until := time.Now().Add(3 * time.Second); !hasReason() && time.Now().Before(until); {
		time.Sleep(faultPause)
	}
	if !hasReason() {
		c.t.Errorf("%s: %d local decisions without a line with the reason, log:\n%s", name, first.local+last.local+seen.local, &c.log)
	}
}
