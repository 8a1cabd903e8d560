package deployment

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// outcome is the result of deploying a Limiter.
type outcome struct {
	blocking []conditionError
	// certificates are those of the Limiter that can be read.
	certificates []v1alpha1.LimiterCertificate
	// deployment is the live Deployment, or nil if it does not exist.
	deployment *appsv1.Deployment
	// podProblems describe why pods are not ready.
	podProblems []string
}

// waitsForPods reports whether all resources are applied and pods are missing.
func (o *outcome) waitsForPods() bool {
	if _, _, blocked := o.blocked(); blocked {
		return false
	}
	reason, _ := readiness(o.deployment)
	return reason != v1alpha1.ReasonDeployed
}

// ownedConditionTypes are the types of the conditions that only this controller writes. Degraded is not among them.
func ownedConditionTypes() []string {
	return []string{
		v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady,
		v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
	}
}

// ownedStatus returns the part of the current status that this controller writes.
func ownedStatus(limiter *v1alpha1.Limiter) v1alpha1.LimiterStatus {
	status := limiter.Status
	return v1alpha1.LimiterStatus{
		ObservedGeneration: status.ObservedGeneration, Replicas: status.Replicas, ReadyReplicas: status.ReadyReplicas,
		Selector: status.Selector, Conditions: ownedConditions(status.Conditions), Certificates: status.Certificates,
	}
}

// ownedConditions returns the conditions that this controller writes, in the order of their types.
func ownedConditions(conditions []metav1.Condition) []metav1.Condition {
	var owned []metav1.Condition
	for _, kind := range ownedConditionTypes() {
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			owned = append(owned, *c)
		}
	}
	return owned
}

// newStatus returns the part of the status that this controller writes, for the outcome.
func newStatus(limiter *v1alpha1.Limiter, o outcome, now time.Time) v1alpha1.LimiterStatus {
	s := v1alpha1.LimiterStatus{
		ObservedGeneration: limiter.Generation,
		Selector:           metav1.FormatLabelSelector(labelSelector(limiter)),
		Conditions:         ownedConditions(limiter.Status.Conditions),
		Certificates:       o.certificates,
	}
	if o.deployment != nil {
		s.Replicas, s.ReadyReplicas = o.deployment.Status.Replicas, o.deployment.Status.ReadyReplicas
	}
	set := func(kind string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message,
			ObservedGeneration: limiter.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
		})
	}
	setIfTrue := func(kind string, is bool, reason, message string) {
		if is {
			set(kind, true, reason, message)
		} else {
			meta.RemoveStatusCondition(&s.Conditions, kind)
		}
	}
	reason, message, blocked := o.blocked()
	isRefused := blocked && reason == v1alpha1.ReasonRefused
	if isRefused {
		set(v1alpha1.ConditionAccepted, false, reason, message)
	} else {
		set(v1alpha1.ConditionAccepted, true, v1alpha1.ReasonAccepted, "The API server accepted all managed resources")
	}
	if blocked {
		set(v1alpha1.ConditionProgrammed, false, reason, message)
	} else {
		set(v1alpha1.ConditionProgrammed, true, v1alpha1.ReasonDeployed, "All managed resources are applied")
		reason, message = readiness(o.deployment)
		message = strings.Join(append([]string{message}, o.podProblems...), "; ")
	}
	ready := reason == v1alpha1.ReasonDeployed
	stalled := isRefused || reason == v1alpha1.ReasonProgressDeadlineExceeded
	set(v1alpha1.ConditionReady, ready, reason, message)
	setIfTrue(v1alpha1.ConditionReconciling, !ready && !stalled, reason, message)
	setIfTrue(v1alpha1.ConditionStalled, stalled, reason, message)
	s.Conditions = ownedConditions(s.Conditions)
	return s
}

// ReadyUpdatedReplicas returns the least number of ready pods of the latest template: any older pod may be among the ready ones.
func ReadyUpdatedReplicas(d *appsv1.Deployment) int32 {
	if d.Status.ObservedGeneration < d.Generation {
		return 0
	}
	return max(0, d.Status.ReadyReplicas-outdatedReplicas(d))
}

// outdatedReplicas returns the number of pods of older templates, without terminating ones.
func outdatedReplicas(d *appsv1.Deployment) int32 {
	return max(0, d.Status.Replicas-d.Status.UpdatedReplicas)
}

// readiness returns the reason and message of the Ready condition. The reason is Deployed if all wanted pods of the latest template are
// ready and no older pod is left. Otherwise it states whether the Deployment still makes progress.
func readiness(d *appsv1.Deployment) (reason, message string) {
	if d == nil {
		return v1alpha1.ReasonReplicasMissing, "there is no Deployment yet"
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	if d.Status.ObservedGeneration < d.Generation {
		return v1alpha1.ReasonReplicasMissing, fmt.Sprintf("the rollout of %d replicas has not started yet", want)
	}
	current, left := ReadyUpdatedReplicas(d), outdatedReplicas(d)
	message = fmt.Sprintf("%d of %d replicas are ready", min(current, want), want)
	if current >= want && left == 0 {
		return v1alpha1.ReasonDeployed, message
	}
	reason = v1alpha1.ReasonReplicasMissing
	causes := []string{message}
	if left > 0 {
		causes = append(causes, fmt.Sprintf("%d old replicas are pending termination", left))
	}
	for _, c := range d.Status.Conditions {
		failing := c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		stuck := c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
		if stuck {
			reason = v1alpha1.ReasonProgressDeadlineExceeded
		}
		if failing || stuck {
			causes = append(causes, c.Message)
		}
	}
	return reason, strings.Join(causes, "; ")
}
