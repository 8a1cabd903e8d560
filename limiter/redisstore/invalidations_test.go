package redisstore

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

const all = "" // follow sends it for a call of invalidateAll

// follow returns the invalidated keys, and a channel that is closed when FollowInvalidations returns.
func follow(ctx context.Context, client *redisclient.Client) (keys <-chan string, ended <-chan struct{}) {
	out, done := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(done)
		FollowInvalidations(ctx, client, InvalidationChannel("weir:"),
			func(key string) { out <- key }, func(key string) { out <- "reset: " + key }, func() { out <- all })
	}()
	return out, done
}

// awaitKey receives until want, and ignores other keys.
func awaitKey(t *testing.T, keys <-chan string, want string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case got := <-keys:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("%q was not invalidated within %v", want, patience)
		}
	}
}

func TestFollowInvalidations_ReceivesRefundedAndResetKeys(t *testing.T) {
	url := fixture.Redis(t).URL()
	receivesInvalidations(t, openURL(t, url), openURL(t, url))
}

func TestFollowInvalidations_OnACluster(t *testing.T) {
	t.Parallel()
	node := fixture.RedisClusterNode(t)
	url := node.URL() + "?addr=" + node.Addr()
	receivesInvalidations(t, openURL(t, url), openURL(t, url))
}

func TestFollowInvalidations_WithSentinels(t *testing.T) {
	t.Parallel()
	url := fixture.RedisSentinel(t).URL()
	receivesInvalidations(t, openURL(t, url), openURL(t, url))
}

func receivesInvalidations(t *testing.T, client, another *redisclient.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	keys, ended := follow(ctx, client)
	awaitKey(t, keys, all)
	store := NewStore(client, patience, WithInvalidations(InvalidationChannel("weir:")))
	limit, err := limiter.NewLimit(limiter.FixedWindow, 5, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := store.Spend(ctx, []limiter.Charge{{Key: "weir:{a}", Limit: limit, Cost: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Refund(ctx, []limiter.Refund{{Key: "weir:{a}", Limit: limit, Cost: 1, At: decisions[0].At}}); err != nil {
		t.Fatal(err)
	}
	awaitKey(t, keys, "weir:{a}")
	others := NewStore(another, patience, WithInvalidations(InvalidationChannel("weir:")))
	if err := store.Reset(ctx, []string{"weir:{own}"}, ""); err != nil { // does not reach its sender
		t.Fatal(err)
	}
	if err := others.Reset(ctx, []string{"weir:{b}", "weir:{c}"}, ""); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		select {
		case key := <-keys:
			got = append(got, key)
		case <-time.After(patience):
			t.Fatalf("a reset of two counters invalidated %q within %v", got, patience)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"reset: weir:{b}", "reset: weir:{c}"}) {
		t.Errorf("a reset of two counters invalidated %q", got)
	}
	resetsOnce(ctx, t, others, limit)
	awaitKey(t, keys, "weir:{d}")
	awaitKey(t, keys, "reset: weir:{d}")
	cancel()
	awaitEnd(t, ended)
}

// resetsOnce checks that a second reset with the same ID changes nothing.
func resetsOnce(ctx context.Context, t *testing.T, store *Store, limit limiter.Limit) {
	t.Helper()
	charges := []limiter.Charge{{Key: "weir:{d}", Limit: limit, Cost: 1}}
	for i, step := range []struct {
		id   string
		drop bool
		want int64
	}{{"x", false, 4}, {"x", false, 3}, {"x", true, 2}, {"y", true, 4}, {"y", false, 3}} {
		reset := store.ResetOnce
		if step.drop {
			reset = func(ctx context.Context, key, id string) error { return store.Reset(ctx, []string{key}, id) }
		}
		if err := reset(ctx, "weir:{d}", step.id); err != nil {
			t.Fatal(err)
		}
		decisions, err := store.Spend(ctx, charges)
		if err != nil || decisions[0].Remaining != step.want {
			t.Errorf("step %d: %+v (%v), want %d units left", i, decisions, err, step.want)
		}
	}
}

func awaitEnd(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("FollowInvalidations did not return within %v", patience)
	}
}

func TestFollowInvalidations_InvalidatesAllAfterAReconnection(t *testing.T) {
	server := fixture.Redis(t)
	client := openURL(t, server.URL())
	breaks := map[string]func() error{
		"the connection is cut": func() error { return client.Redis().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err() },
		"Redis restarts":        func() error { return server.Restart(t.Context()) },
	}
	for name, cut := range breaks {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			keys, ended := follow(ctx, client)
			awaitKey(t, keys, all)
			if err := cut(); err != nil {
				t.Fatal(err)
			}
			awaitKey(t, keys, all)
			if err := client.Redis().Publish(ctx, InvalidationChannel("weir:"), "weir:{a}").Err(); err != nil {
				t.Fatal(err)
			}
			awaitKey(t, keys, "weir:{a}")
			cancel()
			awaitEnd(t, ended)
		})
	}
}

func TestFollowInvalidations_EndsWhenTheClientIsClosed(t *testing.T) {
	client, err := redisclient.Open(fixture.Redis(t).URL(), patience)
	if err != nil {
		t.Fatal(err)
	}
	keys, ended := follow(t.Context(), client)
	awaitKey(t, keys, all)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, ended)
}

// The host of the server stops without closing its connections, and a name leads to another server: an endpoint of a cloud, after a failover.
func TestFollowInvalidations_LeavesADeadHost(t *testing.T) { //nolint:tparallel // the subtests share the servers
	t.Parallel()
	dead, alive := fixture.Redis(t), fixture.Redis(t)
	for name, recovers := range map[string]bool{"it does not answer": false, "the store is available again": true} {
		t.Run(name, func(t *testing.T) {
			var address atomic.Pointer[string]
			first, second := dead.Addr(), alive.Addr()
			address.Store(&first)
			client, err := redisclient.New(redisclient.Options{
				Mode: redisclient.ModeStandalone, Addresses: []string{"redis:6379"}, Timeout: 100 * time.Millisecond,
				DialAddress: func(string) string { return *address.Load() },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			ctx, cancel := context.WithCancel(t.Context())
			keys, ended := follow(ctx, client)
			awaitKey(t, keys, all)
			began := time.Now()
			address.Store(&second)
			if recovers { // the host answers, but is not the primary any more
				client.Recovered()
			} else if err := dead.Pause(); err != nil {
				t.Fatal(err)
			}
			awaitKey(t, keys, all)
			if took, most := time.Since(began), 4*heartbeatOfSubscriptions; took > most {
				t.Errorf("subscribed again after %v, want at most %v", took, most)
			}
			if _, err := alive.Do(t.Context(), "PUBLISH", InvalidationChannel("weir:"), "weir:{a}"); err != nil {
				t.Fatal(err)
			}
			awaitKey(t, keys, "weir:{a}")
			cancel()
			awaitEnd(t, ended)
			if err := dead.Resume(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A server that forbids PING is still there.
func TestFollowInvalidations_WithoutPermissionToPing(t *testing.T) {
	t.Parallel()
	server := fixture.Redis(t)
	if _, err := server.Do(t.Context(), "ACL", "SETUSER", "default", "-ping"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	keys, ended := follow(ctx, openURL(t, server.URL()))
	awaitKey(t, keys, all)
	select {
	case key := <-keys:
		t.Errorf("%q although the subscription was not interrupted", key)
	case <-time.After(4 * heartbeatOfSubscriptions):
	}
	cancel()
	awaitEnd(t, ended)
}

// heartbeatOfSubscriptions is that of redisclient.
const heartbeatOfSubscriptions = time.Second
