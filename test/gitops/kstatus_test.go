package gitops

import (
	"path/filepath"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func kstatus(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	result, err := status.Compute(object)
	must(t, err)
	return result.Status.String()
}

// Each state is created on a real API server and evaluated by the tools.
func TestStates_HaveTheExpectedResultInToolsThatWait(t *testing.T) {
	s := newServer(t)
	all, expectations := states(t)
	wait := waitResults{}
	for _, state := range all {
		t.Run(state.name, func(t *testing.T) {
			want := expectations[state.name]
			object := s.create(t, state)
			if got := kstatus(t, object); got != want.Kstatus {
				t.Errorf("kstatus is %s, want %s", got, want.Kstatus)
			}
			if got := wait.satisfies(t, s, object, "Ready"); got != want.Wait {
				t.Errorf("kubectl wait --for=condition=Ready succeeds: %v, want %v", got, want.Wait)
			}
			if got := wait.satisfies(t, s, object, "Stalled"); got != (want.Kstatus == "Failed") {
				t.Errorf("kubectl wait --for=condition=Stalled succeeds: %v", got)
			}
		})
	}
	t.Logf("kubectl wait ran %d times for %d states", len(wait), len(all))
}

// The schema has a default for status, because kstatus treats a new object without status as current.
func TestStatusDefault_KeepsANewObjectFromBeingCurrent(t *testing.T) {
	all, _ := states(t)
	created := 0
	for _, state := range all {
		object := state.object()
		generation, _, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		must(t, err)
		if generation != -1 {
			continue
		}
		created++
		unstructured.RemoveNestedField(object.Object, "status")
		if got := kstatus(t, object); got != "Current" {
			t.Errorf("%s: kstatus without the default is %s: the default is not needed", state.name, got)
		}
	}
	if created != 3 {
		t.Errorf("%d states of new objects, want one for each kind", created)
	}
}

// The Degraded condition does not affect whether an object is enforced.
func TestDegraded_DoesNotAffectReadiness(t *testing.T) {
	all, _ := states(t)
	degraded := 0
	for _, state := range all {
		object := state.object()
		with := kstatus(t, object)
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		must(t, err)
		var others []any
		for _, c := range conditions {
			if c.(map[string]any)["type"] != "Degraded" { //nolint:forcetypeassert // a condition is an object
				others = append(others, c)
			}
		}
		if len(others) == len(conditions) {
			continue
		}
		degraded++
		must(t, unstructured.SetNestedSlice(object.Object, others, "status", "conditions"))
		if without := kstatus(t, object); with != without {
			t.Errorf("%s: kstatus is %s, and %s without Degraded", state.name, with, without)
		}
	}
	if degraded == 0 {
		t.Error("no state has the condition")
	}
}

// Scripts rely on it: kubectl wait ignores the Ready condition of the previous generation.
func TestKubectlWait_EndsWhenTheLatestEditIsReady(t *testing.T) {
	s := newServer(t)
	read := func(name string) state { return readState(t, filepath.Join("testdata", "states", name+".yaml")) }
	object := s.create(t, read("policy-edited"))
	if err := s.wait(t, object, "Ready", "1s"); err == nil {
		t.Fatal("kubectl wait ended before the operator observed the edit")
	}
	waiting := make(chan error, 1)
	go func() { waiting <- s.wait(t, object, "Ready", "30s") }()
	must(t, s.writeStatus(t, object, read("policy-edited-ready").object().Object["status"]))
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}
