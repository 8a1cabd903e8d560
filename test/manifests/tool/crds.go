package tool

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// InstallCRDs installs the CRDs of cert-manager and of Prometheus Operator that manifests can use.
func InstallCRDs(t testing.TB, kube *kubetest.KubeProcess) {
	t.Helper()
	certManager := module(t, "github.com/cert-manager/cert-manager")
	prometheus := module(t, "github.com/prometheus-operator/prometheus-operator")
	files := map[string]string{
		"certificates.cert-manager.io":          filepath.Join(certManager, "deploy/crds/cert-manager.io_certificates.yaml"),
		"issuers.cert-manager.io":               filepath.Join(certManager, "deploy/crds/cert-manager.io_issuers.yaml"),
		"podmonitors.monitoring.coreos.com":     filepath.Join(prometheus, "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"),
		"prometheusrules.monitoring.coreos.com": filepath.Join(prometheus, "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
	}
	for _, file := range files {
		if _, err := kube.Kubectl(t.Context(), "apply", "--server-side", "-f", file); err != nil {
			t.Fatal(err)
		}
	}
	if err := kube.WaitForCRDs(t.Context(), slices.Collect(maps.Keys(files))...); err != nil {
		t.Fatal(err)
	}
}

// module returns the directory of a module that hack/manifests pins. It downloads a missing module.
func module(t testing.TB, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "-C", Root(t, "hack", "manifests"), "mod", "download", "-json", path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("download %s, pinned in hack/manifests/go.mod: %v: %s", path, err, out)
	}
	var downloaded struct {
		Dir string `json:"Dir"`
	}
	if err := json.Unmarshal(out, &downloaded); err != nil {
		t.Fatalf("download %s: %v", path, err)
	}
	return downloaded.Dir
}
