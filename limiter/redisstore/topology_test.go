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

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/storetest"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

// connect returns a client with a long timeout.
func connect(t testing.TB, o redisclient.Options) *redisclient.Client {
	t.Helper()
	o.Timeout = longTimeout
	client, err := redisclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// decides checks with every call of a Store that the Redis of client loads and runs the scripts. Connections do not change
// what scripts decide, so the whole conformance suite runs only on one server and on one cluster.
func decides(t *testing.T, client *redisclient.Client) {
	t.Helper()
	now := storetest.Epoch().Time()
	store := redisstore.NewStore(client, longTimeout, redisstore.WithClock(func() time.Time { return now }))
	var all []limiter.Charge
	for _, algorithm := range everyAlgorithm() {
		for _, units := range []int64{10, 1000} { // small and large
			limit, err := limiter.NewLimit(algorithm, units, time.Hour)
			if err == nil && algorithm == limiter.LeakyBucket {
				limit, err = limit.WithBurst(units - 1)
			}
			if err != nil {
				t.Fatal(err)
			}
			key := limiter.NewKeySpace("weir:", "Tenant", fmt.Sprintf("test/decides-%d", units), limit).Key("acme", "")
			all = append(all, limiter.Charge{Key: key, Limit: limit, Cost: 2})
		}
	}
	want := func(call string, spent int64, charges []limiter.Charge, decisions []limiter.Decision, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		for i, d := range decisions {
			if units := charges[i].Limit.Units(); !d.Allowed || d.Remaining != units-spent {
				t.Errorf("%s: %v: %+v, want it allowed with %d remaining", call, charges[i].Limit, d, units-spent)
			}
		}
	}
	for i := range all {
		decisions, err := store.Spend(t.Context(), all[i:i+1])
		want("spend on one counter", 2, all[i:i+1], decisions, err)
	}
	decisions, err := store.Spend(t.Context(), all)
	want("spend on all counters", 4, all, decisions, err)
	var refunds []limiter.Refund
	var keys []string
	for i, c := range all {
		refunds = append(refunds, limiter.Refund{Key: c.Key, Limit: c.Limit, Cost: 1, At: decisions[i].At})
		keys = append(keys, c.Key)
	}
	if err := store.Refund(t.Context(), refunds); err != nil {
		t.Fatal(err)
	}
	decisions, err = store.Peek(t.Context(), all)
	want("peek after a refund of one unit", 3, all, decisions, err)
	if err := store.Reset(t.Context(), keys, ""); err != nil {
		t.Fatal(err)
	}
	decisions, err = store.Peek(t.Context(), all)
	want("peek after a reset", 0, all, decisions, err)
}

func TestStore_DecidesWithAPassword(t *testing.T) {
	server := fixture.Redis(t, "--requirepass", "secret")
	options := redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}, Password: "secret"}
	decides(t, connect(t, options))
}

func TestStore_DecidesWithTLS(t *testing.T) {
	for name, mutual := range map[string]bool{"server certificate": false, "server and client certificate": true} {
		t.Run(name, func(t *testing.T) {
			server, files := fixture.RedisTLS(t, mutual)
			config, err := files.ClientConfig()
			if err != nil {
				t.Fatal(err)
			}
			options := redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}}
			options.TLS = config.Clone()
			if !mutual {
				options.TLS.Certificates = nil
			}
			decides(t, connect(t, options))

			options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: config.Certificates}
			if err := connect(t, options).Ping(t.Context()); err == nil {
				t.Error("no error although no trusted CA signed the certificate of the server")
			}
			options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: config.RootCAs}
			if err := connect(t, options).Ping(t.Context()); (err != nil) != mutual {
				t.Errorf("without a client certificate: %v", err)
			}
		})
	}
}

// unitsOf returns a charge of one unit on a counter for that policy and identifier.
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
	// callTimeout is the timeout of a call under load.
	callTimeout = 250 * time.Millisecond
	// callSlack is the extra time on a loaded machine: a call without deadline would take seconds or would not return.
	callSlack = time.Second
	// recovery bounds the time from a new primary to decisions for all callers.
	recovery = 15 * time.Second
	// shared is the limit of the counter that all callers share. They do not reach it.
	shared = 100_000
)

