// Package crd tests the CustomResourceDefinitions of config/crd on a real API server: each bound and each CEL rule rejects invalid
// objects with a useful message, and every field that users can write has bounds.
package crd

import (
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

const owner = "crd-test"

func TestMain(m *testing.M) { kubetest.Main(m) }

// namespace is a separate namespace for one test, on an API server with the CRDs installed.
type namespace struct {
	client.Client
	name string
	kube *kubetest.KubeProcess
}

func newNamespace(t *testing.T) namespace {
	t.Helper()
	kube := kubetest.Kube(t)
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(kube.Config(), client.Options{Scheme: scheme, FieldOwner: owner, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	return namespace{Client: c, name: kubetest.Namespace(t, kube), kube: kube}
}

// object returns the minimal object of k with change merged into it. change is a JSON merge patch in YAML: null removes a field.
func (n namespace) object(t *testing.T, k testedKind, change string) *unstructured.Unstructured {
	t.Helper()
	object := parse(t, "apiVersion: weir.dev/v1alpha1\nkind: "+k.kind+"\n"+k.small)
	merge(object, parse(t, change))
	u := &unstructured.Unstructured{Object: object}
	if !k.clusterScoped {
		u.SetNamespace(n.name)
	}
	return u
}

// policy returns the minimal RateLimitPolicy with change merged into it.
func (n namespace) policy(t *testing.T, change string) *unstructured.Unstructured {
	t.Helper()
	return n.object(t, rateLimitPolicies(), change)
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return object
}

// merge applies a JSON merge patch (RFC 7386).
func merge(into, change map[string]any) {
	for name, value := range change {
		inner, both := value.(map[string]any)
		outer, ok := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case both && ok:
			merge(outer, inner)
		default:
			into[name] = value
		}
	}
}

// tryCreate creates a RateLimitPolicy in a dry run: the API server validates the policy and does not store it.
func (n namespace) tryCreate(t *testing.T, change string) error {
	t.Helper()
	return n.tryCreateOf(t, rateLimitPolicies(), change)
}

// tryCreateOf creates an object of kind k in a dry run.
func (n namespace) tryCreateOf(t *testing.T, k testedKind, change string) error {
	t.Helper()
	return n.Create(t.Context(), n.object(t, k, change), client.DryRunAll)
}

func repositoryPath(t *testing.T, elements ...string) string {
	t.Helper()
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, elements...)...)
}
