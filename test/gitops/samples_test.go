package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// The samples are applied on the client and on the server side, and then changed as an operator changes them. Applying them again
// must change nothing.
func TestSamples_DoNotDrift(t *testing.T) {
	s := newServer(t)
	system := &corev1.Namespace{}
	system.Name = "weir-system"
	if err := s.Create(t.Context(), system); !apierrors.IsAlreadyExists(err) {
		must(t, err)
	}
	for _, dir := range []string{".", "cluster", "limiter"} {
		path := repositoryPath(t, "config", "samples", dir)
		for _, how := range [][]string{{"--server-side"}, {"--server-side=false"}} {
			t.Run(dir+" "+how[0], func(t *testing.T) {
				written := s.rendered(t, path)
				t.Cleanup(func() {
					for _, object := range written {
						if object.GetKind() != "Namespace" { // without a controller, its deletion never ends
							s.remove(t, object)
						}
					}
				})
				_, err := s.kube.Kubectl(t.Context(), append([]string{"apply", "--validate=strict", "-k", path}, how...)...)
				must(t, err)
				for _, object := range written {
					if object.GetKind() != "Namespace" {
						s.operate(t, object)
					}
				}
				s.hasNoDrift(t, path, how, written)
			})
		}
	}
}

// hasNoDrift fails the test unless the API server has stored the samples as they are in the files, and neither kubectl apply nor
// kubectl diff finds a difference.
func (s server) hasNoDrift(t *testing.T, path string, how []string, written []*unstructured.Unstructured) {
	t.Helper()
	var live []*unstructured.Unstructured
	for _, w := range written {
		object := s.get(t, w)
		if diff := cmp.Diff(w.Object, within(w.Object, object.Object)); diff != "" {
			t.Errorf("%s %s differs from the file (-file +stored):\n%s", w.GetKind(), w.GetName(), diff)
		}
		if diff := cmp.Diff(w.Object["spec"], object.Object["spec"]); diff != "" && strings.HasSuffix(w.GetKind(), "RateLimitPolicy") {
			t.Errorf("%s %s is not stored as it was applied (-file +stored):\n%s", w.GetKind(), w.GetName(), diff)
		}
		live = append(live, object)
	}
	out, err := s.kube.Kubectl(t.Context(), append([]string{"apply", "-k", path, "--dry-run=server", "-o", "json"}, how...)...)
	must(t, err)
	again := &unstructured.UnstructuredList{}
	must(t, again.UnmarshalJSON([]byte(out)))
	if len(again.Items) != len(live) {
		t.Fatalf("kubectl apply returned %d objects, want %d", len(again.Items), len(live))
	}
	for i, item := range again.Items {
		if diff := cmp.Diff(declared(live[i].Object), declared(item.Object)); diff != "" {
			t.Errorf("the second kubectl apply changed an object (-before +after):\n%s", diff)
		}
	}
	if out, err = s.kube.Kubectl(t.Context(), append([]string{"diff", "-k", path}, how...)...); err != nil {
		t.Errorf("kubectl diff %s: %v\n%s", how, err, out)
	}
}

// operate changes an object as the operator does: it writes a status.
func (s server) operate(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	live := s.get(t, object)
	for _, state := range []string{"policy-ready", "limiter-ready"} {
		ready := readState(t, filepath.Join("testdata", "states", state+".yaml")).object()
		if live.GetKind() == "Limiter" == (ready.GetKind() == "Limiter") {
			must(t, s.writeStatus(t, live, ready.Object["status"]))
		}
	}
}

// rendered returns the objects of a kustomization, in the order of kubectl apply.
func (s server) rendered(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	out, err := s.kube.Kubectl(t.Context(), "kustomize", path)
	must(t, err)
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(out, "\n---\n") {
		text, err := yaml.YAMLToJSON([]byte(document))
		must(t, err)
		object := &unstructured.Unstructured{}
		must(t, object.UnmarshalJSON(text))
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		t.Fatalf("%s renders no objects", path)
	}
	return objects
}

// within returns the fields of stored that written has. Other fields have defaults, or belong to other field owners.
func within(written, stored any) any {
	w, isMap := written.(map[string]any)
	s, both := stored.(map[string]any)
	if !isMap || !both {
		if wl, isList := written.([]any); isList {
			if sl, both := stored.([]any); both && len(wl) == len(sl) {
				part := make([]any, len(sl))
				for i := range sl {
					part[i] = within(wl[i], sl[i])
				}
				return part
			}
		}
		return stored
	}
	part := map[string]any{}
	for name, value := range w {
		if there, ok := s[name]; ok {
			part[name] = within(value, there)
		}
	}
	return part
}

// declared returns the object without managedFields and resourceVersion. The first write after the creation changes them: it
// stores the defaults of the schema.
func declared(object map[string]any) map[string]any {
	copied := (&unstructured.Unstructured{Object: object}).DeepCopy()
	for _, name := range []string{"managedFields", "resourceVersion"} {
		unstructured.RemoveNestedField(copied.Object, "metadata", name)
	}
	return copied.Object
}

// The manifest of the Limiter has no spec.replicas.
func TestApply_KeepsTheReplicasOfAScaledLimiter(t *testing.T) {
	s := newServer(t)
	limiter := readState(t, filepath.Join("testdata", "states", "limiter-created.yaml")).object()
	limiter.SetNamespace(kubetest.Namespace(t, s.kube))
	unstructured.RemoveNestedField(limiter.Object, "status")
	unstructured.RemoveNestedField(limiter.Object, "metadata", "generation")
	unstructured.RemoveNestedField(limiter.Object, "spec", "replicas")
	path := t.TempDir()
	text, err := yaml.Marshal(limiter.Object)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(path, "limiter.yaml"), text, 0o600))
	must(t, os.WriteFile(filepath.Join(path, "kustomization.yaml"), []byte("resources: [limiter.yaml]\n"), 0o600))
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", path},
		{"scale", "limiters.weir.dev/default", "-n", limiter.GetNamespace(), "--replicas=5"},
		{"diff", "--server-side", "-k", path},
		{"apply", "--server-side", "-k", path},
	} {
		if out, err := s.kube.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err, out)
		}
	}
	if replicas, _, _ := unstructured.NestedInt64(s.get(t, limiter).Object, "spec", "replicas"); replicas != 5 {
		t.Errorf("the Limiter has %d replicas, want 5 as scaled", replicas)
	}
}

// config/argocd is applied as in docs/how-to/gitops.md.
func TestArgoCDHealth_IsMergedIntoTheExistingConfigMap(t *testing.T) {
	s := newServer(t)
	namespace := &corev1.Namespace{}
	namespace.Name = "argocd"
	must(t, s.Create(t.Context(), namespace))
	config := corev1.ConfigMap{}
	config.Name, config.Namespace, config.Data = "argocd-cm", "argocd", map[string]string{"admin.enabled": "false"}
	must(t, s.Create(t.Context(), &config, client.FieldOwner("helm")))
	_, err := s.kube.Kubectl(t.Context(), "apply", "--server-side", "--field-manager=weir", "-f", repositoryPath(t, "config", "argocd", "argocd-cm.yaml"))
	must(t, err)
	must(t, s.Get(t.Context(), client.ObjectKeyFromObject(&config), &config))
	if len(config.Data) != 4 || config.Data["admin.enabled"] != "false" {
		t.Errorf("%d keys, want the existing one and three more: %v", len(config.Data), config.Data)
	}
}

func repositoryPath(t *testing.T, elements ...string) string {
	t.Helper()
	root, err := fixture.ModuleRoot()
	must(t, err)
	return filepath.Join(append([]string{root}, elements...)...)
}
