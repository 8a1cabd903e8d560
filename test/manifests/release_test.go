package manifests

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/test/manifests/tool"
)

func TestChart_IsValidOnTheServer(t *testing.T) {
	kube := kubetest.Kube(t)
	tool.InstallCRDs(t, kube)
	into := kubetest.Namespace(t, kube)
	for name, values := range valueSets(t) {
		text, err := template(t, append(values, "--namespace", into)...)
		if err != nil {
			t.Fatal(err)
		}
		file := tool.File(t, name+".yaml", text)
		if _, err := kube.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-f", file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRelease_CanBeInstalledUpgradedAndUninstalled runs on its own API server, without the CRDs of Weir.
func TestRelease_CanBeInstalledUpgradedAndUninstalled(t *testing.T) {
	kube, err := kubetest.StartKube(t.Context(), kubetest.KubeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	})
	chart := tool.Root(t, "charts", "weir")
	helm := func(args ...string) (string, error) {
		return tool.Output(t, "helm", append(args, "--kubeconfig", kube.Kubeconfig(), "--namespace", "limits")...)
	}
	must := func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	get := func(what ...string) string {
		t.Helper()
		return must(kube.Kubectl(t.Context(), append([]string{"get", "-n", "limits", "-o", "name", "--ignore-not-found"}, what...)...))
	}
	withLimiter := []string{"--set", "limiter.create=true,limiter.spec.redis.addresses={redis:6379}"}

	// values.yaml and the README document this. Update them if a version of Helm supports it.
	if _, err := helm(append([]string{"install", "weir", chart, "--create-namespace"}, withLimiter...)...); err == nil ||
		!strings.Contains(err.Error(), "ensure CRDs are installed first") {
		t.Fatalf("first install with a Limiter: got %v, want an error about missing CRDs", err)
	}
	notes := must(helm("install", "weir", chart, "--create-namespace"))
	if !strings.Contains(notes, "kind: Limiter") {
		t.Errorf("the notes do not describe how to create a Limiter:\n%s", notes)
	}
	if err := kube.WaitForCRDs(t.Context(), "limiters.weir.dev"); err != nil {
		t.Fatal(err)
	}
	must(helm(append([]string{"upgrade", "weir", chart, "--set", "replicas=3"}, withLimiter...)...))
	if got := get("limiters,deployments"); got != "limiter.weir.dev/default\ndeployment.apps/weir-operator\n" {
		t.Errorf("after the upgrade: %q", got)
	}
	must(helm("rollback", "weir", "1"))
	if got := must(kube.Kubectl(t.Context(), "get", "-n", "limits", "deployment/weir-operator", "-o", "jsonpath={.spec.replicas}")); got != "2" {
		t.Errorf("after the rollback: %s replicas, want 2", got)
	}
	must(helm("uninstall", "weir"))
	if got := get("limiters,deployments,serviceaccounts,roles,clusterroles"); !strings.Contains(got, "limiter.weir.dev/default") || strings.Contains(got, "weir-operator") {
		t.Errorf("after helm uninstall: %q", got)
	}
	if got := get("crd"); strings.Count(got, "weir.dev") != 3 {
		t.Errorf("CRDs after helm uninstall: %q", got)
	}
	must(helm("install", "weir", chart)) // adopts the objects that stayed
	must(helm("uninstall", "weir"))
	if _, err := helm("install", "other", chart); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("a release with another name: got %v, want an ownership error", err)
	}
	must(helm("install", "other", chart, "--take-ownership"))
}
