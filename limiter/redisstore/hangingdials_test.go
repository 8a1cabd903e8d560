package redisstore_test

import (
	"context"
	"errors"
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

// Half of the new connections hang, as with the loss of packets or behind a name with a dead address, and connections break all the time. The process
// keeps up, so no request fails as an overload.
func TestStore_DecidesLocallyWhileNewConnectionsHang(t *testing.T) {
	server := fixture.Redis(t)
	hole, late := connection.BlackHole(t, "127.0.0.1"), watchLateness(t)
	var dials atomic.Int64
	var hangs atomic.Bool
	client, err := redisclient.New(redisclient.Options{
		Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}, Timeout: shortTimeout,
		DialAddress: func(address string) string {
			if hangs.Load() && dials.Add(1)%2 == 0 {
				return hole
			}
			return address
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	redis := redisstore.NewStore(client, shortTimeout)
	store := failover.New(redis, local.New(1<<20, time.Now), time.Now, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	redis.EnableBreaker(ctx, store)
	t.Cleanup(func() {
		cancel()
		_ = client.Close()
	})
	hangs.Store(true)
	var group sync.WaitGroup
	until, charges := time.Now().Add(3*time.Second), unitsOf(t, "shop/a", "acme", 1_000_000)
	for range 16 {
		group.Go(func() {
			for time.Now().Before(until) {
				began := time.Now()
				if _, err := store.Spend(t.Context(), charges); err != nil {
					if errors.Is(err, limiter.ErrOverloaded) && late(began) {
						continue
					}
					t.Errorf("a request fails: %v", err)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	for time.Now().Before(until) {
		do(t, server, "CLIENT", "KILL", "TYPE", "normal")
		time.Sleep(100 * time.Millisecond)
	}
	group.Wait()
}
