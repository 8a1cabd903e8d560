package redisclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

func from(t testing.TB, client redis.UniversalClient, timeout time.Duration) *redisclient.Client {
	t.Helper()
	own, err := redisclient.From(client, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	return own
}

// The client of a program retries by default. One whose options are taken over does not: a spend would count several times.
func TestFrom_DoesNotRetry(t *testing.T) {
	server := fixture.Redis(t)
	proxy := connection.ProxyTo(t, server.Addr())
	of := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = of.Close() })
	before := *of.Options()
	for key, client := range map[string]redis.UniversalClient{"own": from(t, of, longTimeout).Redis(), "the program's": of} {
		greet(t, client, 5)
		proxy.CutReplies(1)
		if err := client.Incr(t.Context(), key).Err(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: error %v, want a lost reply", key, err)
		}
		proxy.Pass()
		if n, err := client.Get(t.Context(), key).Int(); err != nil || (n == 1) != (key == "own") {
			t.Errorf("%s: INCR ran %d times, %v", key, n, err)
		}
	}
	if after := of.Options(); after.MaxRetries != before.MaxRetries || after.ReadTimeout != before.ReadTimeout {
		t.Errorf("the options of the program are %+v, and were %+v", after, before)
	}
}

// greet opens n connections, so that each try of a command has one.
func greet(t *testing.T, client redis.UniversalClient, n int) {
	t.Helper()
	rdb, _ := client.(*redis.Client)
	conns := make([]*redis.Conn, n)
	for i := range conns {
		conns[i] = rdb.Conn()
		if err := conns[i].Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
}

func TestFrom_KeepsTheOptions(t *testing.T) {
	server, files := fixture.RedisTLS(t, true)
	config, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	address, dialed := server.Addr(), 0
	for name, options := range map[string]*redis.Options{
		"TLS": {Addr: address, TLSConfig: config, DB: 3, PoolSize: 7, ClientName: "shop", ConnMaxLifetime: time.Hour},
		"a dialer": {Addr: "redis.invalid:1", DB: 3, PoolSize: 7, ClientName: "shop", ConnMaxLifetime: time.Hour, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			dialed++
			return redis.NewDialer(&redis.Options{TLSConfig: config})(ctx, network, address)
		}},
	} {
		of := redis.NewClient(options)
		client := from(t, of, longTimeout)
		if err := of.Close(); err != nil {
			t.Error(err)
		}
		for range 3 {
			if err := client.Redis().Incr(t.Context(), "n").Err(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		list, err := client.Redis().ClientList(t.Context()).Result()
		if err != nil || !strings.Contains(list, " name=shop ") || !strings.Contains(list, " db=3 ") {
			t.Errorf("%s: clients %s, %v", name, list, err)
		}
		rdb, isOne := client.Redis().(*redis.Client)
		if !isOne || rdb.Options().PoolSize != 7 || rdb.Options().ConnMaxLifetime != time.Hour || client.Name() != options.Addr {
			t.Errorf("%s: options %+v", name, rdb.Options())
		}
	}
	if dialed != 1 {
		t.Errorf("the dialer of the program was called %d times", dialed)
	}
}

func TestFrom_ACluster(t *testing.T) {
	server := fixture.RedisClusterNode(t)
	of := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}, ReadOnly: true, PoolSize: 7})
	t.Cleanup(func() { _ = of.Close() })
	client := from(t, of, longTimeout)
	if err := client.Redis().Incr(t.Context(), "n").Err(); err != nil {
		t.Error(err)
	}
	cluster, ok := client.Cluster()
	if !ok || cluster.Options().ReadOnly || cluster.Options().PoolSize != 7 || cluster.Options().MaxRetries > 0 {
		t.Errorf("options %+v", cluster.Options())
	}
}

// A Redis that never accepts a connection costs a command its timeout, not that of the program's dialer.
func TestFrom_BoundsADialerThatHangs(t *testing.T) {
	hangs := make(chan struct{})
	of := redis.NewClient(&redis.Options{Addr: "redis.invalid:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
		<-hangs
		return nil, errors.New("stopped")
	}})
	t.Cleanup(func() { _ = of.Close() })
	t.Cleanup(func() { close(hangs) })
	began := time.Now()
	if err := from(t, of, 50*time.Millisecond).Ping(t.Context()); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took > longTimeout/2 {
		t.Errorf("the command took %v", took)
	}
}

func TestFrom_RejectsClientsWithoutOptions(t *testing.T) {
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _, _ = sentinel.Close(), ring.Close() })
	for want, client := range map[string]redis.UniversalClient{
		"use a URL, for example redis://sentinel-1": sentinel, "the Redis client is a *redis.Ring: it must be": ring,
		"the Redis client is nil": nil, "client is nil": (*redis.Client)(nil), "client is nil ": (*redis.ClusterClient)(nil),
	} {
		if _, err := redisclient.From(client, time.Second); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%T: %v, want %q", client, err, want)
		}
	}
	of := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = of.Close() })
	if _, err := redisclient.From(of, 0); err == nil {
		t.Error("no error for a timeout of 0")
	}
}

func TestFrom_GivesErrorsOfCredentialsTheirKind(t *testing.T) {
	cause := errors.New("the provider is unavailable")
	provider := func(context.Context) (username, password string, err error) { return "", "", cause }
	server := redis.NewClient(&redis.Options{Addr: fixture.Redis(t).Addr(), CredentialsProviderContext: provider})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{fixture.Redis(t).Addr()}, CredentialsProviderContext: provider})
	for _, of := range []redis.UniversalClient{server, cluster} {
		t.Cleanup(func() { _ = of.Close() })
		err := from(t, of, longTimeout).Ping(t.Context())
		if !errors.Is(err, cause) || redisclient.Kind(err) != redisclient.KindCredentials {
			t.Errorf("%v of kind %q", err, redisclient.Kind(err))
		}
	}
}
