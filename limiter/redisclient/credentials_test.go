package redisclient_test

import (
	"context"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

func TestCredentials_AreReadForNewConnectionsInEveryMode(t *testing.T) {
	t.Parallel()
	modes := map[string]func(t *testing.T) string{
		"Standalone": func(t *testing.T) string { return fixture.Redis(t).URL() },
		"Sentinel":   func(t *testing.T) string { return fixture.RedisSentinel(t).URL() },
		"Cluster":    func(t *testing.T) string { return fixture.RedisCluster(t).URL() },
	}
	for name, start := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options, err := redisclient.ParseURL(start(t))
			if err != nil {
				t.Fatal(err)
			}
			var calls atomic.Int32
			unreadable := errors.New("unreadable")
			var broken atomic.Bool
			options.Credentials = func(context.Context) (username, password string, err error) {
				calls.Add(1)
				if broken.Load() {
					return "", "", unreadable
				}
				return "default", "anything", nil // a server without passwords accepts any
			}
			if err := connect(t, options).Ping(t.Context()); err != nil || calls.Load() == 0 {
				t.Errorf("Credentials was called %d times: %v", calls.Load(), err)
			}
			broken.Store(true)
			if err := connect(t, options).Ping(t.Context()); !errors.Is(err, unreadable) {
				t.Errorf("error %v, want the error of Credentials", err)
			}
		})
	}
}

// The password changes in Redis first, and then in the place from which the client reads it.
func TestCredentials_ChangeWithoutARestart(t *testing.T) {
	server := fixture.Redis(t)
	raw := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer raw.Close()
	do := func(words ...any) {
		t.Helper()
		if err := raw.Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	do("ACL", "SETUSER", "weir", "on", ">first", "~*", "&*", "+@all")
	options, err := redisclient.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var password atomic.Pointer[string]
	password.Store(new("first"))
	var calls atomic.Int32
	options.Credentials = func(context.Context) (string, string, error) {
		calls.Add(1)
		return "weir", *password.Load(), nil
	}
	client := connect(t, options)
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := calls.Load()
	do("ACL", "SETUSER", "weir", "resetpass", ">second")
	if err := client.Ping(t.Context()); err != nil || calls.Load() != before {
		t.Errorf("an open connection after the change: %d more calls of Credentials, %v", calls.Load()-before, err)
	}
	other := connect(t, options)
	if err := other.Ping(t.Context()); redisclient.Kind(err) != redisclient.KindDenied {
		t.Errorf("a new connection with the old password: %v", err)
	}
	password.Store(new("second"))
	if err := other.Ping(t.Context()); err != nil {
		t.Errorf("a new connection with the new password: %v", err)
	}
	do("CLIENT", "KILL", "USER", "weir")
	// The client may notice only when it writes that its connections are closed.
	fixture.Await(t, "the first client reconnects with the new password", func() bool {
		return client.Ping(t.Context()) == nil
	})
}

func TestRootCAs_AreReadForNewConnections(t *testing.T) {
	server, files := fixture.RedisTLS(t, false)
	options, err := redisclient.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	options.RootCAs = func() (*x509.CertPool, error) { return pool, nil }
	client := connect(t, options)
	if err := client.Ping(t.Context()); err == nil {
		t.Error("no error although no CA signed the certificate of the server")
	}
	pool = trusted.RootCAs
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("with the CA of the server: %v", err)
	}
	unreadable := errors.New("unreadable")
	options.RootCAs = func() (*x509.CertPool, error) { return nil, unreadable }
	if err := connect(t, options).Ping(t.Context()); !errors.Is(err, unreadable) {
		t.Errorf("error %v, want the error of RootCAs", err)
	}
	options.TLS = nil
	if _, err := redisclient.New(options); err == nil {
		t.Error("no error for RootCAs without TLS")
	}
}
