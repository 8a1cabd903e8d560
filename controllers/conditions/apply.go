// Package conditions merges status conditions and converts them for server-side apply.
package conditions

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Apply converts the conditions for server-side apply.
func Apply(conditions []metav1.Condition) []*metav1ac.ConditionApplyConfiguration {
	applied := make([]*metav1ac.ConditionApplyConfiguration, len(conditions))
	for i, c := range conditions {
		applied[i] = metav1ac.Condition().
			WithType(c.Type).
			WithStatus(c.Status).
			WithReason(c.Reason).
			WithMessage(c.Message).
			WithObservedGeneration(c.ObservedGeneration).
			WithLastTransitionTime(c.LastTransitionTime)
	}
	return applied
}
