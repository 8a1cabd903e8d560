package gitops

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// expected has the results of the tools for a state.
type expected struct {
	// Kstatus is one of Current, InProgress, Failed and Terminating.
	Kstatus string
	// Wait is true if kubectl wait --for=condition=Ready succeeds.
	Wait bool
	// ArgoCD is the health in Argo CD.
	ArgoCD string
}

// state is a state of an object.
type state struct {
	name string
	// steps are the stored versions of the object that lead to the state. The last one is the state.
	steps []*unstructured.Unstructured
}

func (s state) object() *unstructured.Unstructured { return s.steps[len(s.steps)-1].DeepCopy() }

// states reads all states, and the expected results for each.
func states(t *testing.T) ([]state, map[string]expected) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "expected.yaml"))
	must(t, err)
	want := map[string]expected{}
	must(t, yaml.UnmarshalStrict(data, &want))
	files, err := filepath.Glob(filepath.Join("testdata", "states", "*.yaml"))
	must(t, err)
	all := make([]state, 0, len(files))
	for _, file := range files {
		s := readState(t, file)
		if _, ok := want[s.name]; !ok {
			t.Errorf("%s: expected.yaml has no entry for it", file)
		}
		all = append(all, s)
	}
	if len(all) == 0 || len(all) != len(want) {
		t.Fatalf("%d states, and %d entries in expected.yaml", len(all), len(want))
	}
	return all, want
}

func readState(t *testing.T, file string) state {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	s := state{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		text, err := yaml.YAMLToJSON(document)
		must(t, err)
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(text); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s.steps = append(s.steps, object)
	}
	return s
}