// load is a number of callers that spend on a shared counter and on a counter of their own until they are stopped.
type load struct {
	store    *redisstore.Store
	timeout  time.Duration   // of store
	calls    [8]atomic.Int64 // calls of each caller that returned
	failures atomic.Int64
	left     int64        // remaining on the shared counter before the first call
	asked    atomic.Int64 // calls on the shared counter
	admitted atomic.Int64 // of them
	slowest  atomic.Int64 // nanoseconds
	stop     chan struct{}
	stopped  sync.Once
	wg       sync.WaitGroup
}

// newLoad returns a load that stops at the end of the test, or earlier.
func newLoad(t *testing.T, store *redisstore.Store, timeout time.Duration) *load {
	t.Helper()
	l := &load{store: store, timeout: timeout, stop: make(chan struct{})}
	t.Cleanup(l.halt)
	return l
}

func (l *load) halt() {
	l.stopped.Do(func() { close(l.stop) })
	l.wg.Wait()
}

func startLoad(t *testing.T, store *redisstore.Store, timeout time.Duration) *load {
	t.Helper()
	l := newLoad(t, store, timeout)
	common := unitsOf(t, "shared", "all", shared)
	l.left = awaitPeek(t, store, common)
	for i := range l.calls {
		own := unitsOf(t, "own", "caller-"+strconv.Itoa(i), 100_000)
		l.wg.Go(func() {
			for l.next() {
				l.asked.Add(1)
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

// next pauses for a millisecond, and returns false if the load is stopped.
func (l *load) next() bool {
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

// awaitRounds waits until every caller completed that number of additional rounds without a failure of any caller.
func (l *load) awaitRounds(t *testing.T, rounds int64) {
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
			t.Fatalf("calls still fail after %v", recovery)
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

// end stops the callers, and checks the duration of the calls, and that the shared counter has what was admitted: no call
// was counted twice, and no more than mayLose admitted units are lost.
func (l *load) end(t *testing.T, mayLose int64) {
	t.Helper()
	l.halt()
	if slowest := time.Duration(l.slowest.Load()); slowest > l.timeout+callSlack {
		t.Errorf("a call with a deadline of %v took %v", l.timeout, slowest)
	}
	counted := l.left - awaitPeek(t, l.store, unitsOf(t, "shared", "all", shared))
	if counted < l.admitted.Load()-mayLose || counted > l.asked.Load() {
		t.Errorf("counted %d, want at least the %d admitted except %d that Redis may lose, and at most the %d calls",
			counted, l.admitted.Load(), mayLose, l.asked.Load())
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

// awaitReplication waits until the replicas have all current writes of primary. They apply writes in order.
func awaitReplication(t *testing.T, primary *fixture.RedisProcess, replicas []*fixture.RedisProcess) {
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
		fixture.Await(t, "the replica has the writes of the primary", func() bool {
			return offset(replica, "slave_repl_offset") >= written
		})
	}
}

// failover calls replace, which stops primary and waits for the next one. It returns how many admitted units Redis may lose:
// only those that were admitted since the replicas had all units.
func (l *load) failover(t *testing.T, primary *fixture.RedisProcess, replicas []*fixture.RedisProcess, replace func()) (mayLose int64) {
	t.Helper()
	replicated := l.admitted.Load()
	awaitReplication(t, primary, replicas)
	replace()
	return l.admitted.Load() - replicated
}

// replicasOf returns the replicas of a primary, of which there is at least one.
func replicasOf(t *testing.T, cluster *fixture.RedisClusterGroup, primary *fixture.RedisProcess) []*fixture.RedisProcess {
	t.Helper()
	_, port, _ := net.SplitHostPort(primary.Addr())
	var replicas []*fixture.RedisProcess
	for _, node := range others(cluster.Nodes(), primary) {
		info, err := node.Do(t.Context(), "INFO", "replication")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(info), "master_port:"+port+"\r") {
			replicas = append(replicas, node)
		}
	}
	if len(replicas) == 0 {
		t.Fatalf("%s has no replica", primary.Addr())
	}
	return replicas
}

func TestStore_WorksWithSentinels(t *testing.T) { //nolint:tparallel // the subtests share the Sentinels
	t.Parallel()
	group := fixture.RedisSentinel(t)
	primary, err := group.Primary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("decides", func(t *testing.T) { decides(t, open(t, group.URL())) })
	t.Run("survives a failover under load", func(t *testing.T) {
		store, client := openStore(t, group.URL())
		defer client.Close()
		before := unitsOf(t, "before", "acme", 100)
		before[0].Cost = 60
		if left := remaining(t, store, before); left != 40 {
			t.Fatalf("remaining %d, want 40", left)
		}
		awaitReplication(t, primary, others(group.Servers(), primary)) // of before
		updates := controlplane.NewExchange(client, "weir:", "weir-system/default").Subscribe(t.Context())
		l := startLoad(t, store, callTimeout)
		l.awaitRounds(t, 50)
		mayLose := l.failover(t, primary, others(group.Servers(), primary), func() {
			killed, err := group.KillPrimary(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if promoted, err := group.Primary(t.Context()); err != nil || promoted == killed {
				t.Fatalf("no new primary: %v", err)
			}
		})
		l.awaitRounds(t, 50)
		l.end(t, mayLose)
		if l.failures.Load() == 0 {
			t.Error("no call failed although the primary was stopped")
		}
		awaitRevision(t, client, updates)
		before[0].Cost = 40
		if left := remaining(t, store, before); left != 0 {
			t.Errorf("remaining %d, want 0, because the replica had the counter", left)
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

func TestStore_WorksOnAClusterOfThree(t *testing.T) { //nolint:tparallel // the subtests share the cluster
	t.Parallel()
	cluster := fixture.RedisCluster(t)
	key := unitsOf(t, "shared", "all", shared)[0].Key

	t.Run("decides", func(t *testing.T) { decides(t, open(t, cluster.URL())) })
	t.Run("loses no call while a slot moves under load", func(t *testing.T) {
		store := redisstore.NewStore(open(t, cluster.URL()), longTimeout) // on a loaded machine, too, no call needs that long
		l := startLoad(t, store, longTimeout)
		l.awaitRounds(t, 20)
		m, err := cluster.BeginMigration(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		l.awaitRounds(t, 20) // on the old node
		if err := m.MoveKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.awaitRounds(t, 20) // redirected by ASK
		if err := m.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.awaitRounds(t, 20) // redirected by MOVED
		l.end(t, 0)
		if failures := l.failures.Load(); failures > 0 {
			t.Errorf("%d calls failed, want 0", failures)
		}
	})
	t.Run("waits while keys move one by one", func(t *testing.T) {
		store := redisstore.NewStore(open(t, cluster.URL()), longTimeout)
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
			t.Errorf("got %+v, %v; want 8 and 9 remaining", decisions, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for name, stop := range map[string]func(*fixture.RedisProcess) error{
		"survives a killed primary under load": func(primary *fixture.RedisProcess) error {
			primary.Kill()
			return nil
		},
		"survives a paused primary under load": (*fixture.RedisProcess).Pause,
	} {
		t.Run(name, func(t *testing.T) { survives(t, cluster, key, stop) })
	}
}

// survives stops the primary of key while callers spend on it, and expects their calls to succeed on the next primary.
func survives(t *testing.T, cluster *fixture.RedisClusterGroup, key string, stop func(*fixture.RedisProcess) error) {
	t.Helper()
	store, client := openStore(t, cluster.URL())
	defer client.Close()
	updates := controlplane.NewExchange(client, "weir:", "weir-system/default").Subscribe(t.Context())
	l := startLoad(t, store, callTimeout)
	l.awaitRounds(t, 20)
	primary, err := cluster.PrimaryOf(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	mayLose := l.failover(t, primary, replicasOf(t, cluster, primary), func() {
		if err := stop(primary); err != nil {
			t.Fatal(err)
		}
		if next, err := cluster.PrimaryOf(t.Context(), key); err != nil || next == primary {
			t.Fatalf("no new primary: %v", err)
		}
	})
	l.awaitRounds(t, 20)
	l.end(t, mayLose)
	if l.failures.Load() == 0 {
		t.Error("no call failed although the primary was stopped")
	}
	awaitRevision(t, client, updates)
	if err := primary.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.WaitOK(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// awaitRevision publishes revisions until the subscription receives one.
func awaitRevision(t *testing.T, client *redisclient.Client, updates <-chan string) {
	t.Helper()
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")
	deadline := time.After(recovery)
	for n := 0; ; n++ {
		revision := "sha256:" + strconv.Itoa(n)
		if _, err := exchange.Publish(t.Context(), rules.Encoded{Revision: revision, Data: []byte("a set"), Whole: true}, false); err != nil {
			t.Logf("publish: %v", err)
		}
		select {
		case received := <-updates:
			if received == revision {
				return
			}
		case <-deadline:
			t.Fatal("the subscription received no published revision")
		case <-time.After(callTimeout):
		}
	}
}

// proxiedRedis is a Redis behind a proxy.
type proxiedRedis struct {
	url   string
	proxy *connection.Proxy
}

// proxiedTopologies are a server, a primary with a Sentinel, and a cluster of one node. Each is behind a proxy that the
// client cannot bypass.
func proxiedTopologies() map[string]func(t *testing.T) proxiedRedis {
	return map[string]func(t *testing.T) proxiedRedis{
		"server": func(t *testing.T) proxiedRedis {
			proxy := connection.ProxyTo(t, fixture.Redis(t).Addr())
			return proxiedRedis{"redis://" + proxy.Addr(), proxy}
		},
		"Sentinel": func(t *testing.T) proxiedRedis {
			proxy := connection.ProxyTo(t, fixture.Redis(t).Addr())
			return proxiedRedis{"redis://" + fixture.Sentinel(t, proxy.Addr()).Addr() + "?master=weir", proxy}
		},
		"cluster": func(t *testing.T) proxiedRedis {
			node := fixture.RedisClusterNode(t)
			proxy := connection.ProxyTo(t, node.Addr())
			_, port, _ := net.SplitHostPort(proxy.Addr())
			if _, err := node.Do(t.Context(), "CONFIG", "SET", "cluster-announce-port", port); err != nil {
				t.Fatal(err)
			}
			return proxiedRedis{"redis://" + proxy.Addr() + "?addr=" + proxy.Addr(), proxy}
		},
	}
}

func TestSpend_CountsACallWithALostReplyOnce(t *testing.T) {
	t.Parallel()
	faults := map[string]func(*connection.Proxy){
		"dropped": (*connection.Proxy).DropReplies,
		"cut":     func(p *connection.Proxy) { p.CutReplies(1) },
		"late":    func(p *connection.Proxy) { p.DelayReplies(2 * callTimeout) },
	}
	for name, start := range proxiedTopologies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := start(t)
			store, client := openStore(t, target.url)
			defer client.Close()
			for fault, begin := range faults {
				t.Run(fault, func(t *testing.T) {
					charges := unitsOf(t, fault, "acme", 10)
					awaitPeek(t, store, charges)
					begin(target.proxy)
					began := time.Now()
					decisions, err := store.Spend(t.Context(), charges)
					if took := time.Since(began); err == nil || took > callTimeout+callSlack {
						t.Errorf("got %+v, %v after %v; want an error by the deadline", decisions, err, took)
					}
					target.proxy.Pass()
					if left := awaitPeek(t, store, charges); left != 9 {
						t.Errorf("remaining %d, want 9", left)
					}
				})
			}
		})
	}
}

// awaitPeek peeks until a call succeeds, because connections may have to be dialed again.
func awaitPeek(t *testing.T, store *redisstore.Store, charges []limiter.Charge) int64 {
	t.Helper()
	var remaining int64
	fixture.Await(t, "a peek succeeds", func() bool {
		decisions, err := store.Peek(t.Context(), charges)
		if err == nil {
			remaining = decisions[0].Remaining
		}
		return err == nil
	})
	return remaining
}

func TestSpend_CountsNothingTwiceUnderFaults(t *testing.T) {
	t.Parallel()
	for name, start := range proxiedTopologies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := start(t)
			store, client := openStore(t, target.url)
			defer client.Close()
			charges := unitsOf(t, "faults", "acme", 100_000)
			awaitPeek(t, store, charges)
			var calls, admitted atomic.Int64
			l := newLoad(t, store, callTimeout)
			for range l.calls {
				l.wg.Go(func() {
					for l.next() {
						calls.Add(1)
						if l.call(t.Context(), charges) {
							admitted.Add(1)
						}
					}
				})
			}
			for range 3 {
				for _, begin := range []func(){
					func() { target.proxy.CutReplies(3) }, target.proxy.Pass, target.proxy.DropReplies, target.proxy.Pass,
					func() { target.proxy.DelayReplies(callTimeout) }, target.proxy.Pass,
				} {
					begin()
					time.Sleep(40 * time.Millisecond) // lasts this long; the test waits for nothing
				}
			}
			l.halt()
			if slowest := time.Duration(l.slowest.Load()); slowest > callTimeout+callSlack {
				t.Errorf("a call with a deadline of %v took %v", callTimeout, slowest)
			}
			counted := 100_000 - awaitPeek(t, store, charges)
			if counted < admitted.Load() || counted > calls.Load() {
				t.Errorf("counted %d, want at least the %d admitted and at most the %d calls", counted, admitted.Load(), calls.Load())
			}
			if l.failures.Load() == 0 {
				t.Error("the faults failed no call")
			}
		})
	}
}
