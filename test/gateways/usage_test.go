//go:build gateways

package gateways_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

const budgetPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: budget, namespace: shop}
spec: {axis: Tenant, limit: 100, window: 720h, algorithm: FixedWindow, identifier: {descriptor: tenant}, match: {descriptors: [{key: tenant}]}}
`

// budgetOf returns a check of the budget of a tenant.
func budgetOf(tenant string) map[string]any {
	return map[string]any{"descriptors": []any{[]any{map[string]string{"key": "tenant", "value": tenant}}}}
}

// limitedBy returns the documented configuration, with the route of the page that charges for responses instead of that for all paths.
// In this route, the arguments are replaced.
func limitedBy(oldNew ...string) func(*testing.T, places) string {
	return func(t *testing.T, p places) string {
		t.Helper()
		blocks := document(t)
		route := replace(t, blocks[len(blocks)-1], oldNew...)
		route = strings.ReplaceAll(strings.TrimSuffix(route, "\n"), "\n", "\n              ") + "\n"
		return replace(t, documentedConfig(t, p), `- match: {prefix: /}
                route:
                  cluster: shop
                  rate_limits:
                  - actions:
                    - request_headers: {header_name: x-tenant-id, descriptor_key: tenant}
`, route)
	}
}

// awaitReport waits until Envoy has no call to the limiter in flight. Envoy reports a stream before it logs the request.
func (w *world) awaitReport(t *testing.T) {
	t.Helper()
	served := w.envoy.stat(t, "http.http.downstream_rq_completed")
	fixture.Await(t, "Envoy has logged the request", func() bool {
		return strings.Count(w.envoy.log.String(), `"path":`) >= served && w.envoy.stat(t, "cluster.weir.upstream_rq_active") == 0
	})
}

// A request needs a budget that is not used up, and its response is charged to it.
func TestEnvoy_ChargesTheCostOfTheResponse(t *testing.T) {
	w := newWorld(t, budgetPolicy, limitedBy())
	for _, request := range []struct {
		tokens    string
		status    int
		remaining int
	}{
		{"60", http.StatusOK, 40},
		{"30", http.StatusOK, 10},
		{"11", http.StatusOK, 10}, // more than what remains
		{"10", http.StatusOK, 0},
		{"10", http.StatusTooManyRequests, 0},
	} {
		if got := get(t, "http://"+w.front+"/?tokens="+request.tokens, "x-tenant-id", "acme").status; got != request.status {
			t.Errorf("%+v: %d", request, got)
		}
		w.awaitReport(t)
		if got := w.remaining(t, budgetOf("acme")); got != request.remaining {
			t.Errorf("%+v: %d units remain", request, got)
		}
	}
}

// A request costs 40 units, and the service gives back what it has not used. A denied request gives nothing back.
func TestEnvoy_RefundsAtTheEndOfAStream(t *testing.T) {
	refund := []string{"{number: 0}", "{number: 40}", `x-tokens)%"}`, `x-tokens)%", is_negative_hits: true}`}
	w := newWorld(t, budgetPolicy, limitedBy(refund...), "--grpc-refunds", "Allowed")
	for _, request := range []struct {
		status, remaining int
	}{
		{http.StatusOK, 75},
		{http.StatusOK, 50},
		{http.StatusOK, 25},
		{http.StatusTooManyRequests, 25},
		{http.StatusTooManyRequests, 25},
	} {
		if got := get(t, "http://"+w.front+"/?tokens=15", "x-tenant-id", "acme").status; got != request.status {
			t.Errorf("%+v: %d", request, got)
		}
		w.awaitReport(t)
		if got := w.remaining(t, budgetOf("acme")); got != request.remaining {
			t.Errorf("%+v: %d units remain", request, got)
		}
	}
}

// The page warns of a refund that does not depend on the response.
func TestEnvoy_RefundsDeniedRequestsAConstantNumber(t *testing.T) {
	constant := []string{"{number: 0}", "{number: 101}", `{format: "%RESP(x-tokens)%"}`, "{number: 15, is_negative_hits: true}"}
	w := newWorld(t, budgetPolicy, limitedBy(constant...), "--grpc-refunds", "Allowed")
	w.spend(t, "acme", 50)
	if got := w.statuses(t, 1, "/", "x-tenant-id", "acme"); got != "Too Many Requests" {
		t.Error(got)
	}
	w.awaitReport(t)
	if got := w.remaining(t, budgetOf("acme")); got != 65 {
		t.Errorf("%d units remain", got)
	}
}

func TestEnvoy_LogsARefundThatIsForbidden(t *testing.T) {
	w := newWorld(t, budgetPolicy, limitedBy(`x-tokens)%"}`, `x-tokens)%", is_negative_hits: true}`))
	w.spend(t, "acme", 50)
	get(t, "http://"+w.front+"/?tokens=15", "x-tenant-id", "acme")
	fixture.Await(t, "the limiter logs the refund", func() bool { return strings.Contains(w.weir.Log(), "refunds units") })
	if got := w.remaining(t, budgetOf("acme")); got != 50 {
		t.Errorf("%d units remain", got)
	}
}

// The route has a limit of its own, which replaces that of the policy on a counter of its own.
func TestEnvoy_ALimitOfTheRouteReplacesTheLimitOfThePolicy(t *testing.T) {
	w := newWorld(t, budgetPolicy, limitedBy("hits_addend: {number: 0}", "limit: {rate_limit: {requests_per_unit: 2, unit: HOUR}}"))
	for _, want := range []string{"OK", "OK", "Too Many Requests"} {
		if got := w.statuses(t, 1, "/", "x-tenant-id", "acme"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := w.remaining(t, budgetOf("acme")); got != 100 {
		t.Errorf("%d units of the policy remain", got)
	}
}

// debtPolicy returns the documented policy that counts what exceeds the budget, with replacements.
func debtPolicy(t *testing.T, oldNew ...string) string {
	t.Helper()
	for _, block := range document(t) {
		if strings.Contains(block, "overrun: Debt") {
			return replace(t, block, oldNew...)
		}
	}
	t.Fatal("the page has no policy with debts")
	return ""
}

// Requests pass while one unit remains. All that their responses cost counts, also above the limit.
func TestEnvoy_CountsAnOverrunAsDebt(t *testing.T) {
	w := newWorld(t, debtPolicy(t, "limit: 100000", "limit: 100", "window: 1h", "window: 720h", "SlidingWindowCounter", "FixedWindow"), limitedBy())
	for _, request := range []struct {
		tokens    string
		status    int
		remaining int
	}{
		{"60", http.StatusOK, 40},
		{"39", http.StatusOK, 1},
		{"50", http.StatusOK, 0}, // 49 units of debt
		{"50", http.StatusTooManyRequests, 0},
		{"50", http.StatusTooManyRequests, 0},
	} {
		if got := get(t, "http://"+w.front+"/?tokens="+request.tokens, "x-tenant-id", "acme").status; got != request.status {
			t.Errorf("%+v: %d", request, got)
		}
		w.awaitReport(t)
		if got := w.remaining(t, budgetOf("acme")); got != request.remaining {
			t.Errorf("%+v: %d units remain", request, got)
		}
	}
}

// Under a sliding window, the debt lasts longer than the window in which it was made: 1000 units weigh less than 100 after nine tenths of the
// next one.
func TestEnvoy_DeniesUntilTheDebtIsOver(t *testing.T) {
	w := newWorld(t, debtPolicy(t, "limit: 100000", "limit: 100", "window: 1h", "window: 2s"), limitedBy())
	if got := get(t, "http://"+w.front+"/?tokens=1000", "x-tenant-id", "acme").status; got != http.StatusOK {
		t.Fatal(got)
	}
	counted := time.Now()
	w.awaitReport(t)
	if got := get(t, "http://"+w.front+"/?tokens=1", "x-tenant-id", "acme").status; got != http.StatusTooManyRequests {
		t.Errorf("%d after an overrun", got)
	}
	fixture.Await(t, "the debt is over", func() bool {
		return get(t, "http://"+w.front+"/?tokens=1", "x-tenant-id", "acme").status == http.StatusOK
	})
	if took := time.Since(counted); took < 1800*time.Millisecond || took > 5*time.Second {
		t.Errorf("denied for %v, want from 1.8 s to 3.8 s", took)
	}
}
