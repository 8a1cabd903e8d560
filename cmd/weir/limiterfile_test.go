package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli"
)

// As kubectl prints it.
const accountLimiter = `apiVersion: weir.dev/v1alpha1
kind: Limiter
metadata: {name: default, namespace: weir-system, generation: 1, uid: x, creationTimestamp: "2026-11-23T07:00:00Z"}
spec:
  redis: {mode: Standalone, addresses: ["redis:6379"]}
  identity: {tenant: {header: X-Account}, ip: {ipv6PrefixLength: 48}}
status: {conditions: [], replicas: 2}
`

func TestLimiterFile_SetsTheIdentityTableOfPoliciesInFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		save(t, path, text)
		return path
	}
	policies, limiter := file("policies.yaml", tenantPolicy("2")), file("limiter.yaml", accountLimiter)
	explain := []string{"explain", "--policies", policies, "--domain", "shop", "-H", "x-account: acme", "-o", "wide"}
	if _, stdout, stderr := runWithInput(t, "", append(explain, "--limiter-file", limiter)...); !strings.Contains(stdout, "header x-account") || !strings.Contains(stdout, "acme") {
		t.Errorf("%s%s", stdout, stderr)
	}
	if _, stdout, stderr := runWithInput(t, "", explain...); strings.Contains(stdout, "header x-account") {
		t.Errorf("without the file: %s%s", stdout, stderr)
	}
	socket := "unix:" + filepath.Join(t.TempDir(), "admin.sock")
	serveWithAdmin(t, socket, "")
	status, stdout, stderr := runWithInput(t, "", "rules", "diff", "--policies", policies, "--admin", socket, "--limiter-file", limiter)
	if status != 1 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), `shop/tenant identifier.name "x-tenant-id" "x-account"`) {
		t.Errorf("rules diff: status %d, %s%s", status, stdout, stderr)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing.yaml"): "missing.yaml: no such file",
		policies:                           `has kind "RateLimitPolicy"`,
		file("typo.yaml", strings.Replace(accountLimiter, "tenant:", "tenent:", 1)):  `unknown field "tenent"`,
		file("old.yaml", strings.Replace(accountLimiter, "v1alpha1", "v1alpha0", 1)): `apiVersion "weir.dev/v1alpha0"`,
	} {
		status, stdout, stderr := runWithInput(t, "", append(explain, "--limiter-file", path)...)
		if status != cli.ExitUsage || !strings.Contains(stderr, want) || !strings.Contains(stderr, "--limiter-file: ") {
			t.Errorf("%s: status %d, %s%s, want %s", path, status, stdout, stderr, want)
		}
	}
}
