package redisstore

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/fixture"
)

func TestOpenRefusesWithoutTellingThePassword(t *testing.T) {
	tests := map[string]string{
		"an empty URL":                      "",
		"no scheme":                         "user:hunter2@localhost:6379",
		"another scheme":                    "http://user:hunter2@localhost:6379",
		"no host":                           "redis:///0?password=hunter2",
		"a password that is no URL":         "redis://user:hun#ter2@localhost:6379",
		"a password that looks like a port": "redis://hunter2:1234#56@localhost:6379",
		"a password for one of the nodes":   "redis://localhost:6379?addr=user:hunter2@b:6379",
		"a bad escape":                      "redis://user:hunter2%zz@localhost:6379",
		"a database that is none":           "redis://user:hunter2@localhost:6379/x",
		"an unknown parameter":              "redis://user:hunter2@localhost:6379/0?hunter2=1",
		"a cluster with a database":         "redis://user:hunter2@localhost:6379/1?addr=b:6379",
	}
	for name, url := range tests {
		t.Run(name, func(t *testing.T) {
			client, err := Open(url, time.Second)
			if err == nil {
				_ = client.Close()
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "hun") || strings.Contains(err.Error(), "ter2") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestOpenRefusesATimeoutThatIsNone(t *testing.T) {
	if _, err := Open("redis://localhost:6379", 0); err == nil {
		t.Error("no error")
	}
}

func TestPing(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("a server that runs: %v", err)
	}
	server.Kill()
	if err := client.Ping(t.Context()); err == nil {
		t.Error("a server that is gone answered")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("a server that is back: %v", err)
	}
}

func TestATimeoutIsAnErrorAfterOneAttempt(t *testing.T) {
	server := fixture.Redis(t)
	const timeout = 200 * time.Millisecond
	client, err := Open(server.URL(), timeout)
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
	err = client.rdb.Incr(t.Context(), "counted").Err()
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("error %v, want a timeout", err)
	}
	deadline := time.Now().Add(patience)
	for n := 0; n != 1; {
		if time.Now().After(deadline) {
			t.Fatalf("counted %d times, want once", n)
		}
		if n, err = client.rdb.Get(t.Context(), "counted").Int(); n > 1 || (err != nil && !errors.Is(err, redis.Nil)) {
			t.Fatalf("counted %d times, want once: %v", n, err)
		}
	}
}

func TestNothingIsWrittenToStderr(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = stderr }()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	client := open(t, "redis://"+address)
	updates := exchange(client).Subscribe(t.Context())
	if err := client.Ping(t.Context()); err == nil {
		t.Error("nobody listens, and yet there is an answer")
	}
	if len(updates) != 0 {
		t.Error("nobody listens, and yet there are messages")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := io.ReadAll(r)
	if err != nil || len(written) != 0 {
		t.Errorf("written to stderr: %q, %v", written, err)
	}
}
