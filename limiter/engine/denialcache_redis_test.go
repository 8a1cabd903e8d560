package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	// timeout bounds every wait of the tests; on an idle machine each takes milliseconds.
	timeout = 20 * time.Second
	notices = "weir:forget"
)

// replica is one of several limiters on one Redis.
type replica struct {
	*engine.Engine

	store *redisstore.Store
}

// newReplica returns an Engine that is subscribed to notices.
func newReplica(t *testing.T, server *fixture.RedisProcess, index *matching.Index) replica {
	t.Helper()
	client, err := redisclient.Open(server.URL(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	redis := redisstore.NewStore(client, timeout, redisstore.WithInvalidations(notices))
	e, chain := newLayered(redis, engine.SourceRedis, prometheus.NewRegistry(), store.Layers{Denials: denials.NewCache(100, time.Now)})
	e.Swap(index)
	ctx, cancel := context.WithCancel(t.Context())
	subscribed := make(chan struct{})
	once := sync.OnceFunc(func() { close(subscribed) })
	var group sync.WaitGroup
	group.Go(func() {
		redisstore.FollowInvalidations(ctx, client, notices, func(key string) { chain.WasRefunded(key) }, func(key string) { chain.WasReset(key) },
			func() { chain.MayHaveChanged(); once() })
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
		client.Close()
	})
	select {
	case <-subscribed:
	case <-time.After(timeout):
		t.Fatalf("no subscription after %v", timeout)
	}
	return replica{Engine: e, store: redis}
}

func (r replica) source(t *testing.T, allowed bool) engine.Source {
	t.Helper()
	answer, err := r.Check(t.Context(), request(1, acme()))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Allowed != allowed {
		t.Fatalf("allowed %v, want %v: %v from %s", answer.Allowed, allowed, lines(answer), answer.Source)
	}
	return answer.Source
}

// replicas returns two replicas that both have cached a denial of acme.
func replicas(t *testing.T) (rdb *redis.Client, a, b replica, key string) {
	t.Helper()
	server := fixture.Redis(t)
	hourly := rule("shop/a", 3)
	hourly.WindowSeconds = 3600
	x := index(t, hourly)
	key = x.Match(nil, &request(1, acme()).Request)[0].Key("acme")
	a, b = newReplica(t, server, x), newReplica(t, server, x)
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	for range 3 {
		a.source(t, true)
	}
	for _, r := range []replica{a, b} {
		if got := r.source(t, false); got != engine.SourceRedis {
			t.Fatalf("the source of the first denial is %s", got)
		}
	}
	return rdb, a, b, key
}

func TestCheck_KnownDenialsDoNotReachRedis(t *testing.T) {
	rdb, a, b, _ := replicas(t)
	if err := rdb.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, r := range []replica{a, b, a, b} {
		wg.Go(func() {
			for range 5000 {
				answer, err := r.Check(t.Context(), request(1, acme()))
				if err != nil || answer.Allowed || answer.Source != engine.SourceCache {
					t.Errorf("allowed %v from %s: %v", answer.Allowed, answer.Source, err)
					return
				}
			}
		})
	}
	wg.Wait()
	stats, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"evalsha", "eval", "mget", "get", "time"} {
		if strings.Contains(stats, "cmdstat_"+command+":") {
			t.Errorf("known denials caused commands on Redis:\n%s", stats)
		}
	}
}

func TestForget_EveryReplicaForgetsAfterAResetByOne(t *testing.T) {
	_, a, b, key := replicas(t)
	if err := a.Reset(t.Context(), []string{key}, ""); err != nil {
		t.Fatal(err)
	}
	for _, r := range []replica{a, b} {
		awaitAdmission(t, r)
	}
}

// awaitAdmission waits until r allows a request, which it does as soon as the notice has arrived. Without the notice, it would do so when the
// denial is as old as denials.Life.
func awaitAdmission(t *testing.T, r replica) {
	t.Helper()
	const patience = denials.Life / 2
	for deadline := time.Now().Add(patience); ; {
		answer, err := r.Check(t.Context(), request(1, acme()))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Allowed {
			return
		}
		if answer.Source != engine.SourceCache {
			t.Fatalf("denied, source %s", answer.Source)
		}
		if time.Now().After(deadline) {
			t.Fatalf("still denied after %v", patience)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestForgetAll_AfterALostSubscriptionDropsAllDenials(t *testing.T) {
	rdb, a, b, key := replicas(t)
	if err := rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	// This deletion sends no notice.
	if err := rdb.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []replica{a, b} {
		awaitAdmission(t, r)
	}
}
