package redisstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

const everything = "" // what hear sends for a call of forgetAll

// hear starts to listen and returns what is told, and a channel that is closed when listening has ended.
func hear(ctx context.Context, client *redisclient.Client) (told <-chan string, ended <-chan struct{}) {
	out, done := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(done)
		FollowInvalidations(ctx, client, InvalidationChannel("weir:"), func(key string) { out <- key }, func() { out <- everything })
	}()
	return out, done
}

// awaitNotice drops what comes before want.
func awaitNotice(t *testing.T, told <-chan string, want string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case got := <-told:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("%q was not told within %v", want, patience)
		}
	}
}

func TestForgottenTellsWhatRefundsAndResetsTake(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("miniredis", func(t *testing.T) { tellsOfCounters(t, openURL(t, "redis://"+miniredis.RunT(t).Addr())) })
	t.Run("redis-server", func(t *testing.T) { tellsOfCounters(t, openURL(t, fixture.Redis(t).URL())) })
}

func TestForgottenOnACluster(t *testing.T) {
	node := fixture.RedisClusterNode(t)
	tellsOfCounters(t, openURL(t, node.URL()+"?addr="+node.Addr()))
}

func TestForgottenUnderSentinels(t *testing.T) {
	tellsOfCounters(t, openURL(t, fixture.RedisSentinel(t).URL()))
}

func tellsOfCounters(t *testing.T, client *redisclient.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := hear(ctx, client)
	awaitNotice(t, told, everything)
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
	awaitNotice(t, told, "weir:{a}")
	if err := store.Reset(ctx, []string{"weir:{b}", "weir:{c}"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		select {
		case key := <-told:
			got = append(got, key)
		case <-time.After(patience):
			t.Fatalf("a reset of two counters told %q within %v", got, patience)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"weir:{b}", "weir:{c}"}) {
		t.Errorf("a reset of two counters told %q", got)
	}
	cancel()
	awaitEnd(t, ended)
}

func awaitEnd(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("it still listens after %v", patience)
	}
}

func TestAfterEveryReconnectionAllIsForgotten(t *testing.T) {
	server := fixture.Redis(t)
	client := openURL(t, server.URL())
	breaks := map[string]func() error{
		"the connection is cut": func() error { return client.Redis().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err() },
		"Redis restarts":        func() error { return server.Restart(t.Context()) },
	}
	for name, cut := range breaks {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			told, ended := hear(ctx, client)
			awaitNotice(t, told, everything)
			if err := cut(); err != nil {
				t.Fatal(err)
			}
			awaitNotice(t, told, everything)
			if err := client.Redis().Publish(ctx, InvalidationChannel("weir:"), "weir:{a}").Err(); err != nil {
				t.Fatal(err)
			}
			awaitNotice(t, told, "weir:{a}")
			cancel()
			awaitEnd(t, ended)
		})
	}
}

func TestForgottenEndsWithItsClient(t *testing.T) {
	client, err := redisclient.Open(fixture.Redis(t).URL(), patience)
	if err != nil {
		t.Fatal(err)
	}
	told, ended := hear(t.Context(), client)
	awaitNotice(t, told, everything)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, ended)
}
