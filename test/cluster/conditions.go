package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// condition is a condition that an object must have. Empty fields match anything.
type condition struct {
	kind, reason string
	status       metav1.ConditionStatus
	text         string // part of the message
}

func (w condition) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s=%s %s", w.kind, w.status, w.reason))
}

// statusOf returns the fields that the status of Limiters and policies share.
func statusOf(object client.Object) (observed int64, conditions []metav1.Condition) {
	switch o := object.(type) {
	case *v1alpha1.Limiter:
		return o.Status.ObservedGeneration, o.Status.Conditions
	case *v1alpha1.RateLimitPolicy:
		return o.Status.ObservedGeneration, o.Status.Conditions
	case *v1alpha1.ClusterRateLimitPolicy:
		return o.Status.ObservedGeneration, o.Status.Conditions
	default:
		return 0, nil
	}
}

// hasCondition checks that the object has the condition for its current generation.
func (s *scenario) hasCondition(object client.Object, want condition) action {
	return func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return checkCondition(object, want)
	}
}

func checkCondition(object client.Object, want condition) error {
	observed, conditions := statusOf(object)
	c := meta.FindStatusCondition(conditions, want.kind)
	switch {
	case observed < object.GetGeneration():
		return fmt.Errorf("%s: the status is for generation %d, want %d", object.GetName(), observed, object.GetGeneration())
	case c == nil:
		return fmt.Errorf("%s has no condition %s%s", object.GetName(), want.kind, all(conditions))
	case c.Status != want.status, want.reason != "" && c.Reason != want.reason, !strings.Contains(c.Message, want.text):
		return fmt.Errorf("%s has %s=%s %s: %s; want %v %s", object.GetName(), c.Type, c.Status, c.Reason, c.Message, want, want.text)
	default:
		return nil
	}
}

func all(conditions []metav1.Condition) string {
	parts := make([]string, len(conditions))
	for i, c := range conditions {
		parts[i] = fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return ", it has " + strings.Join(parts, " | ")
}

// lacksCondition checks that the object does not have a condition of this type.
func (s *scenario) lacksCondition(object client.Object, kind string) action {
	return func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		_, conditions := statusOf(object)
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			return fmt.Errorf("%s still has the condition %s: %s: %s", object.GetName(), kind, c.Reason, c.Message)
		}
		return nil
	}
}

func ready(reason string) condition {
	return condition{kind: v1alpha1.ConditionReady, status: metav1.ConditionTrue, reason: reason}
}

// conditionText returns the reason and the message of a condition of the object.
func conditionText(object client.Object, kind string) string {
	_, conditions := statusOf(object)
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s: %s", object.GetName(), c.Type, c.Reason, c.Message)
}
