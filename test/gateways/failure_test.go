//go:build gateways

package gateways_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

// failureModes are configurations by the status that a client gets without a decision: that of a filter that denies, else the service's.
var failureModes = map[string]struct {
	oldNew []string // changes of the documented configuration
	want   string
}{
	"both allow, as documented": {nil, "OK, OK"},
	"ext_authz denies":          {[]string{"failure_mode_allow: true", "failure_mode_allow: false"}, "Service Unavailable, Service Unavailable"},
	"RLS denies":                {[]string{"failure_mode_deny: false", "failure_mode_deny: true"}, "Service Unavailable, Service Unavailable"},
}

func TestEnvoy_AppliesItsFailureModesWithoutADecision(t *testing.T) {
	for name, mode := range failureModes {
		t.Run(name, func(t *testing.T) {
			w := newService(t, documentedPolicies(t))
			address := free(t)
			w.weir = w.startLimiter(t, "--grpc-listen", address)
			slow, err := connection.StartProxy(address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = slow.Stop() }) // Envoy has ended
			w.places.weir = slow.Addr()
			w.envoy = startEnvoy(t, replace(t, documentedConfig(t, w.places), mode.oldNew...))
			check := func(when, want string) {
				t.Helper()
				if got := w.statuses(t, 2, "/login"); got != want {
					t.Errorf("%s: %s, want %s", when, got, want)
				}
			}
			check("while the limiter answers", "OK, OK")
			slow.DelayReplies(time.Second)
			check("while the limiter is slow", mode.want)
			slow.Pass()
			w.awaitDecisions(t)
			if err := w.weir.Stop(); err != nil {
				t.Error(err)
			}
			check("while the limiter is stopped", mode.want)
			w.weir = w.startLimiter(t, "--grpc-listen", address)
			w.awaitDecisions(t)
			w.weir.crash()
			check("after the limiter was killed", mode.want)
		})
	}
}

// awaitDecisions waits until both filters get decisions. It uses a client address of its own.
func (w *world) awaitDecisions(t *testing.T) {
	t.Helper()
	fixture.Await(t, "both filters get decisions", func() bool {
		before := w.errors(t)
		return w.statuses(t, 1, "/", "x-tenant-id", "any") == "OK" && w.errors(t) == before
	})
}

// errors returns how many calls of both filters failed.
func (w *world) errors(t *testing.T) int {
	t.Helper()
	return w.envoy.stat(t, "cluster.shop.ratelimit.error") + w.envoy.stat(t, "http.http.ext_authz.error")
}

// While Redis is slow, a limiter waits for it, and then decides without it. It waits longer than Envoy does by default.
func TestEnvoy_DocumentedTimeoutCoversALimiterThatWaitsForRedis(t *testing.T) {
	const wait = "30ms" // the default of the limiter is 50 ms
	for name, test := range map[string]struct {
		oldNew []string
		errors bool
	}{
		"documented":      {nil, false},
		"Envoy's default": {[]string{"timeout: 0.1s                     # Envoy's", "# Envoy's"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newService(t, document(t)[1]) // only that of RLS
			slow, err := connection.StartProxy(w.redis.Addr())
			if err != nil {
				t.Fatal(err)
			}
			w.weir = w.startLimiter(t, "--redis", "redis://"+slow.Addr(), "--redis-timeout", wait)
			t.Cleanup(func() { _ = slow.Stop() }) // the limiter still runs
			w.places.weir = w.weir.grpc
			w.envoy = startEnvoy(t, replace(t, documentedConfig(t, w.places), test.oldNew...))
			w.awaitDecisions(t) // Envoy has connections
			slow.DelayReplies(10 * time.Second)
			if got := w.statuses(t, 1, "/login"); got != "OK" {
				t.Error(got)
			}
			if failed := w.envoy.stat(t, "cluster.shop.ratelimit.error"); (failed > 0) != test.errors {
				t.Errorf("%d calls failed", failed)
			}
		})
	}
}

func TestEnvoy_DeniesWhatAPolicyDeniesWithoutRedis(t *testing.T) {
	const policies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: bank, namespace: shop}
spec: {axis: IP, limit: 100, window: 1h, onStoreFailure: Deny, match: {http: {paths: [{type: PathPrefix, value: /bank}]}}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: local, namespace: shop}
spec: {axis: IP, limit: 2, window: 1h, match: {http: {paths: [{type: PathPrefix, value: /local}]}}}
`
	w := newWorld(t, policies, func(t *testing.T, p places) string {
		t.Helper()
		return replace(t, documentedConfig(t, p), "failure_mode_allow: true", "failure_mode_allow: false")
	})
	if got := w.statuses(t, 1, "/bank"); got != "OK" {
		t.Error(got)
	}
	if err := w.redis.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := w.statuses(t, 2, "/bank"); got != "Service Unavailable, Service Unavailable" {
		t.Error(got)
	}
	w.statuses(t, 2, "/local")
	if got := w.statuses(t, 1, "/local"); got != "Too Many Requests" {
		t.Error(got)
	}
}
