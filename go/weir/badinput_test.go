package weir_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/test/fixture"
)

// brokenServer starts a server that treats each connection with handle, and returns its address.
func brokenServer(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	stop := make(chan struct{})
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				go func() { <-stop; _ = conn.Close() }()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); close(stop); conns.Wait() })
	return listener.Addr().String()
}

// breakages are the ways in which a server does not answer.
func breakages() map[string]func(net.Conn) {
	answer := func(text string, closes bool) func(net.Conn) {
		return func(conn net.Conn) {
			room := make([]byte, 4096)
			for {
				if _, err := conn.Read(room); err != nil {
					return
				}
				if _, err := io.WriteString(conn, text); err != nil || closes {
					return
				}
			}
		}
	}
	return map[string]func(net.Conn){
		"hangs":                  func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"closes":                 func(net.Conn) {},
		"closes in mid-call":     answer("*3\r\n:1\r\n", true),
		"answers nonsense":       answer("\x00\xff\x17 nonsense\r\n", false),
		"answers another type":   answer("+OK\r\n", false),
		"answers a short list":   answer("*1\r\n:1\r\n", false),
		"answers huge numbers":   answer("*4\r\n:9223372036854775807\r\n:9223372036854775807\r\n:-9223372036854775808\r\n:9223372036854775807\r\n", false),
		"is a server of HTTP":    answer("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", true),
		"announces a huge reply": answer("$536870912\r\n", false),
	}
}

// A Redis that breaks is an outage, in which each instance decides on its share. It is no panic, and no request waits for it without end.
func TestNewRedis_DecidesWhileRedisIsBroken(t *testing.T) {
	t.Parallel()
	for name, handle := range breakages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := brokenServer(t, handle)
			of := redis.NewClient(&redis.Options{Addr: address})
			defer of.Close()
			policies := parse(t, perTenant("shop", "5", ""))
			byURL, err := weir.NewRedis("redis://"+address, policies, discard())
			closing(t, byURL, err)
			byClient, err := weir.NewRedisClient(of, policies, discard())
			closing(t, byClient, err)
			for way, l := range map[string]*weir.Limiter{"a URL": byURL, "a client": byClient} {
				var callers sync.WaitGroup
				var mu sync.Mutex
				n, began := 0, time.Now()
				for range 4 {
					callers.Go(func() {
						got := served(statuses(l.Handler(ok()), "acme", 5))
						mu.Lock()
						defer mu.Unlock()
						n += got
					})
				}
				callers.Wait()
				if took := time.Since(began); n != 5 || took > longTimeout {
					t.Errorf("with %s: %d of 20 requests are served in %v, want 5", way, n, took)
				}
			}
		})
	}
}

// So is a limiter that breaks: the option FailClosed decides.
func TestNewRemote_DecidesWhileTheLimiterIsBroken(t *testing.T) {
	t.Parallel()
	for name, handle := range breakages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "http://" + brokenServer(t, handle)
			for want, options := range map[int][]httplimit.Option{http.StatusOK: nil, http.StatusServiceUnavailable: {httplimit.FailClosed()}} {
				l, err := weir.NewRemote(url, weir.Domain("shop"), discard(), weir.Gate(options...))
				for _, got := range statuses(closing(t, l, err).Handler(ok()), "acme", 7) {
					if got != want {
						t.Errorf("status %d, want %d", got, want)
					}
				}
			}
		})
	}
}

func TestLoadDir_ABrokenFileAtTheStartIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"no YAML": "kind: [", "an unknown field": perTenant("shop", "1", ", limits: 3"), "an invalid limit": perTenant("shop", "-1", ""),
		"binary": "\x00\x01\xff", "two of a name": perTenant("shop", "1", "") + perTenant("shop", "2", ""),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, fromDir := weir.LoadDir(dir)
		_, fromText := weir.Parse([]byte(text))
		var problems *weir.ProblemsError
		if !errors.As(fromDir, &problems) || !strings.Contains(fromDir.Error(), "a.yaml") || fromText == nil {
			t.Errorf("%s: %v and %v", name, fromDir, fromText)
		}
	}
	if _, err := weir.LoadDir(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("no error for a directory that does not exist")
	}
}

// The files can break between LoadDir and the constructor, and while a Limiter follows them. The policies that were loaded last stay enforced.
func TestWatch_BrokenFilesKeepThePolicies(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(perTenant("shop", "1", ""))
	policies, err := weir.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	write("kind: [")
	logged := &lockedBuffer{}
	l, err := weir.NewMemory(policies.Watch(), weir.Log(slog.New(slog.NewTextHandler(logged, nil))))
	h := closing(t, l, err).Handler(ok())
	if got := served(statuses(h, "acme", 3)); got != 1 {
		t.Errorf("%d served of the limit of 1 that was loaded", got)
	}
	if !strings.Contains(logged.String(), "a.yaml") {
		t.Errorf("the log does not name the file: %s", logged)
	}
	for _, breaks := range []func() error{
		func() error { return os.WriteFile(file, []byte(perTenant("shop", "x", "")), 0o600) },
		func() error { return os.Remove(file) },
		func() error { return os.RemoveAll(dir) },
	} {
		if err := breaks(); err != nil {
			t.Fatal(err)
		}
		for range 5 { // while the change is noticed
			time.Sleep(50 * time.Millisecond)
			if got := statuses(h, "acme", 1)[0]; got != http.StatusOK && got != http.StatusTooManyRequests {
				t.Errorf("status %d", got)
			}
		}
	}
}

