package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

// shortTimeout is the timeout of a call to a Redis that does not reply.
const shortTimeout = 50 * time.Millisecond

// outageRecorder records the notifications about outages.
type outageRecorder struct {
	mu            sync.Mutex
	notifications []string
	unavailable   chan string // addresses
	recovered     chan string
	recovering    func(ctx context.Context, unavailableFor time.Duration) error
	probes        map[string]int // failed probes by kind
	counters      chan string    // keys that are unavailable on their own
	split         chan string    // addresses
}

func newOutageRecorder() *outageRecorder {
	return &outageRecorder{
		unavailable: make(chan string, 100), recovered: make(chan string, 100),
		recovering: func(context.Context, time.Duration) error { return nil },
		probes:     map[string]int{}, counters: make(chan string, 1000), split: make(chan string, 10),
	}
}

func (r *outageRecorder) Unavailable(address string, _ error) {
	r.record("unavailable", address, r.unavailable)
}

func (r *outageRecorder) Recovered(address string) { r.record("recovered", address, r.recovered) }

func (r *outageRecorder) PartUnavailable(address, part string, _ error) {
	r.record("unavailable", address+" "+part, r.unavailable)
}

func (r *outageRecorder) PartRecovered(address, part string) {
	r.record("recovered", address+" "+part, r.recovered)
}

func (r *outageRecorder) ProbeFailed(_ string, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes[redisclient.Kind(cause)]++
}

func (r *outageRecorder) CounterUnavailable(key string, _ error) { r.counters <- key }

func (r *outageRecorder) SplitsBySlot(address string) { r.split <- address }

func (r *outageRecorder) Recovering(ctx context.Context, unavailableFor time.Duration) error {
	return r.recovering(ctx, unavailableFor)
}

func (r *outageRecorder) record(event, address string, to chan string) {
	r.mu.Lock()
	r.notifications = append(r.notifications, event+" "+address)
	r.mu.Unlock()
	to <- address
}

func (r *outageRecorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.notifications)
}

// receive waits for a notification.
func receive(t *testing.T, addresses <-chan string) (address string) {
	t.Helper()
	select {
	case address = <-addresses:
	case <-time.After(longTimeout):
		t.Fatal("no notification")
	}
	return address
}

// awaitOutage spends until the store reports an outage, and returns the address. One failed call is not enough on a busy machine: a call of a
// process that is late is no evidence against Redis.
func awaitOutage(t *testing.T, store *redisstore.Store, charges []limiter.Charge, outages *outageRecorder) (address string) {
	t.Helper()
	fixture.Await(t, "an outage is reported", func() bool {
		if _, err := store.Spend(t.Context(), charges); err == nil {
			t.Fatal("no error while Redis does not reply")
		}
		select {
		case address = <-outages.unavailable:
			return true
		default:
			return false
		}
	})
	return address
}

// storeWithBreaker returns a Store with a breaker and a shortTimeout timeout.
func storeWithBreaker(t *testing.T, url string, observer redisstore.OutageObserver, options ...redisstore.StoreOption) *redisstore.Store {
	t.Helper()
	client, err := redisclient.Open(url, shortTimeout)
	if err != nil {
		t.Fatal(err)
	}
	store := redisstore.NewStore(client, shortTimeout, options...)
	ctx, cancel := context.WithCancel(context.Background())
	store.EnableBreaker(ctx, observer)
	t.Cleanup(func() {
		cancel()
		_ = client.Close()
	})
	return store
}

// awaitSpend waits until a spend succeeds.
func awaitSpend(t *testing.T, store *redisstore.Store, charges []limiter.Charge) {
	t.Helper()
	fixture.Await(t, "a spend succeeds", func() bool {
		_, err := store.Spend(t.Context(), charges)
		return err == nil
	})
}

// peekRemaining returns how many units remain.
func peekRemaining(t *testing.T, store *redisstore.Store, charges []limiter.Charge) int64 {
	t.Helper()
	decisions, err := store.Peek(t.Context(), charges)
	if err != nil {
		t.Fatal(err)
	}
	return decisions[0].Remaining
}

