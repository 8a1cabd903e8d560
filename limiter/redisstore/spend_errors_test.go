package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// do sends a command, which must succeed.
func do(t *testing.T, server *fixture.RedisProcess, command ...string) {
	t.Helper()
	if _, err := server.Do(t.Context(), command...); err != nil {
		t.Fatal(err)
	}
}

// spendError spends once on url and returns the error.
func spendError(t *testing.T, url string) error {
	t.Helper()
	store, client := openStore(t, url)
	defer client.Close()
	began := time.Now()
	decisions, err := store.Spend(t.Context(), unitsOf(t, "kind", "acme", 10))
	if err == nil {
		t.Fatalf("got %+v, want an error", decisions)
	}
	if took := time.Since(began); took > callTimeout+callSlack {
		t.Errorf("the error took %v, want at most %v", took, callTimeout)
	}
	return err
}

// wantKind checks the kind of err, as redisclient and as packages that do not import it read it.
func wantKind(t *testing.T, err error, want string) {
	t.Helper()
	var withKind interface{ Kind() string }
	if got := redisclient.Kind(err); got != want || !errors.As(err, &withKind) || withKind.Kind() != want {
		t.Errorf("kind %q of %v, want %q", got, err, want)
	}
}

func TestSpend_ReturnsTheKindOfAFailure(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault func(t *testing.T, server *fixture.RedisProcess)
		want  string
	}{
		"a replica": {
			func(t *testing.T, server *fixture.RedisProcess) {
				do(t, server, "REPLICAOF", "127.0.0.1", "1")
			}, "readonly",
		},
		"a replica without a primary": {
			func(t *testing.T, server *fixture.RedisProcess) {
				do(t, server, "CONFIG", "SET", "replica-serve-stale-data", "no")
				do(t, server, "REPLICAOF", "127.0.0.1", "1")
			}, "masterdown",
		},
		"out of memory": {
			func(t *testing.T, server *fixture.RedisProcess) {
				do(t, server, "CONFIG", "SET", "maxmemory", "1")
			}, "oom",
		},
		"too few replicas": {
			func(t *testing.T, server *fixture.RedisProcess) {
				do(t, server, "CONFIG", "SET", "min-replicas-to-write", "1")
			}, "noreplicas",
		},
		"a missing password": {
			func(t *testing.T, server *fixture.RedisProcess) {
				do(t, server, "CONFIG", "SET", "requirepass", "secret")
			}, "denied",
		},
		"a paused server":          {func(t *testing.T, server *fixture.RedisProcess) { pauseServer(t, server) }, "timeout"},
		"a stopped server":         {func(_ *testing.T, server *fixture.RedisProcess) { server.Kill() }, "unreachable"},
		"a script that hangs":      {hang, "busy"},
		"a node without a cluster": {nil, "clusterdown"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.fault == nil {
				node, err := fixture.StartRedisClusterNode(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = node.Stop() })
				wantKind(t, spendError(t, node.URL()), test.want)
				return
			}
			server := fixture.Redis(t)
			test.fault(t, server)
			wantKind(t, spendError(t, server.URL()), test.want)
		})
	}
}

func pauseServer(t *testing.T, server *fixture.RedisProcess) {
	t.Helper()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Resume() })
}

// hang runs another script that does not end until it is killed.
func hang(t *testing.T, server *fixture.RedisProcess) {
	t.Helper()
	do(t, server, "CONFIG", "SET", "lua-time-limit", "1")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = server.Do(context.Background(), "EVAL", "while true do end", "0") // an error, once it is killed
	}()
	fixture.Await(t, "Redis replies BUSY", func() bool {
		_, err := server.Do(t.Context(), "PING")
		return err != nil && strings.HasPrefix(err.Error(), "PING to "+server.Addr()+": BUSY")
	})
	t.Cleanup(func() {
		<-ended
		if _, err := server.Do(context.Background(), "SCRIPT", "KILL"); err != nil {
			t.Error(err)
		}
	})
}

// fakeRedis replies to every script with reply, and to all other commands with OK.
func fakeRedis(t *testing.T, reply string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveFakeRedis(conn, reply)
		}
	}()
	return "redis://" + listener.Addr().String()
}

func serveFakeRedis(conn net.Conn, reply string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		words, err := readCommand(r)
		if err != nil {
			return
		}
		response := "+OK\r\n"
		switch words[0] {
		case "hello":
			response = "-ERR unknown command 'HELLO'\r\n"
		case "evalsha", "eval":
			response = reply
		}
		if _, err := io.WriteString(conn, response); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	line := func() (string, error) {
		text, err := r.ReadString('\n')
		return strings.TrimSpace(text), err
	}
	head, err := line()
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(head, "*"))
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		head, err := line()
		if err != nil {
			return nil, err
		}
		length, err := strconv.Atoi(strings.TrimPrefix(head, "$"))
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:length])
	}
	return words, nil
}

func TestSpend_ReturnsTheKindOfAnErrorReply(t *testing.T) {
	for reply, want := range map[string]string{
		"LOADING Redis is loading the dataset in memory":                                          "loading",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":        "masterdown",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist": "disk",
		"MOVED 1 127.0.0.1:1": "moving",
		"CROSSSLOT Keys in request don't hash to the same slot":                                                                  "crossslot",
		"NOSCRIPT No matching script. Please use EVAL.":                                                                          "noscript",
		"NOPERM this user has no permissions to run the 'eval' command":                                                          "denied",
		"ERR The user executing the script can't run this command or subcommand script: c895, on @user_script:571.":              "denied",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments":             "denied",
		"ERR ACL failure in script: User weir has no permissions to run the 'getrange' command script: c895, on @user_script:9.": "denied",
		"ERR Error running script (call to f_12): @user_script:1: @user_script: 1: -OOM command":                                 "oom",
		"ERR Error running script (call to f_12): @user_script:1: -READONLY You can't write against":                             "readonly",
		"ERR an unknown error":              "other",
		"ERR max number of clients reached": "clients",
	} {
		t.Run(want, func(t *testing.T) {
			wantKind(t, spendError(t, fakeRedis(t, "-"+reply+"\r\n")), want)
		})
	}
}

func TestSpend_FailsOnAnInvalidReply(t *testing.T) {
	for name, reply := range map[string]string{
		"wrong length": "*1\r\n:1\r\n", "text": "+OK\r\n", "nil": "$-1\r\n", "not Redis": "HTTP/1.1 400 Bad Request\r\n\r\n",
		"strings": "*6\r\n+a\r\n+b\r\n+c\r\n+d\r\n+e\r\n+f\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := spendError(t, fakeRedis(t, reply)); redisclient.Kind(err) == "" {
				t.Errorf("error %v has no kind", err)
			}
		})
	}
}
