package main

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

// sharing runs two processes of weir serve that share counters in a Redis, with the policy shop/tenant of 2 units.
func sharing(t *testing.T, redis *fixture.RedisProcess) (bases, admins []string, logs []*Transcript) {
	t.Helper()
	return sharingAt(t, tenantPolicy("2"), redis.URL(), redis.URL())
}

// sharingAt runs a process of weir serve for each URL of Redis.
func sharingAt(t *testing.T, policies string, urls ...string) (bases, admins []string, logs []*Transcript) {
	t.Helper()
	for _, url := range urls {
		dir, log := t.TempDir(), &Transcript{}
		save(t, filepath.Join(dir, "policies.yaml"), policies)
		socket := "unix:" + filepath.Join(dir, "admin.sock")
		counters := countersOf("weir:")
		counters.timeout = 200 * time.Millisecond
		launch(t, func(ctx context.Context) error {
			f := serveFlags{policies: dir, redis: url, counters: counters, sockets: anyPort, admin: adminFlags{listen: socket}}
			return runServe(ctx, f, log, log.Logger())
		})
		bases, admins, logs = append(bases, find(t, log, `at (http://\S+)/v1/check`)), append(admins, socket), append(logs, log)
	}
	return bases, admins, logs
}

// readCounter returns the counter of acme.
func readCounter(t *testing.T, endpoint string) (c admin.Counter) {
	t.Helper()
	status, stdout, stderr := runWithInput(t, "", "counters", "get", "acme", "--admin", endpoint, "-o", "json")
	var list admin.CounterList
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != 0 || len(list.Counters) != 1 {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	return list.Counters[0]
}

func TestCountersReset_ReachesEachProcess(t *testing.T) {
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	bases, admins, logs := sharing(t, redis)
	fixture.Await(t, "the second process knows the denial", func() bool {
		check(t, bases[0], acme)
		return check(t, bases[1], acme).Source == "cache"
	})
	if c := readCounter(t, admins[1]); c.Used != 2 || c.Remaining != 0 || !c.Over || c.Local {
		t.Errorf("%+v", c)
	}
	status, stdout, stderr := runWithInput(t, "", "counters", "list", "--policy", "shop/tenant", "--over", "--admin", admins[0])
	if status != 0 || !strings.Contains(stdout, "shop/tenant  acme        -         -     2 per 1h  2     0") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	reset := []string{"counters", "reset", "acme", "--policy", "shop/tenant", "--reason", "INC-1", "--admin", admins[0]}
	if status, _, stderr := runWithInput(t, "", append(reset, "--dry-run")...); status != 0 || stderr != "1 counter with used units would be reset\n" {
		t.Errorf("status %d: %s", status, stderr)
	}
	if v := check(t, bases[1], acme); v.status != http.StatusTooManyRequests {
		t.Errorf("after a dry run: %+v", v)
	}
	began := time.Now()
	if status, _, stderr := runWithInput(t, "", reset...); status != 0 || stderr != "1 counter with used units reset\n" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	fixture.Await(t, "the second process allows", func() bool { return check(t, bases[1], acme).status == http.StatusOK })
	t.Logf("the other process allowed after %v", time.Since(began))
	find(t, logs[0], `(counter reset" policy=shop/tenant identifier=acme endpoint="" used=2 caller="uid \d+, pid \d+" reason=INC-1)`)
}

// Each process decides on its share, and must neither report what it has admitted before the reset, nor find the old units in Redis.
func TestCountersReset_DuringAnOutageStays(t *testing.T) {
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	bases, admins, logs := sharing(t, redis)
	for _, base := range bases {
		spend(t, base)
	}
	if err := redis.Pause(); err != nil { // Redis keeps its counters
		t.Fatal(err)
	}
	for i, base := range bases {
		fixture.Await(t, "local mode", func() bool {
			check(t, base, acmePeek)
			return strings.Contains(logs[i].String(), "Redis unavailable")
		})
		if v := check(t, base, acme); v.status != http.StatusTooManyRequests {
			t.Errorf("during the outage: %+v", v)
		}
	}
	status, _, stderr := runWithInput(t, "", "counters", "reset", "acme", "--all-policies", "--reason", "INC-2", "--admin", admins[0], "--also", admins[1])
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for i, body := range []string{acme, acmePeek} { // one unit in all
		if v := check(t, bases[i], body); v.status != http.StatusOK || v.Source != "local" {
			t.Errorf("after the reset: %+v", v)
		}
	}
	if c := readCounter(t, admins[0]); !c.Local || c.Used != 1 {
		t.Errorf("%+v, want one unit of the local share", c)
	}
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	for i, base := range bases {
		fixture.Await(t, "decisions use Redis again", func() bool { return check(t, base, acmePeek).Source == "redis" })
		_, stdout, _ := runWithInput(t, "", "counters", "get", "acme", "--admin", admins[i], "-o", "json")
		var list admin.CounterList
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list.Counters) != 1 || list.Counters[0].Used != 1 {
			t.Errorf("after the outage: %+v (%v), want the unit after the reset", list, err)
		}
	}
}

