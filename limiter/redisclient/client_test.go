package redisclient_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// longTimeout is the timeout of commands in tests that do not test timeouts.
const longTimeout = 10 * time.Second

func open(t testing.TB, url string) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(url, longTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

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

func TestOpen_RejectsAnInvalidURLWithoutQuotingIt(t *testing.T) {
	tests := map[string]string{
		"empty URL":                         "",
		"no scheme":                         "user:hunter2@localhost:6379",
		"wrong scheme":                      "http://user:hunter2@localhost:6379",
		"no host":                           "redis:///0?password=hunter2",
		"password not percent-encoded":      "redis://user:hun#ter2@localhost:6379",
		"a password that looks like a port": "redis://hunter2:1234#56@localhost:6379",
		"a password for one of the nodes":   "redis://localhost:6379?addr=user:hunter2@b:6379",
		"invalid escape":                    "redis://user:hunter2%zz@localhost:6379",
		"invalid database":                  "redis://user:hunter2@localhost:6379/x",
		"unknown parameter":                 "redis://user:hunter2@localhost:6379/0?hunter2=1",
		"a cluster with a database":         "redis://user:hunter2@localhost:6379/1?addr=b:6379",
	}
	for name, url := range tests {
		t.Run(name, func(t *testing.T) {
			client, err := redisclient.Open(url, time.Second)
			if err == nil {
				_ = client.Close()
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "hun") || strings.Contains(err.Error(), "ter2") {
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

func TestOpen_RejectsATimeoutOfZero(t *testing.T) {
	if _, err := redisclient.Open("redis://localhost:6379", 0); err == nil {
		t.Error("no error")
	}
}

func TestPing_FailsWhileTheServerIsDown(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("the server is running: %v", err)
	}
	server.Kill()
	if err := client.Ping(t.Context()); err == nil {
		t.Error("no error after the server was killed")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("the server was restarted: %v", err)
	}
}

func TestClient_DoesNotRetryAfterATimeout(t *testing.T) {
	server := fixture.Redis(t)
	const timeout = 200 * time.Millisecond
	client, err := redisclient.Open(server.URL(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	err = client.Redis().Incr(t.Context(), "counted").Err()
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("error %v, want a timeout", err)
	}
	counted := 0
	fixture.Await(t, "INCR ran once", func() bool {
		n, err := client.Redis().Get(t.Context(), "counted").Int()
		if n > 1 || (err != nil && !errors.Is(err, redis.Nil)) {
			t.Fatalf("INCR ran %d times, want once: %v", n, err)
		}
		counted = n
		return counted == 1
	})
}

// go-redis logs to stderr what it does with Sentinels, for example that one is unreachable.
func TestClient_WritesNothingToStderr(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = stderr }()
	logging.Enable() // to the new stderr, as in a process that has no client yet

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"redis://" + address, "redis://" + address + "?master=weir", "redis://" + address + "?cluster=true"} {
		client := open(t, url)
		subscription := client.Redis().Subscribe(t.Context(), "channel")
		messages := subscription.ChannelWithSubscriptions()
		if err := client.Ping(t.Context()); err == nil {
			t.Error("no error although no server listens")
		}
		if len(messages) != 0 {
			t.Error("received messages although no server listens")
		}
		if err := subscription.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := io.ReadAll(r)
	if err != nil || len(written) != 0 {
		t.Errorf("written to stderr: %q, %v", written, err)
	}
}
