package conditions_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/controllers/conditions"
)

func TestMerge_KeepsTheTransitionTimeOfAnUnchangedStatus(t *testing.T) {
	began, now := time.Unix(1_800_000_000, 0), time.Unix(1_800_000_060, 5)
	before := []metav1.Condition{
		{Type: "Removed", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)},
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "Old", Message: "old", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(began)},
		{Type: "Changed", Status: metav1.ConditionTrue, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(began)},
	}
	wanted := []metav1.Condition{
		{Type: "Changed", Status: metav1.ConditionFalse, Reason: "C"},
		{Type: "New", Status: metav1.ConditionTrue, Reason: "N"},
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "S", Message: "s"},
	}
	second := metav1.NewTime(now).Rfc3339Copy()
	want := []metav1.Condition{
		{Type: "Changed", Status: metav1.ConditionFalse, Reason: "C", ObservedGeneration: 2, LastTransitionTime: second},
		{Type: "New", Status: metav1.ConditionTrue, Reason: "N", ObservedGeneration: 2, LastTransitionTime: second},
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "S", Message: "s", ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(began)},
	}
	if diff := cmp.Diff(want, conditions.Merge(before, wanted, 2, now)); diff != "" {
		t.Errorf("merged conditions (-want +got):\n%s", diff)
	}
}