// faults are the ways in which Redis fails, each with its repair.
func faults() map[string]func(t *testing.T, server *fixture.RedisProcess) (repair func()) {
	command := func(t *testing.T, server *fixture.RedisProcess, words ...string) {
		raw := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer func() { _ = raw.Close() }()
		args := make([]any, len(words))
		for i := range words {
			args[i] = words[i]
		}
		if err := raw.Do(context.Background(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
	ok := func(t *testing.T, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func(*testing.T, *fixture.RedisProcess) func(){
		"paused, and does not reply": func(t *testing.T, s *fixture.RedisProcess) func() {
			ok(t, s.Pause())
			return func() { ok(t, s.Resume()) }
		},
		"killed": func(t *testing.T, s *fixture.RedisProcess) func() {
			s.Kill()
			return func() { ok(t, s.Restart(context.Background())) }
		},
		"read-only": func(t *testing.T, s *fixture.RedisProcess) func() {
			command(t, s, "REPLICAOF", "127.0.0.1", "1")
			return func() { command(t, s, "REPLICAOF", "NO", "ONE") }
		},
		"out of memory": func(t *testing.T, s *fixture.RedisProcess) func() {
			command(t, s, "CONFIG", "SET", "maxmemory", "1")
			return func() { command(t, s, "CONFIG", "SET", "maxmemory", "0") }
		},
		"permissions removed": func(t *testing.T, s *fixture.RedisProcess) func() {
			command(t, s, "ACL", "SETUSER", "default", "-set", "-evalsha")
			return func() { command(t, s, "ACL", "SETUSER", "default", "+set", "+evalsha") }
		},
	}
}

func TestBreaker_RejectsCallsUntilRedisRecovers(t *testing.T) {
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			server, outages := fixture.Redis(t), newOutageRecorder()
			store := storeWithBreaker(t, server.URL(), outages)
			charges := unitsOf(t, "shop/a", "acme", 1000)
			awaitSpend(t, store, charges)
			repair := fault(t, server)
			began := time.Now()
			if _, err := store.Spend(t.Context(), charges); err == nil {
				t.Fatal("no error from the first call after the fault")
			}
			if took := time.Since(began); took > 10*shortTimeout {
				t.Errorf("the first call took %v, want at most %v", took, 10*shortTimeout)
			}
			if address := receive(t, outages.unavailable); address != server.Addr() {
				t.Errorf("unavailable is %q, want %q", address, server.Addr())
			}
			began = time.Now()
			for range 10_000 {
				if _, err := store.Spend(t.Context(), charges); redisclient.Kind(err) != redisclient.KindUnavailable {
					t.Fatalf("a call during the outage: %v", err)
				}
			}
			if each := time.Since(began) / 10_000; each > time.Millisecond {
				t.Errorf("a call during the outage takes %v, want at most 1 ms", each)
			}
			if !store.Unavailable(charges[0].Key) {
				t.Error("Unavailable = false during the outage")
			}
			repair()
			receive(t, outages.recovered)
			if d, err := store.Spend(t.Context(), charges); err != nil || !d[0].Allowed || store.Unavailable(charges[0].Key) {
				t.Errorf("after the recovery: %+v, %v, or Unavailable = true", d, err)
			}
		})
	}
}

// A Redis that accepts writes but runs no scripts is unavailable, too.
func TestBreaker_TreatsAMisconfiguredRedisAsUnavailable(t *testing.T) {
	t.Parallel()
	scriptless, err := fixture.StartRedis(t.Context(), "--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scriptless.Stop() })
	server := fixture.Redis(t)
	for name, url := range map[string]string{
		"a database that does not exist": server.URL() + "/99",
		"not a cluster":                  server.URL() + "?cluster=true",
		"not a Sentinel":                 "redis://" + server.Addr() + "?master=mymaster",
		"without scripts":                scriptless.URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outages := newOutageRecorder()
			store := storeWithBreaker(t, url, outages)
			charges := unitsOf(t, "shop/a", "acme", 1000)
			_, err := store.Spend(t.Context(), charges)
			wantKind(t, err, "misconfigured")
			receive(t, outages.unavailable)
			if _, err := store.Spend(t.Context(), charges); redisclient.Kind(err) != redisclient.KindUnavailable {
				t.Errorf("a call during the outage: %v", err)
			}
			if n := outages.count(); n != 1 {
				t.Errorf("%d notifications, want 1: %v", n, outages.notifications)
			}
		})
	}
}

// If the first probe succeeds, the observer is not notified.
func TestBreaker_DoesNotReportABrokenConnection(t *testing.T) {
	server, outages := fixture.Redis(t), newOutageRecorder()
	store := storeWithBreaker(t, server.URL(), outages)
	raw := rawClient(t, server.URL())
	charges := unitsOf(t, "shop/a", "acme", 1000)
	awaitSpend(t, store, charges)
	for range 20 {
		if err := raw.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		awaitSpend(t, store, charges)
	}
	if n := outages.count(); n != 0 {
		t.Errorf("%d notifications, want 0: %v", n, outages.notifications)
	}
}

// Callers, connections and goroutines do not accumulate while Redis does not reply.
func TestBreaker_KeepsCallersFromPilingUp(t *testing.T) {
	server := fixture.Redis(t)
	proxy, outages := connection.ProxyTo(t, server.Addr()), newOutageRecorder()
	store := storeWithBreaker(t, "redis://"+proxy.Addr(), outages)
	charges := unitsOf(t, "shop/a", "acme", 1_000_000)
	awaitSpend(t, store, charges)
	proxy.DropReplies()
	const callers = 64
	slow, before := slowCalls(t, store, charges, callers, 2*time.Second), runtime.NumGoroutine()
	// Each caller has one call in flight when Redis stops replying, and can start another before the first one fails.
	if slow > 2*callers {
		t.Errorf("%d calls of %d callers took longer than 10 ms, want at most %d", slow, callers, 2*callers)
	}
	if after := runtime.NumGoroutine(); after > before+10 || after > 60 {
		t.Errorf("%d goroutines, want at most 60; %d when the callers ended", after, before)
	}
	proxy.Pass()
	receive(t, outages.recovered)
}

