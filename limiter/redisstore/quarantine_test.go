package redisstore_test

import (
	"context"
	"log/slog"
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
	"github.com/weir-dev/weir/test/fixture/connection"
)

// tenant is what happened to the requests of one tenant.
type tenant struct {
	name                     string
	allowed, denied, locally atomic.Int64
	slowest                  atomic.Int64 // nanoseconds
}

// A proxy loses the replies to all calls on the counter of one tenant, or one of them every half second. Each request also has a counter that all
// tenants share. The other tenants are decided in Redis, up to their limits.
func TestBreaker_OneCounterWithoutRepliesDoesNotAffectOthers(t *testing.T) {
	const limit, clients, lasts = 60, 6, 3 * time.Second
	for name, every := range map[string]time.Duration{"every reply is lost": 0, "a reply is lost every half second": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			server := fixture.Redis(t)
			proxy, err := connection.StartProxy(server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Stop() })
			client, err := redisclient.Open("redis://"+proxy.Addr(), shortTimeout)
			if err != nil {
				t.Fatal(err)
			}
			redis, counters := redisstore.NewStore(client, shortTimeout), local.New(1<<20, time.Now)
			store := failover.New(redis, counters, time.Now, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(context.Background())
			redis.EnableBreaker(ctx, store)
			t.Cleanup(func() {
				cancel()
				_ = client.Close()
			})
			tenants := []*tenant{{name: "unlucky"}}
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				tenants = append(tenants, &tenant{name: name})
			}
			proxy.DropRepliesAbout("{unlucky}", every)
			until := time.Now().Add(lasts)
			var group sync.WaitGroup
			for _, tn := range tenants {
				charges := append(unitsOf(t, "shop/own", tn.name, limit), unitsOf(t, "shop/all", "everyone", 1_000_000)...)
				for range clients {
					group.Go(func() {
						for time.Now().Before(until) {
							tn.spend(t, store, charges)
							time.Sleep(2 * time.Millisecond)
						}
					})
				}
			}
			group.Wait()
			for _, tn := range tenants {
				all := tn.allowed.Load() + tn.denied.Load()
				t.Logf("%s: %d of %d requests are allowed, %d decided locally, the slowest took %v",
					tn.name, tn.allowed.Load(), all, tn.locally.Load(), time.Duration(tn.slowest.Load()))
				if tn.name == "unlucky" {
					continue
				}
				if n := tn.allowed.Load(); n > limit || n < limit*8/10 {
					t.Errorf("%s: %d requests are allowed, want %d", tn.name, n, limit)
				}
				if part := float64(tn.locally.Load()) / float64(all); part > 0.1 {
					t.Errorf("%s: %.0f %% of %d requests are decided locally", tn.name, 100*part, all)
				}
			}
			if _, is := store.LocalMode(); is {
				t.Error("local mode, although Redis answers")
			}
			proxy.Pass()
			own := unitsOf(t, "shop/own", "unlucky", limit)
			fixture.Await(t, "the counter is decided in Redis again", func() bool {
				d, err := store.Spend(t.Context(), own)
				return err == nil && d[0].Origin == limiter.OriginStore
			})
		})
	}
}

func (n *tenant) spend(t *testing.T, store *failover.Store, charges []limiter.Charge) {
	began := time.Now()
	decisions, err := store.Spend(t.Context(), charges)
	took := int64(time.Since(began))
	for slowest := n.slowest.Load(); took > slowest; slowest = n.slowest.Load() {
		if n.slowest.CompareAndSwap(slowest, took) {
			break
		}
	}
	if err != nil {
		t.Error(err)
		return
	}
	allowed := true
	for _, d := range decisions {
		allowed = allowed && d.Allowed
	}
	if decisions[0].Origin == limiter.OriginLocal || decisions[1].Origin == limiter.OriginLocal {
		n.locally.Add(1)
	}
	if allowed {
		n.allowed.Add(1)
	} else {
		n.denied.Add(1)
	}
}
