package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	flux "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The Flux Kustomizations in the document are decoded strictly, as Flux decodes them.
func TestDocumentedKustomizations_AreValidAndWait(t *testing.T) {
	known, waiting := map[string]bool{}, 0
	for _, text := range documented(t, "apiVersion: kustomize.toolkit.fluxcd.io/v1\n") {
		var k flux.Kustomization
		if err := yaml.UnmarshalStrict([]byte(text), &k); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
		for _, on := range k.Spec.DependsOn {
			if !known[on.Name] {
				t.Errorf("%s depends on %s, which is not defined before it", k.Name, on.Name)
			}
		}
		if !k.Spec.Wait && len(k.Spec.HealthChecks) == 0 {
			t.Errorf("%s does not wait for anything", k.Name)
		}
		known[k.Name] = true
		waiting++
	}
	if waiting == 0 {
		t.Error("the document has no Flux Kustomization")
	}
}

// The directories that the document names are replaced with directories of this repository.
func TestDocumentedLayout_Renders(t *testing.T) {
	s := newServer(t)
	render := func(begins string, places map[string]string) []*unstructured.Unstructured {
		t.Helper()
		texts := documented(t, begins)
		if len(texts) != 1 {
			t.Fatalf("%d blocks begin with %q", len(texts), begins)
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		must(t, err)
		text := texts[0]
		for place, directory := range places {
			here, err := filepath.Rel(dir, repositoryPath(t, directory))
			must(t, err)
			if !strings.Contains(text, place+"\n") {
				t.Fatalf("the block does not name %s", place)
			}
			text = strings.Replace(text, place+"\n", here+"\n", 1)
		}
		must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
		return s.rendered(t, dir)
	}
	kept := 0
	for _, object := range render("# weir/kustomization.yaml\n", map[string]string{
		"https://github.com/weir-dev/weir//config/default?ref=v0.1.0": "config/default",
	}) {
		a := object.GetAnnotations()
		if object.GetKind() == "CustomResourceDefinition" && a["kustomize.toolkit.fluxcd.io/prune"] == "disabled" &&
			a["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false" {
			kept++
		}
	}
	if kept != 3 {
		t.Errorf("%d CRDs are kept when they are deleted from Git, want 3", kept)
	}
	for _, object := range render("# platform/kustomization.yaml", map[string]string{
		"../weir": "config/crd", "../limiters": "config/samples/limiter",
	}) {
		want := ""
		if object.GetKind() == "Limiter" {
			want = "1"
		}
		if got := object.GetAnnotations()["argocd.argoproj.io/sync-wave"]; got != want {
			t.Errorf("%s %s has sync wave %q, want %q", object.GetKind(), object.GetName(), got, want)
		}
	}
	argocd := render("# argocd/kustomization.yaml\n", map[string]string{
		"https://github.com/argoproj/argo-cd//manifests/cluster-install?ref=v3.5.7": "test/gitops/testdata/argocd",
		"https://github.com/weir-dev/weir//config/argocd?ref=v0.1.0":                "config/argocd",
	})
	data, _, err := unstructured.NestedStringMap(argocd[0].Object, "data")
	must(t, err)
	const prefix = "resource.customizations.health.weir.dev_"
	health := data[prefix+"RateLimitPolicy"]
	if health == "" || data[prefix+"ClusterRateLimitPolicy"] != health || data[prefix+"Limiter"] != health {
		t.Errorf("the kinds differ in their health checks: %v", data)
	}
	if data["admin.enabled"] != "false" {
		t.Errorf("the existing data is lost: %v", data)
	}
}

// documented returns the YAML documents in docs/how-to/gitops.md that start with the text.
func documented(t *testing.T, begins string) []string {
	t.Helper()
	data, err := os.ReadFile(repositoryPath(t, "docs", "how-to", "gitops.md"))
	must(t, err)
	var found []string
	for i, block := range strings.Split(string(data), "```yaml\n") {
		if i == 0 {
			continue
		}
		block, _, _ = strings.Cut(block, "```")
		for text := range strings.SplitSeq(block, "---\n") {
			if strings.HasPrefix(text, begins) {
				found = append(found, text)
			}
		}
	}
	return found
}
