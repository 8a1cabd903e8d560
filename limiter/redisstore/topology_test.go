package redisstore_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/storetest"
	"github.com/weir-dev/weir/test/fixture"
)

// connect makes a Client for options, with patience.
func connect(t testing.TB, o redisclient.Options) *redisclient.Client {
	t.Helper()
	o.Timeout = patient
	client, err := redisclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// conforms runs the conformance suite on what client is connected to; raw sees the same data with all rights.
func conforms(t *testing.T, client *redisclient.Client, raw *redis.Client) {
	t.Helper()
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		if err := raw.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		store := redisstore.NewStore(client, patient, redisstore.WithClock(clock.Now))
		return storetest.Subject{Store: store, Expires: func(key string) (earliest, latest limiter.Instant, ok bool) {
			at, err := raw.PExpireTime(t.Context(), key).Result()
			if err != nil || at < 0 {
				return 0, 0, false
			}
			latest = limiter.Instant(at.Microseconds())
			return latest - 999, latest, true // Redis keeps milliseconds, rounded up
		}}
	})
}

func TestStoreOnRedisWithAPassword(t *testing.T) {
	server := fixture.Redis(t, "--requirepass", "secret")
	options := redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}, Password: "secret"}
	raw := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "secret"})
	t.Cleanup(func() { _ = raw.Close() })
	conforms(t, connect(t, options), raw)
}

func TestStoreOnRedisWithTLS(t *testing.T) {
	for name, mutual := range map[string]bool{"the server's certificate": false, "certificates of both sides": true} {
		t.Run(name, func(t *testing.T) {
			server, files := fixture.RedisTLS(t, mutual)
			config, err := files.ClientConfig()
			if err != nil {
				t.Fatal(err)
			}
			options := redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}}
			raw := redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: config})
			t.Cleanup(func() { _ = raw.Close() })

			options.TLS = config.Clone()
			if !mutual {
				options.TLS.Certificates = nil
			}
			conforms(t, connect(t, options), raw)

			options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: config.Certificates}
			if err := connect(t, options).Ping(t.Context()); err == nil {
				t.Error("a server that no known authority vouches for was trusted")
			}
			options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: config.RootCAs}
			if err := connect(t, options).Ping(t.Context()); (err != nil) != mutual {
				t.Errorf("without a certificate of the client: %v", err)
			}
		})
	}
}

// leavesNothingBehind wants, when all that the test starts from now on has been stopped, that no goroutine is left of it.
// It waits: a pool that could not connect looks once a second whether it is closed.
func leavesNothingBehind(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		for deadline := time.Now().Add(patient); ; {
			err := goleak.Find(before)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Error(err)
				return
			}
		}
	})
}

// unitsOf returns a charge of one unit on a counter of its own.
func unitsOf(t testing.TB, policy, identifier string, units int64) []limiter.Charge {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, units, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	key := limiter.NewKeySpace("weir:", "Tenant", "test/"+policy, limit).Key(identifier, "")
	return []limiter.Charge{{Key: key, Limit: limit, Cost: 1}}
}

const (
	// callTimeout is what a call gets under load.
	callTimeout = 250 * time.Millisecond
	// callSlack is what a loaded machine may add: a call without deadline would take seconds or for ever.
	callSlack = time.Second
	// recovery bounds the time from a new primary to decisions by all callers.
	recovery = 15 * time.Second
	// shared is the limit on the counter that all callers share.
	shared = 2000
)

// load is callers who spend on one shared counter, and each on one of their own, until they are stopped.
type load struct {
	store    *redisstore.Store
	calls    [8]atomic.Int64 // of each caller, that were answered
	failures atomic.Int64
	admitted atomic.Int64 // on the shared counter
	slowest  atomic.Int64 // nanoseconds
	stop     chan struct{}
	stopped  sync.Once
	wg       sync.WaitGroup
}

// newLoad stops with the test at the latest.
func newLoad(t *testing.T, store *redisstore.Store) *load {
	t.Helper()
	l := &load{store: store, stop: make(chan struct{})}
	t.Cleanup(l.halt)
	return l
}

func (l *load) halt() {
	l.stopped.Do(func() { close(l.stop) })
	l.wg.Wait()
}

