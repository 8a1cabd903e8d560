package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/test/fixture"
)

// onFailure returns a policy for one path with an onStoreFailure and a limit that no test reaches.
func onFailure(what string) string {
	lower := strings.ToLower(what)
	return fmt.Sprintf(`
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: %s, namespace: shop}
spec: {axis: Tenant, limit: 10, window: 1h, algorithm: SlidingWindowLog, onStoreFailure: %s, match: {http: {paths: [{value: /%s}]}}}
`, lower, what, lower)
}

func TestServe_AppliesOnStoreFailureWhileRedisIsUnavailable(t *testing.T) {
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	dir, log := t.TempDir(), &Transcript{}
	save(t, filepath.Join(dir, "policies.yaml"), onFailure("Local")+onFailure("Allow")+onFailure("Deny"))
	counters := countersOf("weir:")
	counters.timeout = 200 * time.Millisecond
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{policies: dir, redis: redis.URL(), counters: counters, sockets: anyPort}, log, log.Logger())
	})
	base := find(t, log, `at (http://127\.0\.0\.1:[0-9]+)/v1/check, counters in redis://127\.0\.0\.1:`)
	ops := find(t, log, `probes at (\S+)`)
	_, ready := get(t, ops+"/readyz")

	ask := func(path string) verdict {
		return check(t, base, `{"domain":"shop","path":"`+path+`","headers":{"x-tenant-id":"acme"}}`)
	}
	want := func(when string, want map[string]verdict) {
		t.Helper()
		got := map[string]verdict{}
		for path := range want {
			got[path] = ask(path)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(verdict{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		if status, body := get(t, ops+"/readyz"); status != http.StatusOK || body != ready {
			t.Errorf("%s: /readyz %d %q, was %q", when, status, body, ready)
		}
	}
	well := map[string]verdict{"/local": {200, 10, "redis"}, "/allow": {200, 10, "redis"}, "/deny": {200, 10, "redis"}}
	want("while Redis is well", well)

	redis.Kill()
	want("while Redis is unavailable", map[string]verdict{"/local": {200, 10, "local"}, "/allow": {200, 10, "local"}, "/deny": {503, 0, ""}})
	gauge := func(name, value string) bool {
		_, metrics := get(t, ops+"/metrics")
		return strings.Contains(metrics, "\n"+name+" "+value+"\n")
	}
	// An outage begins when a probe fails, which is after the first call that fails.
	fixture.Await(t, "the metrics report the outage", func() bool { return gauge("weir_local_mode", "1") && gauge("weir_local_owing", "1") })
	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "decisions use Redis again", func() bool { return gauge("weir_local_mode", "0") && ask("/local").Source == "redis" })
	want("when Redis is back", well)
	if !gauge("weir_local_mode_activations_total", "1") || !gauge("weir_local_owing", "0") {
		t.Error("the metrics do not report the end of the outage")
	}
	for line, times := range map[string]int{"Redis unavailable": 1, "Redis available again": 1} {
		if got := strings.Count(log.String(), line); got != times {
			t.Errorf("%d log lines %q, want %d:\n%s", got, line, times, log)
		}
	}
}

// A replica that starts during an outage knows only the flag. All replicas together must not admit more than the limit, so the share of 10
// units among 4 replicas is 2.
func TestServe_SharesLimitsAmongTheReplicasOfTheFlagUntilRedisReportsThem(t *testing.T) {
	for replicas, want := range map[int]int{1: 10, 3: 3, 4: 2, 10: 1, 11: 0} {
		t.Run(strconv.Itoa(replicas), func(t *testing.T) {
			unused, err := fixture.FreeAddr(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			dir, log := t.TempDir(), &Transcript{}
			save(t, filepath.Join(dir, "policies.yaml"), onFailure("Local"))
			counters := countersOf("weir:")
			counters.replicas = replicas
			launch(t, func(ctx context.Context) error {
				return runServe(ctx, serveFlags{policies: dir, redis: "redis://" + unused, counters: counters, sockets: anyPort}, log, log.Logger())
			})
			base := find(t, log, `at (http://127\.0\.0\.1:[0-9]+)/v1/check, counters in redis://127\.0\.0\.1:`)
			admitted := 0
			for range 11 {
				if check(t, base, `{"domain":"shop","path":"/local","headers":{"x-tenant-id":"acme"}}`).status == http.StatusOK {
					admitted++
				}
			}
			if admitted != want {
				t.Errorf("%d replicas: one of them admits %d of a limit of 10, want %d", replicas, admitted, want)
			}
		})
	}
}

// Four replicas share a limit of 100 units. A client has spent 20 of them, always at the first replica, when Redis becomes unavailable.
func TestServe_LocalShareDecidesWhatAClientOfOneReplicaGets(t *testing.T) {
	const replicas = 4
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	dir := t.TempDir()
	for _, share := range []string{"Equal", "Whole"} {
		save(t, filepath.Join(dir, share+".yaml"), fmt.Sprintf(`
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: %s, namespace: shop}
spec: {axis: Tenant, limit: 100, window: 1h, algorithm: SlidingWindowLog, localShare: %s, match: {http: {paths: [{value: /%s}]}}}
`, strings.ToLower(share), share, share))
	}
	var bases []string
	for range replicas {
		counters, log := countersOf("weir:"), &Transcript{}
		counters.timeout, counters.replicas = 200*time.Millisecond, replicas
		launch(t, func(ctx context.Context) error {
			return runServe(ctx, serveFlags{policies: dir, redis: redis.URL(), counters: counters, sockets: anyPort}, log, log.Logger())
		})
		bases = append(bases, find(t, log, `at (http://127\.0\.0\.1:[0-9]+)/v1/check, counters in redis://127\.0\.0\.1:`))
	}
	admitted := func(replica int, path string, most int) (units int) {
		for range most {
			if check(t, bases[replica], `{"domain":"shop","path":"/`+path+`","headers":{"x-tenant-id":"acme"}}`).status == http.StatusOK {
				units++
			}
		}
		return units
	}
	for _, path := range []string{"Equal", "Whole"} {
		if got := admitted(0, path, 20); got != 20 {
			t.Fatalf("%s: Redis admits %d of 20 units", path, got)
		}
	}
	redis.Kill()
	for path, want := range map[string][2]int{"Equal": {20, 25}, "Whole": {80, 100}} {
		if got := [2]int{admitted(0, path, 110), admitted(1, path, 110)}; got != want {
			t.Errorf("%s: without Redis, the replica of the client admits %d units and another one %d, want %v", path, got[0], got[1], want)
		}
	}
}