// slowCalls runs callers for that duration, and returns how many calls took longer than 10 ms.
func slowCalls(t *testing.T, store *redisstore.Store, charges []limiter.Charge, callers int, duration time.Duration) (slow int64) {
	var wg sync.WaitGroup
	var count, worst atomic.Int64
	end := time.Now().Add(duration)
	for range callers {
		wg.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				_, _ = store.Spend(t.Context(), charges) // fails
				took := time.Since(began)
				if took > 10*time.Millisecond {
					count.Add(1)
				}
				if took > 4*shortTimeout {
					worst.Store(int64(took))
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if w := worst.Load(); w > 0 {
		t.Errorf("a call took %v, want at most %v", time.Duration(w), 4*shortTimeout)
	}
	return count.Load()
}

func TestBreaker_AcceptsOnlyReportedUsageWhileRecovering(t *testing.T) {
	server, outages := fixture.Redis(t), newOutageRecorder()
	recovering, result := make(chan struct{}, 1), make(chan error)
	outages.recovering = func(context.Context, time.Duration) error {
		recovering <- struct{}{}
		return <-result
	}
	store := storeWithBreaker(t, server.URL(), outages)
	charges := unitsOf(t, "shop/a", "acme", 1000)
	awaitSpend(t, store, charges)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	awaitOutage(t, store, charges, outages)
	if uncounted, err := store.ReportUsage(t.Context(), charges[0]); !uncounted || err != nil {
		t.Errorf("ReportUsage while unavailable: uncounted %v, %v", uncounted, err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	<-recovering
	if _, err := store.Spend(t.Context(), charges); redisclient.Kind(err) != redisclient.KindUnavailable {
		t.Errorf("a call while recovering: %v", err)
	}
	if uncounted, err := store.ReportUsage(t.Context(), limiter.Charge{Key: charges[0].Key, Limit: charges[0].Limit, Cost: 900}); uncounted || err != nil {
		t.Errorf("ReportUsage while recovering: uncounted %v, %v", uncounted, err)
	}
	result <- errors.New("one report failed") // the node answers the next probe
	receive(t, outages.recovered)
	// Redis may have counted the call whose reply was lost.
	if left := peekRemaining(t, store, charges); left != 99 && left != 98 {
		t.Errorf("%d units remain of 1000, want 99 or 98 after spending 1 or 2 and reporting 900", left)
	}
}

func TestReportUsage_CountsUpToTheLimit(t *testing.T) {
	server := fixture.Redis(t)
	store := storeWithBreaker(t, server.URL(), newOutageRecorder())
	charges := unitsOf(t, "shop/a", "acme", 100)
	awaitSpend(t, store, charges)
	for _, step := range []struct{ cost, left int64 }{{0, 99}, {40, 59}, {100, 0}, {100, 0}} {
		charge := charges[0]
		charge.Cost = step.cost
		if uncounted, err := store.ReportUsage(t.Context(), charge); uncounted || err != nil {
			t.Errorf("report %d units: uncounted %v, %v", step.cost, uncounted, err)
		}
		if left := peekRemaining(t, store, charges); left != step.left {
			t.Errorf("%d units remain after reporting %d, want %d", left, step.cost, step.left)
		}
	}
}

func TestBreaker_AffectsOnlyTheKeysOfTheUnavailableNode(t *testing.T) {
	t.Parallel()
	cluster, outages := fixture.RedisCluster(t), newOutageRecorder()
	store := storeWithBreaker(t, cluster.URL(), outages)
	chargesByNode := map[*fixture.RedisProcess][]limiter.Charge{}
	for i := range 100 {
		charges := unitsOf(t, "shop/a", fmt.Sprintf("caller-%d", i), 1_000_000)
		node, err := cluster.PrimaryOf(t.Context(), charges[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		chargesByNode[node] = charges
	}
	if len(chargesByNode) != 3 {
		t.Fatalf("keys on %d nodes, want 3", len(chargesByNode))
	}
	var lost *fixture.RedisProcess
	for node, charges := range chargesByNode {
		lost = node
		awaitSpend(t, store, charges)
	}
	if err := lost.Pause(); err != nil {
		t.Fatal(err)
	}
	if address := awaitOutage(t, store, chargesByNode[lost], outages); address != lost.Addr() {
		t.Errorf("unavailable is %s, want %s", address, lost.Addr())
	}
	for node, charges := range chargesByNode {
		if got := store.Unavailable(charges[0].Key); got != (node == lost) {
			t.Errorf("Unavailable for a key of %s = %t", node.Addr(), got)
		}
		if _, err := store.Spend(t.Context(), charges); (err != nil) != (node == lost) {
			t.Errorf("a call for a key of %s: %v", node.Addr(), err)
		}
	}
	if err := lost.Resume(); err != nil {
		t.Fatal(err)
	}
	receive(t, outages.recovered)
	for _, charges := range chargesByNode {
		awaitSpend(t, store, charges)
	}
}
