package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// serveOn runs `weir serve` with that Redis and two policies that apply to each request, and returns the base URL and the log.
func serveOn(t *testing.T, url string) (base string, log *Transcript) {
	t.Helper()
	dir, log := t.TempDir(), &Transcript{}
	save(t, filepath.Join(dir, "policies.yaml"), `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tenant, namespace: shop}
spec: {axis: Tenant, limit: 1000000, window: 1h}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: user, namespace: shop}
spec: {axis: User, limit: 1000000, window: 1h, identifier: {source: {header: X-User-Id}}}
`)
	counters := countersOf("weir:")
	counters.timeout = 200 * time.Millisecond
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{policies: dir, redis: url, counters: counters, sockets: anyPort}, log, log.Logger())
	})
	return find(t, log, `at (http://127\.0\.0\.1:[0-9]+)/v1/check, counters in redis`), log
}

// askAsMany sends requests of many tenants and users, whose counters are in many slots, and counts the answers by source.
func askAsMany(t *testing.T, base string) map[string]int {
	t.Helper()
	sources := map[string]int{}
	for i := range 30 {
		sources[check(t, base, fmt.Sprintf(`{"domain":"shop","headers":{"x-tenant-id":"t%d","x-user-id":"u%d"}}`, i, i)).Source]++
	}
	return sources
}

func TestServe_DecidesInTheClusterOfItsOnlyAddress(t *testing.T) {
	for name, address := range map[string]string{
		"three primaries": fixture.RedisCluster(t).Nodes()[0].Addr(), "one node": fixture.RedisClusterNode(t).Addr(),
	} {
		base, log := serveOn(t, "redis://"+address)
		if sources := askAsMany(t, base); sources["redis"] != 30 {
			t.Errorf("%s: decisions by source %v, want 30 of redis", name, sources)
		}
		if !strings.Contains(log.String(), "connected to Redis") || !strings.Contains(log.String(), "Cluster with") {
			t.Errorf("%s: the log does not describe the cluster:\n%s", name, log)
		}
	}
}

func TestServe_DecidesInAClusterThatWasUnavailableAtStart(t *testing.T) {
	node := fixture.RedisClusterNode(t)
	node.Kill()
	base, log := serveOn(t, node.URL())
	if sources := askAsMany(t, base); sources["local"] != 30 {
		t.Errorf("without Redis: %v", sources)
	}
	if got := log.String(); !strings.Contains(got, "Redis is not available yet") || !strings.Contains(got, "as soon as it is available") {
		t.Errorf("the log does not report that Redis is unavailable:\n%s", got)
	}
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "decisions use the cluster", func() bool { return askAsMany(t, base)["redis"] == 30 })
}

func TestServe_ReportsAWrongSetUpAtStart(t *testing.T) {
	locked := fixture.Redis(t, "--requirepass", "right")
	primary := fixture.Redis(t)
	replica := fixture.Redis(t, "--replicaof", strings.ReplaceAll(primary.Addr(), ":", " "))
	encrypted, _ := fixture.RedisTLS(t, false)
	withoutEvalsha := fixture.Redis(t, "--user", "default", "on", "nopass", "~*", "&*", "+@all", "-evalsha")
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, test := range map[string]struct{ url, want string }{
		"wrong password":  {"redis://:hunter2@" + locked.Addr(), "rejects the user or the password"},
		"no password":     {"redis://" + locked.Addr(), "requires a password"},
		"a replica":       {replica.URL(), "is a replica of " + primary.Addr()},
		"a Sentinel":      {"redis://" + fixture.Sentinel(t, primary.Addr()).Addr(), "is a Sentinel that monitors"},
		"a port with TLS": {"redis://" + encrypted.Addr(), "requires TLS"},
		"one without TLS": {"rediss://" + primary.Addr(), "does not use TLS"},
		"HTTP":            {"redis://" + web.Listener.Addr().String(), "is an HTTP server"},
		"without EVALSHA": {withoutEvalsha.URL(), "grant the user +evalsha"},
	} {
		_, log := serveOn(t, test.url) // without a request
		lines := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "level=ERROR") && strings.Contains(line, test.want) {
				lines++
			}
		}
		if lines != 1 || strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s: %d lines with %q, want 1:\n%s", name, lines, test.want, log)
		}
	}
}