// perPathPolicy counts each path separately, so that its counters are found only by a search of Redis.
const perPathPolicy = `
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: path, namespace: shop}
spec: {axis: Tenant, scope: Endpoint, limit: 100, window: 1h, algorithm: FixedWindow}
`

// One process reaches Redis and the other does not, for example because of a network policy.
func TestCountersReset_OfAProcessThatIsCutOffLeavesWhatIsCountedSince(t *testing.T) {
	redis := fixture.Redis(t)
	proxy := connection.ProxyTo(t, redis.Addr())
	bases, admins, logs := sharingAt(t, tenantPolicy("2")+perPathPolicy, redis.URL(), "redis://"+proxy.Addr())
	proxy.DropReplies()
	fixture.Await(t, "local mode", func() bool {
		check(t, bases[1], acmePeek)
		return strings.Contains(logs[1].String(), "Redis unavailable")
	})
	spendBoth := func() {
		t.Helper()
		for range 2 {
			if v := check(t, bases[0], acme); v.status != http.StatusOK {
				t.Errorf("%+v, want two units", v)
			}
		}
	}
	spendBoth()
	status, stdout, stderr := runWithInput(t, "", "counters", "get", "acme", "--admin", admins[1])
	if status != 0 || !strings.Contains(stderr, "which count each endpoint separately: shop/path. Repeat the command when Redis is available") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	status, _, stderr = runWithInput(t, "", "counters", "reset", "acme", "--all-policies", "--reason", "INC-3", "--admin", admins[0], "--also", admins[1])
	if status != cli.ExitFailed || !strings.Contains(stderr, admins[1]+" did not find the counters") || !strings.Contains(stderr, "not all counters were reset") {
		t.Errorf("status %d: %s", status, stderr)
	}
	spendBoth()
	proxy.Pass()
	fixture.Await(t, "the second process uses Redis again", func() bool { return check(t, bases[1], acmePeek).Source == "redis" })
	for _, endpoint := range admins {
		_, stdout, stderr := runWithInput(t, "", "counters", "get", "acme", "--policy", "shop/tenant", "--admin", endpoint, "-o", "json")
		var list admin.CounterList
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list.Counters) != 1 || list.Counters[0].Used != 2 {
			t.Errorf("%s: %+v (%v, %s), want the two units after the reset", endpoint, list, err, stderr)
		}
	}
}

func TestCounters_ReportUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"counters get --admin unix:/x":            "name one identifier",
		"counters get a b --admin unix:/x":        "name one identifier",
		"counters get a":                          "--admin is required",
		"counters list --admin unix:/x":           "--policy is required",
		"counters reset a":                        "--admin is required",
		"counters reset a --also unix:/x":         "--admin is required",
		"counters reset a --admin unix:/x -o xml": `--output "xml" is invalid`,
		"counters rest":                           `unknown command "rest"`,
	} {
		if status, _, stderr := runWithInput(t, "", strings.Fields(args)...); status != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, stderr, want)
		}
	}
}