func startLoad(t *testing.T, store *redisstore.Store) *load {
	t.Helper()
	l := newLoad(t, store)
	common := unitsOf(t, "shared", "all", shared)
	for i := range l.calls {
		own := unitsOf(t, "own", "caller-"+strconv.Itoa(i), 100_000)
		l.wg.Go(func() {
			for l.goesOn() {
				if l.call(t.Context(), common) {
					l.admitted.Add(1)
				}
				l.call(t.Context(), own)
				l.calls[i].Add(1)
			}
		})
	}
	return l
}

// goesOn leaves the machine some air between the calls.
func (l *load) goesOn() bool {
	select {
	case <-l.stop:
		return false
	case <-time.After(time.Millisecond):
		return true
	}
}

func (l *load) call(ctx context.Context, charges []limiter.Charge) (admitted bool) {
	began := time.Now()
	decisions, err := l.store.Spend(ctx, charges)
	took := time.Since(began)
	for slowest := l.slowest.Load(); int64(took) > slowest && !l.slowest.CompareAndSwap(slowest, int64(took)); {
		slowest = l.slowest.Load()
	}
	if err != nil {
		l.failures.Add(1)
		return false
	}
	return decisions[0].Allowed
}

// answered waits until every caller has got so many more rounds of answers without a failure in between.
func (l *load) answered(t *testing.T, rounds int64) {
	t.Helper()
	deadline := time.Now().Add(recovery)
	for {
		failures := l.failures.Load()
		var from [len(l.calls)]int64
		for i := range l.calls {
			from[i] = l.calls[i].Load()
		}
		if l.advanced(from, rounds, deadline) && l.failures.Load() == failures {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v calls still fail", recovery)
		}
	}
}

