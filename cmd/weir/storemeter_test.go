package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

func TestStoreMeter_CountsRoundTripsAndBreakers(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "tenant.yaml"), tenantPolicy("2"))
	redis := fixture.Redis(t)
	f := serveFlags{policies: dir, redis: redis.URL(), counters: countersOf("weir:"), sockets: anyPort}
	var stdout, log Transcript
	launch(t, func(ctx context.Context) error { return runServe(ctx, f, &stdout, log.Logger()) })
	base := find(t, &stdout, `at (http://127\.0\.0\.1:[0-9]+)/v1/check`)
	ops := find(t, &stdout, `metrics and probes at (http://127\.0\.0\.1:[0-9]+)\n`)
	wants := func(lines ...string) {
		t.Helper()
		_, text := get(t, ops+"/metrics")
		for _, line := range lines {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %s", line)
			}
		}
	}
	check(t, base, acme)
	wants("weir_redis_batch_calls_count 1", `weir_redis_batch_calls_bucket{le="1"} 1`, "weir_redis_queue_seconds_count 1",
		`weir_redis_breaker_changes_total{state="open"} 0`, `weir_redis_breaker_changes_total{state="closed"} 0`)
	redis.Kill()
	fixture.Await(t, "the breaker opens", func() bool {
		check(t, base, acme)
		_, text := get(t, ops+"/metrics")
		return strings.Contains(text, `weir_redis_breaker_changes_total{state="open"} 1`+"\n")
	})
}
