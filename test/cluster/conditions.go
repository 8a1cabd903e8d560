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

// saying is a condition that an object should have; what is empty may be anything.
type saying struct {
	kind, reason string
	status       metav1.ConditionStatus
	text         string // part of the message
}

func (w saying) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s=%s %s", w.kind, w.status, w.reason))
}

// statusOf is the part of a status that Limiters and policies have in common.
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

// says looks whether the object says so of the generation that it is in.
func (s *story) says(object client.Object, want saying) step {
	return func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return said(object, want)
	}
}

func said(object client.Object, want saying) error {
	observed, conditions := statusOf(object)
	c := meta.FindStatusCondition(conditions, want.kind)
	switch {
	case observed < object.GetGeneration():
		return fmt.Errorf("%s: status of generation %d, not yet of %d", object.GetName(), observed, object.GetGeneration())
	case c == nil:
		return fmt.Errorf("%s has no condition %s%s", object.GetName(), want.kind, all(conditions))
	case c.Status != want.status, want.reason != "" && c.Reason != want.reason, !strings.Contains(c.Message, want.text):
		return fmt.Errorf("%s says %s=%s %s: %s; want %v %s", object.GetName(), c.Type, c.Status, c.Reason, c.Message, want, want.text)
	default:
		return nil
	}
}

func all(conditions []metav1.Condition) string {
	parts := make([]string, len(conditions))
	for i, c := range conditions {
		parts[i] = fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return " among " + strings.Join(parts, " | ")
}

// saysNot looks whether the object has no such condition.
func (s *story) saysNot(object client.Object, kind string) step {
	return func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		_, conditions := statusOf(object)
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			return fmt.Errorf("%s still says %s: %s: %s", object.GetName(), kind, c.Reason, c.Message)
		}
		return nil
	}
}

func ready(reason string) saying {
	return saying{kind: v1alpha1.ConditionReady, status: metav1.ConditionTrue, reason: reason}
}

// conditionText is what a condition of the object says.
func conditionText(object client.Object, kind string) string {
	_, conditions := statusOf(object)
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s: %s", object.GetName(), c.Type, c.Reason, c.Message)
}
