package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

const limiterTimeout = 2 * time.Second // long, because the tests do not test timeouts

func countersOf(prefix string) counterFlags {
	return counterFlags{timeout: limiterTimeout, prefix: prefix, memory: "256Mi", replicas: 1, overflow: overflowShared}
}

// startLimiter runs `weir limiter` against a Redis and returns its base URLs.
func startLimiter(t *testing.T, redis, replica string) (base, ops string, log *Transcript) {
	t.Helper()
	log = &Transcript{}
	launch(t, func(ctx context.Context) error {
		return runLimiter(ctx, limiterFlags{
			limiter: "weir-system/default", redis: redis, counters: countersOf("weir:"), replica: replica, sockets: anyPort,
		}, log.Logger())
	})
	base = "http://" + find(t, log, `listen=(\S+)`)
	return base, "http://" + find(t, log, `ops=(\S+)`), log
}

func tenantSet(units int64) rules.Set {
	return rules.Set{Rules: []rules.Rule{{
		Policy: "shop/tenant", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.SlidingWindowLog, Units: units, WindowSeconds: 3600,
	}}}
}

func publishSet(t *testing.T, exchange *controlplane.Exchange, set rules.Set) (revision string) {
	t.Helper()
	encoded := new(rules.Encoder).Encode(set, func(i int) string { return set.Rules[i].Revision() })
	if _, err := exchange.Publish(t.Context(), encoded, false); err != nil {
		t.Fatal(err)
	}
	return encoded.Revision
}

func TestLimiter_ReplicasShareRulesAndCounters(t *testing.T) {
	redis := miniredis.RunT(t)
	url := "redis://" + redis.Addr()
	client, err := redisclient.Open(url, limiterTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")

	a, opsA, _ := startLimiter(t, url, "a")
	b, opsB, _ := startLimiter(t, url, "b")
	fixture.Await(t, "not ready without a rule set", func() bool {
		status, body := get(t, opsA+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "no rule set published at weir:rules:weir-system/default")
	})
	acknowledged := func(revision string) func() bool {
		want := []controlplane.Replica{
			{ID: "a", Revision: revision, Mode: "redis", Format: rules.Format}, {ID: "b", Revision: revision, Mode: "redis", Format: rules.Format},
		}
		return func() bool {
			got, err := exchange.Replicas(t.Context())
			return err == nil && cmp.Equal(want, got, cmpopts.IgnoreFields(controlplane.Replica{}, "Decided"))
		}
	}
	revision := publishSet(t, exchange, tenantSet(3))
	fixture.Await(t, "both replicas acknowledge", acknowledged(revision))
	for _, ops := range []string{opsA, opsB} {
		if status, body := get(t, ops+"/readyz"); status != http.StatusOK || body != "ok "+revision+" from redis\n" {
			t.Errorf("/readyz: %d %q", status, body)
		}
	}
	for i, want := range []verdict{{200, 3, "redis"}, {200, 3, "redis"}, {200, 3, "redis"}, {429, 3, "redis"}, {429, 3, "redis"}} {
		if got := check(t, []string{a, b}[i%2], acme); got != want {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
	}
	fixture.Await(t, "both replicas acknowledge the edit", acknowledged(publishSet(t, exchange, tenantSet(4))))
	if passed := spend(t, b); passed != 1 {
		t.Errorf("after the edit %d requests passed, want 1", passed)
	}
}

func TestLimiter_ItsHeartbeatHasTheReasonWhyItRejectsRules(t *testing.T) {
	redis := miniredis.RunT(t)
	url := "redis://" + redis.Addr()
	client, err := redisclient.Open(url, limiterTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")
	startLimiter(t, url, "a")
	rejects := func(revision, reason string) func() bool {
		return func() bool {
			got, err := exchange.Replicas(t.Context())
			return err == nil && len(got) == 1 && got[0].Revision == revision && strings.HasPrefix(got[0].Rejected, reason) &&
				(got[0].Rejected == "") == (reason == "")
		}
	}
	good := publishSet(t, exchange, tenantSet(3))
	fixture.Await(t, "it enforces its first rules", rejects(good, ""))
	secret := tenantSet(4)
	secret.Rules[0].Axis, secret.Rules[0].Identifier.Secret, secret.HashKey = "APIKey", true, "0123456789abcdef"
	publishSet(t, exchange, secret)
	fixture.Await(t, "it rejects rules that need a hash key", rejects(good, "rule shop/tenant hashes identifiers, and there is no hash key"))
	fixture.Await(t, "it enforces the next rules", rejects(publishSet(t, exchange, tenantSet(5)), ""))
}

func TestLimiter_ReportsWhyItIsNotReadyWithoutRedis(t *testing.T) {
	redis := miniredis.RunT(t)
	address := redis.Addr()
	redis.Close()
	base, ops, log := startLimiter(t, "redis://user:secret@"+address, "")
	fixture.Await(t, "not ready without Redis", func() bool {
		status, body := get(t, ops+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "no rules yet: Redis unreachable: ")
	})
	if v := check(t, base, acme); v.status != http.StatusServiceUnavailable {
		t.Errorf("without rules: %+v", v)
	}
	if _, body := get(t, ops+"/healthz"); body != "ok\n" {
		t.Errorf("/healthz: %q", body)
	}
	if strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "redis=redis://"+address) {
		t.Errorf("log:\n%s", log)
	}
}

func TestReplicaName_IsUnique(t *testing.T) {
	if got := replicaName("given"); got != "given" {
		t.Errorf("%q", got)
	}
	if one, other := replicaName(""), replicaName(""); one == other || one == "" {
		t.Errorf("%q and %q", one, other)
	}
}

func TestLimiter_ItsHeartbeatHasTheRulesThatHaveDecided(t *testing.T) {
	redis := miniredis.RunT(t)
	url := "redis://" + redis.Addr()
	client, err := redisclient.Open(url, limiterTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")
	base, _, _ := startLimiter(t, url, "a")
	revision := publishSet(t, exchange, tenantSet(3))
	reports := func(decided ...byte) func() bool {
		return func() bool {
			got, err := exchange.Replicas(t.Context())
			return err == nil && len(got) == 1 && got[0].Revision == revision && got[0].Decided != nil && bytes.Equal(got[0].Decided, decided)
		}
	}
	fixture.Await(t, "it has decided nothing", reports())
	check(t, base, acme)
	fixture.Await(t, "it has decided a request", reports(1))
}
