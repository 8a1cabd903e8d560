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

// verdict is what tools make of a state.
type verdict struct {
	// Kstatus is one of Current, InProgress, Failed and Terminating.
	Kstatus string
	// Wait says whether kubectl wait --for=condition=Ready is satisfied.
	Wait bool
	// ArgoCD is the health that Argo CD shows.
	ArgoCD string
}

// state is an object as it is at some moment.
type state struct {
	name string
	// steps that lead there: the object as it is stored, after each. The last one is the state.
	steps []*unstructured.Unstructured
}

func (s state) object() *unstructured.Unstructured { return s.steps[len(s.steps)-1].DeepCopy() }

// states reads all states from their files, and a verdict for each.
func states(t *testing.T) ([]state, map[string]verdict) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "verdicts.yaml"))
	must(t, err)
	verdicts := map[string]verdict{}
	must(t, yaml.UnmarshalStrict(data, &verdicts))
	files, err := filepath.Glob(filepath.Join("testdata", "states", "*.yaml"))
	must(t, err)
	all := make([]state, 0, len(files))
	for _, file := range files {
		s := readState(t, file)
		if _, judged := verdicts[s.name]; !judged {
			t.Errorf("%s: verdicts.yaml does not say what tools make of it", file)
		}
		all = append(all, s)
	}
	if len(all) == 0 || len(all) != len(verdicts) {
		t.Fatalf("%d states, and %d of them have a verdict", len(all), len(verdicts))
	}
	return all, verdicts
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