func TestClose_OfManyCallersAndDuringReloads(t *testing.T) {
	dir := t.TempDir()
	write := func(limit string) error {
		return os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(perTenant("shop", limit, "")), 0o600)
	}
	if err := write("5"); err != nil {
		t.Fatal(err)
	}
	policies, err := weir.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.NewRedis(fixture.Redis(t).URL(), policies.Watch(), discard())
	if err != nil {
		t.Fatal(err)
	}
	h := l.Handler(ok())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { statuses(h, "acme", 50) })
		all.Go(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			for _, limit := range []string{"6", "7"} {
				if err := write(limit); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, err := l.Check(t.Context(), &engine.Check{Cost: 1}); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a check after Close: %v", err)
	}
}

// A namespace that changes would leave the program without limits.
func TestWatch_AnEditOutsideTheDomainKeepsThePolicies(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(perTenant("shop", "1", ""), "name: a", "name: b", 1) + perTenant("bank", "2", ""))
	policies, err := weir.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	logged := &lockedBuffer{}
	l, err := weir.NewMemory(policies.Watch(), weir.Domain("shop"), weir.Log(slog.New(slog.NewTextHandler(logged, nil))))
	h := closing(t, l, err).Handler(ok())
	write(perTenant("bank", "3", ""))
	fixture.Await(t, "the reason in the log", func() bool { return strings.Contains(logged.String(), "no policy is in domain") })
	if got := served(statuses(h, "acme", 3)); got != 1 {
		t.Errorf("%d served of a limit of 1", got)
	}
}

// Policies that are added later can be in any namespace.
func TestWatch_WithoutPoliciesNeedsADomain(t *testing.T) {
	dir := t.TempDir()
	policies, err := weir.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := weir.NewMemory(policies.Watch(), discard()); err == nil || !strings.Contains(err.Error(), "set the option Domain") {
		t.Errorf("error %v", err)
	}
	l, err := weir.NewMemory(policies, discard(), weir.Domain("shop"))
	h := closing(t, l, err).Handler(ok())
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(perTenant("shop", "1", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "the policy", func() bool { return statuses(h, "acme", 1)[0] == http.StatusTooManyRequests })
}

// A directory can have the Limiter of the cluster too. It has no effect here, and its mistakes would show only in the cluster.
func TestParse_ValidatesLimiters(t *testing.T) {
	limiter := func(fields string) string {
		return "---\napiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: edge, namespace: weir-system}\nspec:\n" +
			"  redis: {mode: Standalone, addresses: [\"redis:6379\"]}\n" + fields
	}
	policy := perTenant("shop", "1", "")
	if _, err := weir.Parse([]byte(policy + limiter("  replicas: 3\n"))); err != nil {
		t.Error(err)
	}
	_, err := weir.Parse([]byte(policy + limiter("  replicas: -4\n  replica: 1\n")))
	if err == nil || !strings.Contains(err.Error(), "policies:12: weir-system/edge: spec.replicas: must be at least 0") ||
		!strings.Contains(err.Error(), "policies:13: weir-system/edge: spec.replica: unknown field") {
		t.Errorf("error %v", err)
	}
}

func TestNil_OfATypeIsAnError(t *testing.T) {
	policies := parse(t, perTenant("shop", "1", ""))
	var registry *prometheus.Registry
	if _, err := weir.NewMemory(policies, discard(), weir.Metrics(registry)); err == nil || !strings.Contains(err.Error(), "nil *prometheus.Registry") {
		t.Errorf("a nil registry: %v", err)
	}
	if _, err := weir.NewMemory((*weir.Policies)(nil).Watch(), discard()); err == nil {
		t.Error("no error without policies")
	}
	if _, err := weir.NewMemory(&weir.Policies{}, discard()); err == nil || !strings.Contains(err.Error(), "no policy in the Policies") {
		t.Errorf("empty policies: %v", err)
	}
	if _, err := weir.LoadDir(""); err == nil || !strings.Contains(err.Error(), "use a dot") {
		t.Errorf("an empty path: %v", err)
	}
	for name, l := range map[string]*weir.Limiter{"nil": nil, "empty": {}} {
		if got := statuses(l.Handler(ok()), "acme", 1)[0]; got != http.StatusServiceUnavailable {
			t.Errorf("a limiter that is %s: status %d", name, got)
		}
		if _, err := l.Check(t.Context(), &httplimit.Check{Cost: 1}); err == nil {
			t.Errorf("a limiter that is %s: no error", name)
		}
		if err := l.Close(); err != nil {
			t.Errorf("a limiter that is %s: %v", name, err)
		}
	}
	for name, remote := range map[string]*httplimit.Remote{"nil": nil, "empty": {}} {
		if _, err := remote.Check(t.Context(), &httplimit.Check{Cost: 1}); err == nil {
			t.Errorf("a Remote that is %s: no error", name)
		}
		remote.Close()
	}
}

func TestNil_IsAnError(t *testing.T) {
	l, err := weir.NewMemory(parse(t, perTenant("shop", "1", "")), nil, discard(), weir.Metrics(nil), weir.Gate(nil))
	closing(t, l, err)
	var none context.Context
	for name, check := range map[string]func() error{
		"no check":   func() error { _, err := l.Check(t.Context(), nil); return err },
		"no context": func() error { _, err := l.Check(none, &engine.Check{Cost: 1}); return err },
	} {
		if err := check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if got := statuses(l.Handler(ok()), "acme", 2); got[0] != http.StatusOK || got[1] != http.StatusTooManyRequests {
		t.Errorf("statuses %v", got)
	}
	if _, err := weir.NewRedisClient(nil, nil, nil); err == nil {
		t.Error("no error without client and policies")
	}
	if _, err := weir.NewRedis("redis://127.0.0.1:1", nil, discard()); err == nil {
		t.Error("no error without policies")
	}
	if _, err := weir.Parse(nil); err == nil {
		t.Error("no error without a text")
	}
	if _, err := weir.Define(); err == nil {
		t.Error("no error without a policy")
	}
}
