//go:build gateways

package gateways_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// rateLimitService is a configuration of envoyproxy/ratelimit for scenarios like those of its integration tests, without replaces and
// quota_mode, which weir import rejects. The windows begin so rarely that no test notices.
const rateLimitService = `
domain: shop
descriptors:
- key: trigger
  rate_limit: {unit: month, requests_per_unit: 3}
- key: shadow
  rate_limit: {unit: month, requests_per_unit: 3}
  shadow_mode: true
- key: source
  value: a
  descriptors:
  - key: destination
    value: b
    rate_limit: {unit: month, requests_per_unit: 2}
  - key: destination
    value: "internal*"
  - key: destination
    rate_limit: {unit: month, requests_per_unit: 1}
- key: banned
  value: "yes"
  rate_limit: {unit: month, requests_per_unit: 0}
- key: vip
  rate_limit: {unlimited: true}
- key: tenant
  rate_limit: {unit: month, requests_per_unit: 2}
`

// importPolicies returns the policies that weir import writes for a configuration of envoyproxy/ratelimit.
func importPolicies(t *testing.T, config string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	policies, err := exec.CommandContext(t.Context(), weir, "import", "envoy-ratelimit", file).Output()
	if err != nil {
		t.Fatalf("weir import: %v", err)
	}
	return string(policies)
}

// Envoy gets the same decisions from the imported policies as envoyproxy/ratelimit documents for its own configuration.
func TestEnvoy_DecidesImportedLimitsAsItsOwnServiceDoes(t *testing.T) {
	w := newWorld(t, importPolicies(t, rateLimitService), func(t *testing.T, p places) string {
		t.Helper()
		return replace(t, documentedConfig(t, p), `                  - actions:
                    - request_headers: {header_name: x-tenant-id, descriptor_key: tenant}
`, `                  - actions: [{request_headers: {header_name: x-trigger, descriptor_key: trigger}}]
                  - actions: [{request_headers: {header_name: x-shadow, descriptor_key: shadow}}]
                  - actions: [{request_headers: {header_name: x-banned, descriptor_key: banned}}]
                  - actions: [{request_headers: {header_name: x-vip, descriptor_key: vip}}]
                  - actions: [{request_headers: {header_name: x-source, descriptor_key: source}}]
                  - actions:
                    - request_headers: {header_name: x-source, descriptor_key: source}
                    - request_headers: {header_name: x-destination, descriptor_key: destination}
`)
	})
	const passes, denied = "OK", "Too Many Requests"
	for name, scenario := range map[string]struct {
		headers []string
		want    []string
	}{
		"the fourth request is over a limit of three": {[]string{"x-trigger", "one"}, []string{passes, passes, passes, denied, denied}},
		"each value has a counter of its own":         {[]string{"x-trigger", "two"}, []string{passes, passes, passes, denied}},
		"a shadow limit denies nothing":               {[]string{"x-shadow", "any"}, []string{passes, passes, passes, passes, passes}},
		"a limit of 0 denies the first request":       {[]string{"x-banned", "yes"}, []string{denied, denied}},
		"another value of a key with one value":       {[]string{"x-banned", "no"}, []string{passes, passes}},
		"an unlimited descriptor":                     {[]string{"x-vip", "any"}, []string{passes, passes, passes, passes}},
		"the limit is on the last entry only":         {[]string{"x-source", "a"}, []string{passes, passes, passes, passes}},
		"nested: the exact value comes first":         {[]string{"x-source", "a", "x-destination", "b"}, []string{passes, passes, denied}},
		"nested: a wildcard without a limit":          {[]string{"x-source", "a", "x-destination", "internal-1"}, []string{passes, passes, passes}},
		"nested: any other value, each on its own":    {[]string{"x-source", "a", "x-destination", "c"}, []string{passes, denied}},
		"nested: another value":                       {[]string{"x-source", "a", "x-destination", "d"}, []string{passes, denied}},
		"nested: another first value":                 {[]string{"x-source", "z", "x-destination", "b"}, []string{passes, passes, passes}},
		"no descriptor":                               {nil, []string{passes, passes, passes, passes}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range scenario.want {
				if got := w.statuses(t, 1, "/", scenario.headers...); got != want {
					t.Errorf("request %d: %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

// A request tests a budget, and its response is charged to it. envoyproxy/ratelimit lets a request pass when a budget is exactly used up;
// Weir does not.
func TestEnvoy_AnImportedBudgetIsUsedUpAtItsLimit(t *testing.T) {
	w := newWorld(t, importPolicies(t, rateLimitService), limitedBy())
	for _, want := range []string{"OK", "OK", "Too Many Requests"} {
		if got := get(t, "http://"+w.front+"/?tokens=1", "x-tenant-id", "acme"); want != map[int]string{200: "OK", 429: "Too Many Requests"}[got.status] {
			t.Errorf("%d, want %s", got.status, want)
		}
		w.awaitReport(t)
	}
}
