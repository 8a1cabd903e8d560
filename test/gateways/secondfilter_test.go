//go:build gateways

package gateways_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// secondFilter returns the filter of docs/how-to/migrate-from-envoy-ratelimit.md that calls Weir next to the existing service.
func secondFilter(t *testing.T) string {
	t.Helper()
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "migrate-from-envoy-ratelimit.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\nname: weir\n")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no filter with the name weir")
	}
	return "name: weir\n" + block
}

// besides returns the documented configuration with the second filter. The existing filter then has another domain, and the route for all
// paths has its rate limits in the configuration of the filters with these names.
func besides(filters ...string) func(*testing.T, places) string {
	return func(t *testing.T, p places) string {
		t.Helper()
		const route = `route:
                  cluster: shop
                  rate_limits:
                  - actions:
                    - request_headers: {header_name: x-tenant-id, descriptor_key: tenant}
`
		var perRoute strings.Builder
		perRoute.WriteString("route: {cluster: shop}\n                typed_per_filter_config:\n")
		for _, name := range filters {
			perRoute.WriteString("                  " + name + `:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits: [{actions: [{request_headers: {header_name: x-tenant-id, descriptor_key: tenant}}]}]
`)
		}
		const router = "          - name: envoy.filters.http.router\n"
		second := "          - " + strings.ReplaceAll(strings.TrimSpace(secondFilter(t)), "\n", "\n            ") + "\n"
		return replace(t, documentedConfig(t, p), "domain: shop                      # the namespace of the policies", "domain: existing",
			route, perRoute.String(), router, second+router)
	}
}

// Envoy looks up the configuration of a route by the name of the filter in the chain. The page warns of routes that the second filter
// does not see.
func TestEnvoy_ASecondFilterReadsTheRouteConfigurationUnderItsOwnName(t *testing.T) {
	for name, tc := range map[string]struct {
		filters   []string
		remaining int
	}{
		"only the existing filter": {[]string{"envoy.filters.http.ratelimit"}, 100},
		"both filters":             {[]string{"envoy.filters.http.ratelimit", "weir"}, 99},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, budgetPolicy, besides(tc.filters...))
			if got := get(t, "http://"+w.front+"/", "x-tenant-id", "acme").status; got != http.StatusOK {
				t.Errorf("status %d", got)
			}
			if got := w.remaining(t, budgetOf("acme")); got != tc.remaining {
				t.Errorf("%d units remain, want %d", got, tc.remaining)
			}
			line := w.envoy.lastAccess(t, "/")
			if wasCalled := line.Limits.Source == "redis"; wasCalled != (tc.remaining < 100) {
				t.Errorf("%+v", line)
			}
		})
	}
}
