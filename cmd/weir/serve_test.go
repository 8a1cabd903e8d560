package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds every wait of the tests.
const patience = 20 * time.Second

// transcript collects the output of a running command.
type Transcript struct{ fixture.LockedBuffer }

func (s *Transcript) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// launch runs a command until the test ends, and fails the test if the command fails.
func launch(t *testing.T, command func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- command(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the command failed: %v", err)
			}
		case <-time.After(patience):
			t.Error("the command did not end in time")
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

// find waits until text matches the expression, and returns its group.
func find(t *testing.T, text fmt.Stringer, expression string) string {
	t.Helper()
	var found []string
	pattern := regexp.MustCompile(expression)
	fixture.Await(t, expression, func() bool {
		found = pattern.FindStringSubmatch(text.String())
		return found != nil
	})
	return found[1]
}

type verdict struct {
	status int
	Limit  int64
	Source string
}

func check(t *testing.T, base, body string) verdict {
	t.Helper()
	response, err := http.Post(base+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	v := verdict{status: response.StatusCode}
	if err := json.NewDecoder(response.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

const (
	acme     = `{"domain":"shop","headers":{"x-tenant-id":"acme"}}`
	acmePeek = `{"domain":"shop","headers":{"x-tenant-id":"acme"},"peek":true}`
)

func tenantPolicy(limit string) string {
	return `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tenant, namespace: shop}
spec: {axis: Tenant, limit: ` + limit + `, window: 1h, algorithm: SlidingWindowLog}
`
}

// save replaces a file atomically, as an editor does.
func save(t *testing.T, path, content string) {
	t.Helper()
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

// spend sends requests until the first denial, at most 100, and returns the number of allowed requests.
func spend(t *testing.T, base string) (passed int) {
	t.Helper()
	for range 100 {
		if check(t, base, acme).status != http.StatusOK {
			return passed
		}
		passed++
	}
	return passed
}

var anyPort = socketFlags{
	style: "RateLimit", clientHeader: "X-Forwarded-For", listen: "127.0.0.1:0", grpc: "127.0.0.1:0", ops: "127.0.0.1:0",
}

func TestServe_FollowsItsDirectory(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "tenant.yaml")
	save(t, policy, tenantPolicy("2"))
	save(t, filepath.Join(dir, "broken.yaml"), strings.ReplaceAll(tenantPolicy("-1"), "name: tenant", "name: broken"))

	var stdout, log Transcript
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{policies: dir, counters: countersOf("weir:"), sockets: anyPort}, &stdout, log.Logger())
	})
	base := find(t, &stdout, `weir enforces 1 policy from .* at (http://127\.0\.0\.1:[0-9]+)/v1/check, counters in this process`)
	ops := find(t, &stdout, `metrics and probes at (http://127\.0\.0\.1:[0-9]+)\n`)
	if !strings.Contains(log.String(), "broken.yaml line=5 policy=shop/broken field=spec.limit problem=") {
		t.Errorf("the log does not report where the problem is:\n%s", &log)
	}
	if status, body := get(t, ops+"/readyz"); status != http.StatusOK || !strings.HasPrefix(body, "ok sha256:") {
		t.Errorf("/readyz: %d %q", status, body)
	}

	if passed := spend(t, base); passed != 2 {
		t.Errorf("%d requests passed, want 2", passed)
	}
	limitIs := func(want int64) func() bool {
		return func() bool { return check(t, base, acmePeek).Limit == want }
	}
	save(t, policy, tenantPolicy("4"))
	fixture.Await(t, "the edited limit is active", limitIs(4))
	if passed := spend(t, base); passed != 2 {
		t.Errorf("%d more requests passed, want 2", passed)
	}

	save(t, policy, tenantPolicy("minus four"))
	fixture.Await(t, "the broken limit in the log", func() bool { return strings.Contains(log.String(), "policy=shop/tenant field=spec.limit problem=") })
	fixture.Await(t, "the previous version in the log", func() bool {
		return strings.Contains(log.String(), `msg="previous version stays enforced" policies=shop/tenant`)
	})
	if v := check(t, base, acme); v.status != http.StatusTooManyRequests || v.Limit != 4 {
		t.Errorf("after a broken edit: %+v", v)
	}
	save(t, policy, "kind: [")
	fixture.Await(t, "the unreadable file in the log", func() bool { return strings.Contains(log.String(), "tenant.yaml line=1 problem=") })
	if v := check(t, base, acme); v.status != http.StatusTooManyRequests || v.Limit != 4 {
		t.Errorf("after an unreadable edit: %+v", v)
	}
	save(t, policy, tenantPolicy("5"))
	fixture.Await(t, "the repaired limit is active", limitIs(5))

	if err := os.Remove(policy); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "the removed policy is not active", func() bool { return check(t, base, acme).Source == "none" })
	fixture.Await(t, "the warning that no policy is enforced", func() bool {
		return strings.Contains(log.String(), "no policy is enforced: all requests are allowed")
	})
}

func TestServe_StartsWithoutPolicies(t *testing.T) {
	var stdout, log Transcript
	dir := t.TempDir()
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{policies: dir, counters: countersOf("weir:"), sockets: anyPort}, &stdout, log.Logger())
	})
	base := find(t, &stdout, `weir enforces 0 policies from .* at (http://127\.0\.0\.1:[0-9]+)/v1/check`)
	if n := strings.Count(log.String(), "no policy is enforced: all requests are allowed"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, &log)
	}
	if v := check(t, base, acme); v.status != http.StatusOK || v.Source != "none" {
		t.Errorf("%+v", v)
	}
}

func TestServe_SharesCountersInRedis(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "tenant.yaml"), tenantPolicy("3"))
	redis := miniredis.RunT(t)
	bases := make([]string, 2)
	for i := range bases {
		var stdout, log Transcript
		launch(t, func(ctx context.Context) error {
			return runServe(ctx, serveFlags{
				policies: dir, redis: "redis://:@" + redis.Addr(), counters: countersOf("shared:"), sockets: anyPort,
			}, &stdout, log.Logger())
		})
		bases[i] = find(t, &stdout, `at (http://127\.0\.0\.1:[0-9]+)/v1/check, counters in redis://127\.0\.0\.1:`)
	}
	if v := check(t, bases[0], acme); v != (verdict{200, 3, "redis"}) {
		t.Errorf("%+v", v)
	}
	if passed := spend(t, bases[1]); passed != 2 {
		t.Errorf("%d requests passed at the second process, want 2", passed)
	}
	for _, key := range redis.Keys() {
		if !strings.HasPrefix(key, "shared:throttle:tenant:{acme}:") {
			t.Errorf("key %s", key)
		}
	}
}
