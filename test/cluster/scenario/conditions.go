package scenario

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Condition is a condition that an object must have. Empty fields match anything.
type Condition struct {
	Kind, Reason string
	Status       metav1.ConditionStatus
	Text         string // part of the message
}

func (w Condition) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s=%s %s", w.Kind, w.Status, w.Reason))
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

// HasCondition checks that the object has the condition for its current generation.
func (s *Scenario) HasCondition(object client.Object, want Condition) Action {
	return func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return CheckCondition(object, want)
	}
}

// CheckCondition checks that the object, as it was read, has the condition for its current generation.
func CheckCondition(object client.Object, want Condition) error {
	observed, conditions := statusOf(object)
	c := meta.FindStatusCondition(conditions, want.Kind)
	switch {
	case observed < object.GetGeneration():
		return fmt.Errorf("%s: the status is for generation %d, want %d", object.GetName(), observed, object.GetGeneration())
	case c == nil:
		return fmt.Errorf("%s has no condition %s%s", object.GetName(), want.Kind, all(conditions))
	case c.Status != want.Status, want.Reason != "" && c.Reason != want.Reason, !strings.Contains(c.Message, want.Text):
		return fmt.Errorf("%s has %s=%s %s: %s; want %v %s", object.GetName(), c.Type, c.Status, c.Reason, c.Message, want, want.Text)
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

// LacksCondition checks that the object does not have a condition of this type.
func (s *Scenario) LacksCondition(object client.Object, kind string) Action {
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

// Ready returns the condition Ready with this reason.
func Ready(reason string) Condition {
	return Condition{Kind: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason}
}

// ConditionText returns the reason and the message of a condition of the object.
func ConditionText(object client.Object, kind string) string {
	_, conditions := statusOf(object)
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s: %s", object.GetName(), c.Type, c.Reason, c.Message)
}
