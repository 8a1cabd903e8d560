package conditions

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Merge returns the wanted conditions, in their order, as observed in the generation. A condition that has the same status in
// before keeps its transition time. The transition time of the others is now, in whole seconds, as the API stores it.
func Merge(before, wanted []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	merged := make([]metav1.Condition, 0, len(wanted))
	for _, c := range wanted {
		if b := meta.FindStatusCondition(before, c.Type); b != nil {
			merged = append(merged, *b)
		}
		c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now).Rfc3339Copy()
		meta.SetStatusCondition(&merged, c)
	}
	return merged
}
