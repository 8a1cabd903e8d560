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

// TestToolsThatWaitJudgeEveryState brings objects into each state on a real API server, and asks the tools.
func TestToolsThatWaitJudgeEveryState(t *testing.T) {
	s := newServer(t)
	all, verdicts := states(t)
	for _, state := range all {
		t.Run(state.name, func(t *testing.T) {
			want := verdicts[state.name]
			object := s.bring(t, state)
			if got := kstatus(t, object); got != want.Kstatus {
				t.Errorf("kstatus makes %s of it, want %s", got, want.Kstatus)
			}
			if got := s.satisfies(t, object, "Ready"); got != want.Wait {
				t.Errorf("kubectl wait --for=condition=Ready is satisfied: %v, want %v", got, want.Wait)
			}
			if got := s.satisfies(t, object, "Stalled"); got != (want.Kstatus == "Failed") {
				t.Errorf("kubectl wait --for=condition=Stalled is satisfied: %v", got)
			}
		})
	}
}

// TestWithoutADefaultANewbornWouldCountAsCurrent is why the schema gives status a default.
func TestWithoutADefaultANewbornWouldCountAsCurrent(t *testing.T) {
	all, _ := states(t)
	newborns := 0
	for _, state := range all {
		object := state.object()
		generation, _, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		must(t, err)
		if generation != -1 {
			continue
		}
		newborns++
		unstructured.RemoveNestedField(object.Object, "status")
		if got := kstatus(t, object); got != "Current" {
			t.Errorf("%s: without the default kstatus makes %s of it: the default is needless", state.name, got)
		}
	}
	if newborns != 3 {
		t.Errorf("%d states are of objects just created, want one for each kind", newborns)
	}
}

// TestDegradedAloneMakesNothingUnready holds every state to what the condition says of itself: it is no part of whether the
// object is in force.
func TestDegradedAloneMakesNothingUnready(t *testing.T) {
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
			t.Errorf("%s: kstatus makes %s of it, and %s without Degraded", state.name, with, without)
		}
	}
	if degraded == 0 {
		t.Error("no state has the condition")
	}
}

// TestAWaitThatBeginsAfterAnEditEndsWhenTheEditIsReady is what scripts rely on: kubectl wait does not take the condition of the
// generation before, though it says Ready.
func TestAWaitThatBeginsAfterAnEditEndsWhenTheEditIsReady(t *testing.T) {
	s := newServer(t)
	read := func(name string) state { return readState(t, filepath.Join("testdata", "states", name+".yaml")) }
	object := s.bring(t, read("policy-edited"))
	if err := s.wait(t, object, "Ready", "1s"); err == nil {
		t.Fatal("it ends before the operator has seen the edit")
	}
	waiting := make(chan error, 1)
	go func() { waiting <- s.wait(t, object, "Ready", "30s") }()
	must(t, s.writeStatus(t, object, read("policy-edited-ready").object().Object["status"]))
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}
