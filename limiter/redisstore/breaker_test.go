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
)

// short is the deadline of a call whose Redis does not answer.
const short = 50 * time.Millisecond

// witness notes what it is told of outages.
type witness struct {
	mu      sync.Mutex
	told    []string
	gone    chan string
	back    chan string
	recover func(ctx context.Context, away time.Duration) error
}

func newWitness() *witness {
	return &witness{
		gone: make(chan string, 100), back: make(chan string, 100),
		recover: func(context.Context, time.Duration) error { return nil },
	}
}

func (w *witness) Unavailable(address string, _ error) { w.tell("away", address, w.gone) }
func (w *witness) Recovered(address string)            { w.tell("back", address, w.back) }
func (w *witness) Recovering(ctx context.Context, away time.Duration) error {
	return w.recover(ctx, away)
}

func (w *witness) tell(what, address string, to chan string) {
	w.mu.Lock()
	w.told = append(w.told, what+" "+address)
	w.mu.Unlock()
	to <- address
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.told)
}

// heard waits for a word of an outage.
func heard(t *testing.T, words <-chan string) (address string) {
	t.Helper()
	select {
	case address = <-words:
	case <-time.After(patient):
		t.Fatal("nothing is told")
	}
	return address
}

// guarded is a Store on a Redis whose calls give up soon.
func guarded(t *testing.T, url string, outages redisstore.OutageObserver) *redisstore.Store {
	t.Helper()
	client, err := redisclient.Open(url, short)
	if err != nil {
		t.Fatal(err)
	}
	store := redisstore.NewStore(client, short)
	ctx, cancel := context.WithCancel(context.Background())
	store.EnableBreaker(ctx, outages)
	t.Cleanup(func() {
		cancel()
		_ = client.Close()
	})
	return store
}

// working waits until a spend works.
func working(t *testing.T, store *redisstore.Store, charges []limiter.Charge) {
	t.Helper()
	deadline := time.Now().Add(patient)
	for {
		_, err := store.Spend(t.Context(), charges)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// left is how many units remain.
func left(t *testing.T, store *redisstore.Store, charges []limiter.Charge) int64 {
	t.Helper()
	decisions, err := store.Peek(t.Context(), charges)
	if err != nil {
		t.Fatal(err)
	}
	return decisions[0].Remaining
}

// faults are the ways in which a Redis fails, each with its repair.
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
		"stopped, a black hole": func(t *testing.T, s *fixture.RedisProcess) func() {
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
		"closed to us": func(t *testing.T, s *fixture.RedisProcess) func() {
			command(t, s, "ACL", "SETUSER", "default", "-set", "-evalsha")
			return func() { command(t, s, "ACL", "SETUSER", "default", "+set", "+evalsha") }
		},
	}
}

func TestARedisThatFailsIsNotAskedUntilItIsBack(t *testing.T) {
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			server, witness := fixture.Redis(t), newWitness()
			store := guarded(t, server.URL(), witness)
			charges := unitsOf(t, "shop/a", "acme", 1000)
			working(t, store, charges)
			repair := fault(t, server)
			began := time.Now()
			if _, err := store.Spend(t.Context(), charges); err == nil {
				t.Fatal("it still works")
			}
			if took := time.Since(began); took > 10*short {
				t.Errorf("the first call took %v", took)
			}
			if address := heard(t, witness.gone); address != server.Addr() {
				t.Errorf("away is %q, want %q", address, server.Addr())
			}
			began = time.Now()
			for range 10_000 {
				if _, err := store.Spend(t.Context(), charges); redisclient.Kind(err) != "away" {
					t.Fatalf("a call made during the outage: %v", err)
				}
			}
			if each := time.Since(began) / 10_000; each > time.Millisecond {
				t.Errorf("a call during the outage takes %v", each)
			}
			if !store.Unavailable(charges[0].Key) {
				t.Error("it is not away")
			}
			repair()
			heard(t, witness.back)
			if d, err := store.Spend(t.Context(), charges); err != nil || !d[0].Allowed || store.Unavailable(charges[0].Key) {
				t.Errorf("when it is back: %+v, %v", d, err)
			}
		})
	}
}

