// Package argocd tests the health checks in config/argocd with the states of Weir's objects. The code of Argo CD reads the
// ConfigMap and runs the script. Its packages for settings, Lua and health checks need a module of their own.
//
// Run it with -count=1: the go command does not detect changes of files outside the module, and would use its test cache.
package argocd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/argo-cd/v3/util/settings"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// overrides returns the health checks that Argo CD reads from config/argocd.
func overrides(t *testing.T) health.HealthOverride {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "argocd", "argocd-cm.yaml"))
	must(t, err)
	var config corev1.ConfigMap
	must(t, yaml.UnmarshalStrict(data, &config))
	secret := &corev1.Secret{} // Argo CD does not start without it
	secret.Name, secret.Namespace, secret.Labels = "argocd-secret", config.Namespace, config.Labels
	secret.Data = map[string][]byte{"server.secretkey": []byte("any")}
	manager := settings.NewSettingsManager(t.Context(), fake.NewClientset(&config, secret), config.Namespace)
	settings, err := manager.GetResourceOverrides()
	must(t, err)
	return lua.ResourceHealthOverrides(settings)
}

// shown returns the health that Argo CD shows for the object.
func shown(t *testing.T, by health.HealthOverride, object *unstructured.Unstructured) health.HealthStatus {
	t.Helper()
	got, err := health.GetResourceHealth(object, by)
	must(t, err)
	if got == nil {
		return health.HealthStatus{} // the object does not count in the health of the application
	}
	return *got
}

func TestHealth_IsAsExpectedInEveryState(t *testing.T) {
	by := overrides(t)
	for name, want := range expected(t) {
		t.Run(name, func(t *testing.T) {
			object := state(t, name)
			got := shown(t, by, object)
			if string(got.Status) != want {
				t.Errorf("Argo CD shows %s (%s), want %s", got.Status, got.Message, want)
			}
			if got.Message == "" {
				t.Error("the health has no message")
			}
			if without := shown(t, nil, object); without.Status != "" && object.GetDeletionTimestamp() == nil {
				t.Errorf("without config/argocd Argo CD shows %s: it has a health check of its own for the kind", without.Status)
			}
		})
	}
}

func TestHealth_HasTheMessageOfTheConditions(t *testing.T) {
	by := overrides(t)
	for name, want := range map[string]string{
		"policy-created":            "waiting for the operator to observe this generation",
		"policy-edited":             "waiting for the operator to observe this generation",
		"policy-pending":            "1 of 2 replicas enforce generation 1",
		"policy-invalid":            "spec.match.http.paths[0].value: missing closing ): `/v1/(`",
		"policy-ready":              "all replicas enforce generation 1",
		"policy-many-identifiers":   "all replicas enforce generation 1; Degraded: Redis fills up, and counters of this policy take much of it: when Redis is nearly full, new identifiers get no counter of their own",
		"cluster-overridden":        "all replicas enforce generation 1; Overridden: overridden in shop by shop/tenant-free",
		"limiter-scaled-to-zero":    "0 of 0 replicas are ready",
		"limiter-secret-missing":    "Secret login does not exist in namespace weir-system",
		"limiter-store-unreachable": "2 of 2 replicas are ready; Degraded: Redis cannot be used since 2026-11-21T10:00:00Z: inspect Redis: dial tcp 127.0.0.1:6379: connect: connection refused",
		"limiter-deleted":           "Pending deletion",
	} {
		t.Run(name, func(t *testing.T) {
			if got := shown(t, by, state(t, name)).Message; got != want {
				t.Errorf("message\n%s, want\n%s", got, want)
			}
		})
	}
}

// The operator does not write such objects.
func TestHealth_IsProgressingIfTheStatusIsIncomplete(t *testing.T) {
	by := overrides(t)
	for name, missing := range map[string][][]string{
		"no status":             {{"status"}},
		"no conditions":         {{"status", "conditions"}},
		"no observedGeneration": {{"status", "observedGeneration"}},
		"no generation":         {{"metadata", "generation"}},
		"neither":               {{"metadata", "generation"}, {"status", "observedGeneration"}},
	} {
		for _, of := range []string{"policy-ready", "cluster-ready", "limiter-ready"} {
			t.Run(name+" of "+of, func(t *testing.T) {
				object := state(t, of)
				for _, path := range missing {
					unstructured.RemoveNestedField(object.Object, path...)
				}
				if got := shown(t, by, object); got.Status != health.HealthStatusProgressing {
					t.Errorf("Argo CD shows %+v", got)
				}
			})
		}
	}
	for name, change := range map[string]func(ready map[string]any){
		"Ready of another generation": func(ready map[string]any) { ready["observedGeneration"] = int64(0) },
		"Ready is unknown":            func(ready map[string]any) { ready["status"] = "Unknown" },
		"another condition":           func(ready map[string]any) { ready["type"] = "Fine" },
	} {
		t.Run(name, func(t *testing.T) {
			object := state(t, "policy-ready")
			conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
			must(t, err)
			change(conditions[len(conditions)-1].(map[string]any)) //nolint:forcetypeassert // a condition is an object
			must(t, unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions"))
			if got := shown(t, by, object); got.Status != health.HealthStatusProgressing {
				t.Errorf("Argo CD shows %+v", got)
			}
		})
	}
}

// The Applications in the document are decoded strictly.
func TestDocumentedApplications_AreValid(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "how-to", "gitops.md"))
	must(t, err)
	taken := 0
	for block := range strings.SplitSeq(string(data), "```yaml\n") {
		text, _, _ := strings.Cut(block, "```")
		if !strings.HasPrefix(text, "apiVersion: argoproj.io/v1alpha1\n") {
			continue
		}
		var application v1alpha1.Application
		if err := yaml.UnmarshalStrict([]byte(text), &application); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
		if !application.Spec.SyncPolicy.SyncOptions.HasOption("ServerSideApply=true") {
			t.Errorf("%s does not use server-side apply", application.Name)
		}
		taken++
	}
	if taken == 0 {
		t.Error("the document has no Argo CD Application")
	}
}

// expected returns the health that Argo CD must show, by state.
func expected(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "expected.yaml"))
	must(t, err)
	var all map[string]struct{ ArgoCD string }
	must(t, yaml.Unmarshal(data, &all))
	want := map[string]string{}
	for name, one := range all {
		want[name] = one.ArgoCD
	}
	if len(want) == 0 {
		t.Fatal("expected.yaml has no entries")
	}
	return want
}

// state returns the object of a state. The tests of package gitops create these states on an API server.
func state(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "states", name+".yaml"))
	must(t, err)
	steps := bytes.Split(data, []byte("\n---\n"))
	text, err := yaml.YAMLToJSON(steps[len(steps)-1])
	must(t, err)
	object := &unstructured.Unstructured{}
	must(t, object.UnmarshalJSON(text))
	if !strings.HasPrefix(object.GetAPIVersion(), "weir.dev/") {
		t.Fatalf("%s has apiVersion %s", name, object.GetAPIVersion())
	}
	return object
}
