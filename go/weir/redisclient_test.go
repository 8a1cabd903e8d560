package weir_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/weir"
	"github.com/weir-dev/weir/test/fixture"
)

// A program that has a client, for example one with TLS, needs no URL. It shares counters with programs that have one.
func TestNewRedisClient_CountsWhereTheClientOfTheProgramDoes(t *testing.T) {
	server, files := fixture.RedisTLS(t, false)
	config, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	of := redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: config, DB: 2})
	t.Cleanup(func() { _ = of.Close() })
	policies, long := parse(t, perTenant("shop", "5", "")), weir.Timeout(longTimeout)
	first, err := weir.NewRedisClient(of, policies, long, discard())
	closing(t, first, err)
	second, err := weir.NewRedisClient(of, policies, long, discard())
	closing(t, second, err)
	if n := served(statuses(first.Handler(ok()), "acme", 4)) + served(statuses(second.Handler(ok()), "acme", 4)); n != 5 {
		t.Errorf("two instances serve %d requests, want 5", n)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	keys, err := of.Keys(t.Context(), "weir:*").Result() // of stays open
	if err != nil || len(keys) == 0 {
		t.Errorf("keys %q in database 2, %v", keys, err)
	}
}

func TestNewRedisClient_RejectsAnUnusableClient(t *testing.T) {
	for want, client := range map[string]redis.UniversalClient{"is nil": nil, "use a URL": redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})} {
		if client != nil {
			t.Cleanup(func() { _ = client.Close() })
		}
		if _, err := weir.NewRedisClient(client, parse(t, perTenant("shop", "5", "")), discard()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
