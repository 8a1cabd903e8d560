//go:build gateways

package gateways_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// envoyGateway is the module of Envoy Gateway with its CRDs, and the directory of the CRDs.
const (
	envoyGateway     = "github.com/envoyproxy/gateway@v1.9.1"
	envoyGatewayCRDs = "charts/gateway-helm/charts/crds/crds"
)

// Envoy Gateway's CRDs accept what weir gateway attach writes, the objects of the tutorial, and those in the documents, with strict validation.
func TestEnvoyGateway_ItsSchemasAcceptTheObjectsOfTheCommandAndOfTheDocuments(t *testing.T) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(download(t, envoyGateway), envoyGatewayCRDs)
	kube, err := kubetest.StartKube(t.Context(), kubetest.KubeOptions{CRDs: []string{filepath.Join(root, "config", "crd", "bases")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := kube.Kubectl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	kubectl("apply", "--server-side", "-f", dir, "--recursive")
	kubectl("wait", "--for=condition=Established", "--timeout=1m", "crd", "--all")
	for _, namespace := range []string{"shop", "weir-system"} {
		kubectl("create", "namespace", namespace)
	}
	kubectl("apply", "--validate=strict", "-f", filepath.Join(root, "docs", "tutorials", "envoy-gateway"))
	kubectl("apply", "-f", filepath.Join(root, "config", "samples", "limiter", "default.yaml"))

	ask := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), plugin, append(args, "--kubeconfig", kube.Kubeconfig())...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("kubectl weir %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	accept := func(objects string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "objects.yaml")
		if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
			t.Fatal(err)
		}
		kubectl("apply", "--dry-run=server", "--validate=strict", "-f", file)
	}
	accept(ask("gateway", "attach", "public", "-n", "shop", "--dry-run", "-o", "yaml"))
	ask("gateway", "attach", "public", "-n", "shop", "--wait", "0s")
	ask("gateway", "attach", "public", "-n", "shop", "--wait", "0s", "--fail-open=false", "--timeout", "1s")
	if got := kubectl("-n", "shop", "get", "securitypolicy", "weir-public", "-o=jsonpath={.spec.extAuth.failOpen} {.spec.extAuth.timeout}"); got != "false 1s" {
		t.Errorf("failOpen and timeout: %s", got)
	}
	ask("gateway", "detach", "public", "-n", "shop")

	pages, err := filepath.Glob(filepath.Join(root, "docs", "how-to", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)\n *```yaml\n(.*?)\n *```\n").FindAllStringSubmatch(string(text), -1) {
			if regexp.MustCompile(`(?m)^ *kind: SecurityPolicy$`).MatchString(block[1]) {
				checked++
				accept(dedent(block[1]))
			}
		}
	}
	if checked < 2 {
		t.Errorf("%d SecurityPolicies in the documents, want at least 2", checked)
	}
}

// dedent removes the indentation of the first line from all lines.
func dedent(block string) string {
	indent := block[:len(block)-len(strings.TrimLeft(block, " "))]
	return strings.ReplaceAll("\n"+block, "\n"+indent, "\n")
}
