package tool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Set is a set of objects by kind, namespace and name: "Deployment weir-system/weir-operator".
type Set map[string]*unstructured.Unstructured

// Objects reads manifests. A duplicate object fails the test.
func Objects(t testing.TB, manifests string) Set {
	t.Helper()
	set := Set{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), len(manifests)+1)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return set
		}
		if err != nil {
			t.Fatalf("read manifests: %v", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		name := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
		if set[name] != nil {
			t.Fatalf("duplicate object %s", name)
		}
		set[name] = object
	}
}

// Kustomize builds a directory of the module.
func Kustomize(t testing.TB, below ...string) Set {
	t.Helper()
	return Objects(t, Run(t, "kustomize", "build", Root(t, below...)))
}

// All returns the objects of a kind as T, by name.
func All[T any](t testing.TB, set Set, kind string) map[string]T {
	t.Helper()
	all := map[string]T{}
	for name, object := range set {
		if object.GetKind() != kind {
			continue
		}
		var one T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &one, true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[object.GetName()] = one
	}
	return all
}

// File writes text to a temporary file of the test and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