func (l *load) advanced(from [8]int64, rounds int64, deadline time.Time) bool {
	for i := range from {
		for l.calls[i].Load() < from[i]+rounds {
			if time.Now().After(deadline) {
				return false
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return true
}

// end stops the callers and holds what they saw to what is promised.
func (l *load) end(t *testing.T, mayLose int64) {
	t.Helper()
	l.halt()
	if slowest := time.Duration(l.slowest.Load()); slowest > callTimeout+callSlack {
		t.Errorf("a call with a deadline of %v took %v", callTimeout, slowest)
	}
	if admitted := l.admitted.Load(); admitted > shared+mayLose {
		t.Errorf("admitted %d, want at most %d, and %d more that Redis may have forgotten", admitted, int64(shared), mayLose)
	}
}

func openStore(t *testing.T, url string) (*redisstore.Store, *redisclient.Client) {
	t.Helper()
	client, err := redisclient.Open(url, callTimeout)
	if err != nil {
		t.Fatal(err)
	}
	return redisstore.NewStore(client, callTimeout), client
}

// replicated waits until everything written on primary before is on its replicas: they apply writes in order.
func replicated(t *testing.T, primary *fixture.RedisProcess, replicas []*fixture.RedisProcess) {
	t.Helper()
	offset := func(server *fixture.RedisProcess, field string) int {
		info, err := server.Do(t.Context(), "INFO", "replication")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(fmt.Sprint(info), field+":")
		number, _, _ := strings.Cut(after, "\r")
		n, _ := strconv.Atoi(number)
		return n
	}
	written := offset(primary, "master_repl_offset")
	for _, replica := range replicas {
		for deadline := time.Now().Add(patient); offset(replica, "slave_repl_offset") < written; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("a replica does not catch up")
			}
		}
	}
}

func TestStoreUnderSentinels(t *testing.T) {
	leavesNothingBehind(t)
	group := fixture.RedisSentinel(t)
	primary, err := group.Primary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("conforms", func(t *testing.T) {
		conforms(t, open(t, group.URL()), rawClient(t, primary.URL()))
	})
	t.Run("outlives the primary under load", func(t *testing.T) {
		store, client := openStore(t, group.URL())
		defer client.Close()
		before := unitsOf(t, "before", "acme", 100)
		before[0].Cost = 60
		if left := remaining(t, store, before); left != 40 {
			t.Fatalf("left %d, want 40", left)
		}
		replicated(t, primary, others(group.Servers(), primary))
		updates := controlplane.NewExchange(client, "weir:", "weir-system/default").Subscribe(t.Context())
		l := startLoad(t, store)
		l.answered(t, 50)
		killed, err := group.KillPrimary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if promoted, err := group.Primary(t.Context()); err != nil || promoted == killed {
			t.Fatalf("no new primary: %v", err)
		}
		l.answered(t, 50)
		l.end(t, shared) // what the replica had not heard of yet, in the worst case all
		if l.failures.Load() == 0 {
			t.Error("nobody noticed that the primary was gone")
		}
		hears(t, client, updates)
		before[0].Cost = 40
		if left := remaining(t, store, before); left != 0 {
			t.Errorf("left %d, want 0: what was replicated is remembered", left)
		}
	})
}

func others(all []*fixture.RedisProcess, one *fixture.RedisProcess) []*fixture.RedisProcess {
	var rest []*fixture.RedisProcess
	for _, server := range all {
		if server != one {
			rest = append(rest, server)
		}
	}
	return rest
}

func TestStoreOnAClusterOfThree(t *testing.T) {
	leavesNothingBehind(t)
	cluster := fixture.RedisCluster(t)
	key := unitsOf(t, "shared", "all", shared)[0].Key

	t.Run("follows a slot that moves under load", func(t *testing.T) {
		store, client := openStore(t, cluster.URL())
		defer client.Close()
		l := startLoad(t, store)
		l.answered(t, 20)
		m, err := cluster.BeginMigration(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		l.answered(t, 20) // at the old place
		if err := m.MoveKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.answered(t, 20) // by ASK
		if err := m.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.answered(t, 20) // by MOVED
		l.end(t, 0)
		if failures := l.failures.Load(); failures > 0 {
			t.Logf("%d calls failed", failures) // on a loaded machine, for time
			return
		}
		left, err := store.Peek(t.Context(), unitsOf(t, "shared", "all", shared))
		if err != nil || left[0].Remaining != shared-l.admitted.Load() {
			t.Errorf("left %+v, %v after %d were admitted", left, err, l.admitted.Load())
		}
	})
	t.Run("waits for keys that move one by one", func(t *testing.T) {
		store := redisstore.NewStore(open(t, cluster.URL()), patient)
		here := unitsOf(t, "here", "acme", 10)
		remaining(t, store, here)
		m, err := cluster.BeginMigration(t.Context(), here[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		time.AfterFunc(100*time.Millisecond, func() { done <- m.Finish(t.Context()) })
		decisions, err := store.Spend(t.Context(), append(here, unitsOf(t, "there", "acme", 10)...))
		if err != nil || decisions[0].Remaining != 8 || decisions[1].Remaining != 9 {
			t.Errorf("%+v, %v; want 8 and 9 left", decisions, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for name, end := range map[string]func(*fixture.RedisProcess) error{
		"outlives a primary that dies under load": func(primary *fixture.RedisProcess) error {
			primary.Kill()
			return nil
		},
		"outlives a primary that hangs under load": (*fixture.RedisProcess).Pause,
	} {
		t.Run(name, func(t *testing.T) { outlives(t, cluster, key, end) })
	}
}

// outlives ends the primary of key in some way while callers spend on it, and wants them to go on with the next.
func outlives(t *testing.T, cluster *fixture.RedisClusterGroup, key string, end func(*fixture.RedisProcess) error) {
	t.Helper()
	store, client := openStore(t, cluster.URL())
	defer client.Close()
	updates := controlplane.NewExchange(client, "weir:", "weir-system/default").Subscribe(t.Context())
	l := startLoad(t, store)
	l.answered(t, 20)
	primary, err := cluster.PrimaryOf(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := end(primary); err != nil {
		t.Fatal(err)
	}
	if next, err := cluster.PrimaryOf(t.Context(), key); err != nil || next == primary {
		t.Fatalf("no new primary: %v", err)
	}
	l.answered(t, 20)
	l.end(t, shared) // what the replica had not heard of yet, in the worst case all
	if l.failures.Load() == 0 {
		t.Error("nobody noticed that the primary was gone")
	}
	hears(t, client, updates)
	if err := primary.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.WaitOK(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// hears wants a rule set that is published now to be heard of.
func hears(t *testing.T, client *redisclient.Client, updates <-chan string) {
	t.Helper()
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")
	deadline := time.After(recovery)
	for n := 0; ; n++ {
		revision := "sha256:" + strconv.Itoa(n)
		if _, err := exchange.Publish(t.Context(), revision, []byte("a set")); err != nil {
			t.Logf("publish: %v", err)
		}
		select {
		case heard := <-updates:
			if heard == revision {
				return
			}
		case <-deadline:
			t.Fatal("what is published is not heard of")
		case <-time.After(callTimeout):
		}
	}
}

// A place is a way to Redis through a proxy.
type place struct {
	url   string
	proxy *fixture.Proxy
}

// places are a server, the primary of a Sentinel and a cluster of one node, each behind a proxy that the client cannot
// get around.
func places() map[string]func(t *testing.T) place {
	return map[string]func(t *testing.T) place{
		"one server": func(t *testing.T) place {
			proxy := fixture.ProxyTo(t, fixture.Redis(t).Addr())
			return place{"redis://" + proxy.Addr(), proxy}
		},
		"under Sentinel": func(t *testing.T) place {
			proxy := fixture.ProxyTo(t, fixture.Redis(t).Addr())
			return place{"redis://" + fixture.Sentinel(t, proxy.Addr()).Addr() + "?master=weir", proxy}
		},
		"a cluster": func(t *testing.T) place {
			node := fixture.RedisClusterNode(t)
			proxy := fixture.ProxyTo(t, node.Addr())
			_, port, _ := net.SplitHostPort(proxy.Addr())
			if _, err := node.Do(t.Context(), "CONFIG", "SET", "cluster-announce-port", port); err != nil {
				t.Fatal(err)
			}
			return place{"redis://" + proxy.Addr() + "?addr=" + proxy.Addr(), proxy}
		},
	}
}

func TestALostReplyIsChargedOnce(t *testing.T) {
	faults := map[string]func(*fixture.Proxy){
		"dropped": (*fixture.Proxy).DropReplies,
		"cut":     func(p *fixture.Proxy) { p.CutReplies(1) },
		"late":    func(p *fixture.Proxy) { p.DelayReplies(2 * callTimeout) },
	}
	for name, at := range places() {
		t.Run(name, func(t *testing.T) {
			place := at(t)
			store, client := openStore(t, place.url)
			defer client.Close()
			for fault, begin := range faults {
				t.Run(fault, func(t *testing.T) {
					charges := unitsOf(t, fault, "acme", 10)
					settle(t, store, charges)
					begin(place.proxy)
					began := time.Now()
					decisions, err := store.Spend(t.Context(), charges)
					if took := time.Since(began); err == nil || took > callTimeout+callSlack {
						t.Errorf("got %+v, %v after %v; want an error by the deadline", decisions, err, took)
					}
					place.proxy.Pass()
					if left := settle(t, store, charges); left != 9 {
						t.Errorf("left %d, want 9", left)
					}
				})
			}
		})
	}
}

// settle peeks until it gets an answer: connections may still have to be made anew.
func settle(t *testing.T, store *redisstore.Store, charges []limiter.Charge) int64 {
	t.Helper()
	for deadline := time.Now().Add(patient); ; {
		decisions, err := store.Peek(t.Context(), charges)
		if err == nil {
			return decisions[0].Remaining
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestUnderFaultsNothingIsCountedTwice(t *testing.T) {
	for name, at := range places() {
		t.Run(name, func(t *testing.T) {
			leavesNothingBehind(t)
			place := at(t)
			store, client := openStore(t, place.url)
			defer client.Close()
			charges := unitsOf(t, "faults", "acme", 100_000)
			settle(t, store, charges)
			var calls, admitted atomic.Int64
			l := newLoad(t, store)
			for range l.calls {
				l.wg.Go(func() {
					for l.goesOn() {
						calls.Add(1)
						if l.call(t.Context(), charges) {
							admitted.Add(1)
						}
					}
				})
			}
			for range 3 {
				for _, begin := range []func(){
					func() { place.proxy.CutReplies(3) }, place.proxy.Pass, place.proxy.DropReplies, place.proxy.Pass,
					func() { place.proxy.DelayReplies(callTimeout) }, place.proxy.Pass,
				} {
					begin()
					time.Sleep(40 * time.Millisecond) // the weather changes; nothing is waited for
				}
			}
			l.end(t, 0)
			counted := 100_000 - settle(t, store, charges)
			if counted < admitted.Load() || counted > calls.Load() {
				t.Errorf("counted %d, want at least the %d that were told so and at most the %d calls", counted, admitted.Load(), calls.Load())
			}
			if l.failures.Load() == 0 {
				t.Error("the faults harmed nobody")
			}
		})
	}
}