// TestARedisThatIsNotWhatItWasTakenForIsAway: what can be written to, too, if it runs no script.
func TestARedisThatIsNotWhatItWasTakenForIsAway(t *testing.T) {
	scriptless, err := fixture.StartRedis(t.Context(), "--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scriptless.Stop() })
	server := fixture.Redis(t)
	for name, url := range map[string]string{
		"a database that is not there": server.URL() + "/99",
		"no cluster":                   server.URL() + "?cluster=true",
		"no Sentinel":                  "redis://" + server.Addr() + "?master=mymaster",
		"without scripts":              scriptless.URL(),
	} {
		t.Run(name, func(t *testing.T) {
			witness := newWitness()
			store := guarded(t, url, witness)
			charges := unitsOf(t, "shop/a", "acme", 1000)
			_, err := store.Spend(t.Context(), charges)
			wantKind(t, err, "unfit")
			heard(t, witness.gone)
			if _, err := store.Spend(t.Context(), charges); redisclient.Kind(err) != "away" {
				t.Errorf("a call during the outage: %v", err)
			}
			if n := witness.count(); n != 1 {
				t.Errorf("%d words of one outage: %v", n, witness.told)
			}
		})
	}
}

// TestABrokenConnectionIsNoOutage: what a probe finds well at once is not told of.
func TestABrokenConnectionIsNoOutage(t *testing.T) {
	server, witness := fixture.Redis(t), newWitness()
	store := guarded(t, server.URL(), witness)
	raw := rawClient(t, server.URL())
	charges := unitsOf(t, "shop/a", "acme", 1000)
	working(t, store, charges)
	for range 20 {
		if err := raw.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		working(t, store, charges)
	}
	if n := witness.count(); n != 0 {
		t.Errorf("%d words of outages: %v", n, witness.told)
	}
}

// TestABlackHoleHoldsNothing: callers, connections and goroutines do not pile up where nothing comes back.
func TestABlackHoleHoldsNothing(t *testing.T) {
	server := fixture.Redis(t)
	proxy, witness := fixture.ProxyTo(t, server.Addr()), newWitness()
	store := guarded(t, "redis://"+proxy.Addr(), witness)
	charges := unitsOf(t, "shop/a", "acme", 1_000_000)
	working(t, store, charges)
	proxy.DropReplies()
	const callers = 64
	slow, before := slowCalls(t, store, charges, callers, 2*time.Second), runtime.NumGoroutine()
	// Each caller is in the middle of one call when Redis goes silent, and may begin another before the first has failed.
	if slow > 2*callers {
		t.Errorf("%d calls of %d callers took longer than 10 ms", slow, callers)
	}
	if after := runtime.NumGoroutine(); after > before+10 || after > 60 {
		t.Errorf("%d goroutines, and %d when the callers were gone", after, before)
	}
	proxy.Pass()
	heard(t, witness.back)
}

// slowCalls has callers call for a while and returns how many calls took long.
func slowCalls(t *testing.T, store *redisstore.Store, charges []limiter.Charge, callers int, lasts time.Duration) (slow int64) {
	var wg sync.WaitGroup
	var count, worst atomic.Int64
	end := time.Now().Add(lasts)
	for range callers {
		wg.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				_, _ = store.Spend(t.Context(), charges) // it fails
				took := time.Since(began)
				if took > 10*time.Millisecond {
					count.Add(1)
				}
				if took > 4*short {
					worst.Store(int64(took))
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if w := worst.Load(); w > 0 {
		t.Errorf("a call took %v", time.Duration(w))
	}
	return count.Load()
}

// TestUntilItIsToldWhatHappenedMeanwhileOnlyThatReachesIt: calls wait for the recovery, units repaid do not.
func TestUntilItIsToldWhatHappenedMeanwhileOnlyThatReachesIt(t *testing.T) {
	server, witness := fixture.Redis(t), newWitness()
	recovering, recovered := make(chan struct{}, 1), make(chan error)
	witness.recover = func(context.Context, time.Duration) error {
		recovering <- struct{}{}
		return <-recovered
	}
	store := guarded(t, server.URL(), witness)
	charges := unitsOf(t, "shop/a", "acme", 1000)
	working(t, store, charges)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Spend(t.Context(), charges); err == nil {
		t.Fatal("a Redis that stands still answers")
	}
	heard(t, witness.gone)
	if uncounted, err := store.ReportUsage(t.Context(), charges[0]); !uncounted || err != nil {
		t.Errorf("repaid to a Redis that is away: uncounted %v, %v", uncounted, err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	<-recovering
	if _, err := store.Spend(t.Context(), charges); redisclient.Kind(err) != "away" {
		t.Errorf("a call before it is told: %v", err)
	}
	if uncounted, err := store.ReportUsage(t.Context(), limiter.Charge{Key: charges[0].Key, Limit: charges[0].Limit, Cost: 900}); uncounted || err != nil {
		t.Errorf("repaid: uncounted %v, %v", uncounted, err)
	}
	recovered <- errors.New("it has failed again")
	<-recovering
	recovered <- nil
	heard(t, witness.back)
	// The call that was lost may have been counted when Redis went on.
	if left := left(t, store, charges); left != 99 && left != 98 {
		t.Errorf("%d units remain of 1000 after 1 or 2 and 900", left)
	}
}

func TestWhatIsRepaidIsCountedAsFarAsItFits(t *testing.T) {
	server := fixture.Redis(t)
	store := guarded(t, server.URL(), newWitness())
	charges := unitsOf(t, "shop/a", "acme", 100)
	working(t, store, charges)
	for _, step := range []struct{ cost, left int64 }{{0, 99}, {40, 59}, {100, 0}, {100, 0}} {
		charge := charges[0]
		charge.Cost = step.cost
		if uncounted, err := store.ReportUsage(t.Context(), charge); uncounted || err != nil {
			t.Errorf("%d units: uncounted %v, %v", step.cost, uncounted, err)
		}
		if left := left(t, store, charges); left != step.left {
			t.Errorf("after %d units %d remain, want %d", step.cost, left, step.left)
		}
	}
}

// TestANodeOfAClusterThatIsAwayConcernsItsOwnSubjectsOnly: the others are asked as ever.
func TestANodeOfAClusterThatIsAwayConcernsItsOwnSubjectsOnly(t *testing.T) {
	cluster, witness := fixture.RedisCluster(t), newWitness()
	store := guarded(t, cluster.URL(), witness)
	subjects := map[*fixture.RedisProcess][]limiter.Charge{}
	for i := range 100 {
		charges := unitsOf(t, "shop/a", fmt.Sprintf("subject-%d", i), 1_000_000)
		node, err := cluster.PrimaryOf(t.Context(), charges[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		subjects[node] = charges
	}
	if len(subjects) != 3 {
		t.Fatalf("subjects on %d nodes", len(subjects))
	}
	var lost *fixture.RedisProcess
	for node, charges := range subjects {
		lost = node
		working(t, store, charges)
	}
	if err := lost.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Spend(t.Context(), subjects[lost]); err == nil {
		t.Fatal("a node that stands still answers")
	}
	if address := heard(t, witness.gone); address != lost.Addr() {
		t.Errorf("away is %s, want %s", address, lost.Addr())
	}
	for node, charges := range subjects {
		if away := store.Unavailable(charges[0].Key); away != (node == lost) {
			t.Errorf("a subject of %s: away %v", node.Addr(), away)
		}
		if _, err := store.Spend(t.Context(), charges); (err != nil) != (node == lost) {
			t.Errorf("a subject of %s: %v", node.Addr(), err)
		}
	}
	if err := lost.Resume(); err != nil {
		t.Fatal(err)
	}
	heard(t, witness.back)
	for _, charges := range subjects {
		working(t, store, charges)
	}
}
