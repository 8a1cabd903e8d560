//go:build gateways

package gateways_test

import (
	"strings"
	"testing"
)

// Some gateways cannot set context extensions. The policies of the page then apply with a default domain, and without one no request is
// denied.
func TestEnvoy_WithoutADomainUsesTheDefault(t *testing.T) {
	const header = "x-tenant-id"
	config := func(t *testing.T, p places) string {
		t.Helper()
		text := documentedConfig(t, p)
		begin := strings.Index(text, "              typed_per_filter_config:\n")
		end := strings.Index(text, "              routes:\n")
		if begin < 0 || end < begin {
			t.Fatalf("no context extensions in\n%s", text)
		}
		// Without a decision, clients would see 503.
		return replace(t, text[:begin]+text[end:], "failure_mode_allow: true", "failure_mode_allow: false")
	}
	for name, test := range map[string]struct {
		flags []string
		last  string
	}{
		"a default domain":    {[]string{"--grpc-default-domain", "shop"}, "Too Many Requests"},
		"no domain":           {nil, "OK"},
		"a domain of another": {[]string{"--grpc-default-domain", "bank"}, "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, documentedPolicies(t), config, test.flags...)
			if got := w.statuses(t, 30, "/v1/search", header, "acme", "domain", "bank"); got != strings.Repeat("OK, ", 29)+"OK" {
				t.Fatal(got)
			}
			if got := w.statuses(t, 1, "/v1/search", header, "acme", "domain", "bank"); got != test.last {
				t.Errorf("%s, want %s", got, test.last)
			}
			if warned := strings.Count(w.weir.Log(), "have no domain"); (warned == 1) != (test.flags == nil) {
				t.Errorf("%d warnings", warned)
			}
		})
	}
}
