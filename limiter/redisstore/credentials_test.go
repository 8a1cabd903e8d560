package redisstore_test

import (
	"context"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

func TestCredentialsAreAskedForInEveryMode(t *testing.T) {
	places := map[string]func(t *testing.T) string{
		"Standalone": func(t *testing.T) string { return fixture.Redis(t).URL() },
		"Sentinel":   func(t *testing.T) string { return fixture.RedisSentinel(t).URL() },
		"Cluster":    func(t *testing.T) string { return fixture.RedisCluster(t).URL() },
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			options, err := redisstore.ParseURL(place(t))
			if err != nil {
				t.Fatal(err)
			}
			var asked atomic.Int32
			unreadable := errors.New("unreadable")
			var broken atomic.Bool
			options.Credentials = func(context.Context) (username, password string, err error) {
				asked.Add(1)
				if broken.Load() {
					return "", "", unreadable
				}
				return "default", "anything", nil // which a server without passwords takes
			}
			if err := connect(t, options).Ping(t.Context()); err != nil || asked.Load() == 0 {
				t.Errorf("asked %d times: %v", asked.Load(), err)
			}
			broken.Store(true)
			if err := connect(t, options).Ping(t.Context()); !errors.Is(err, unreadable) {
				t.Errorf("error %v of credentials that cannot be read", err)
			}
		})
	}
}

// TestAPasswordChangesWithoutARestart changes it in Redis first, and then where the client reads it.
func TestAPasswordChangesWithoutARestart(t *testing.T) {
	server := fixture.Redis(t)
	raw := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer raw.Close()
	administer := func(words ...any) {
		t.Helper()
		if err := raw.Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	administer("ACL", "SETUSER", "weir", "on", ">first", "~*", "&*", "+@all")
	options, err := redisstore.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var password atomic.Pointer[string]
	password.Store(new("first"))
	var asked atomic.Int32
	options.Credentials = func(context.Context) (string, string, error) {
		asked.Add(1)
		return "weir", *password.Load(), nil
	}
	client := connect(t, options)
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	administer("ACL", "SETUSER", "weir", "resetpass", ">second")
	if err := client.Ping(t.Context()); err != nil || asked.Load() != before {
		t.Errorf("a connection from before the change, asked again %d times: %v", asked.Load()-before, err)
	}
	other := connect(t, options)
	if err := other.Ping(t.Context()); redisstore.Kind(err) != "denied" {
		t.Errorf("a new connection with the old password: %v", err)
	}
	password.Store(new("second"))
	if err := other.Ping(t.Context()); err != nil {
		t.Errorf("a new connection with the new password: %v", err)
	}
	administer("CLIENT", "KILL", "USER", "weir")
	for deadline := time.Now().Add(patient); ; { // it may find out only when it writes
		err := client.Ping(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the first client, whose connections are gone: %v", err)
		}
	}
}

func TestAuthoritiesAreAskedForEveryConnection(t *testing.T) {
	server, files := fixture.RedisTLS(t, false)
	options, err := redisstore.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	right, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	options.Authorities = func() (*x509.CertPool, error) { return pool, nil }
	client := connect(t, options)
	if err := client.Ping(t.Context()); err == nil {
		t.Error("nobody vouches for the server, and yet it was trusted")
	}
	pool = right.RootCAs
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("with an authority that vouches for it: %v", err)
	}
	unreadable := errors.New("unreadable")
	options.Authorities = func() (*x509.CertPool, error) { return nil, unreadable }
	if err := connect(t, options).Ping(t.Context()); !errors.Is(err, unreadable) {
		t.Errorf("error %v of authorities that cannot be read", err)
	}
	options.TLS = nil
	if _, err := redisstore.New(options); err == nil {
		t.Error("authorities without TLS")
	}
}
