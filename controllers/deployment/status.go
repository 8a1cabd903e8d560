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

// outcome is what came of deploying a Limiter.
type outcome struct {
	obstacles []obstacle
	// deployment as it is; nil for none.
	deployment *appsv1.Deployment
}

// ownConditions are the conditions of a Limiter that this controller alone writes; Degraded is not among them.
func ownConditions() []string {
	return []string{
		v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady,
		v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
	}
}

// ownState is the part of the Limiter's status that this controller writes, as it is.
func ownState(limiter *v1alpha1.Limiter) v1alpha1.LimiterStatus {
	status := limiter.Status
	return v1alpha1.LimiterStatus{
		ObservedGeneration: status.ObservedGeneration, Replicas: status.Replicas, ReadyReplicas: status.ReadyReplicas,
		Selector: status.Selector, Conditions: own(status.Conditions),
	}
}

// own are those of the conditions that this controller writes, in its order.
func own(conditions []metav1.Condition) []metav1.Condition {
	var mine []metav1.Condition
	for _, kind := range ownConditions() {
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			mine = append(mine, *c)
		}
	}
	return mine
}

// stateOf is that part of the status as it is to be.
func stateOf(limiter *v1alpha1.Limiter, o outcome, now time.Time) v1alpha1.LimiterStatus {
	s := v1alpha1.LimiterStatus{
		ObservedGeneration: limiter.Generation,
		Selector:           metav1.FormatLabelSelector(labelSelector(limiter)),
		Conditions:         own(limiter.Status.Conditions),
	}
	if o.deployment != nil {
		s.Replicas, s.ReadyReplicas = o.deployment.Status.Replicas, o.deployment.Status.ReadyReplicas
	}
	say := func(kind string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message,
			ObservedGeneration: limiter.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
		})
	}
	only := func(kind string, is bool, reason, message string) {
		if is {
			say(kind, true, reason, message)
		} else {
			meta.RemoveStatusCondition(&s.Conditions, kind)
		}
	}
	reason, message, blocked := o.blocked()
	isRefused := blocked && reason == v1alpha1.ReasonRefused
	if isRefused {
		say(v1alpha1.ConditionAccepted, false, reason, message)
	} else {
		say(v1alpha1.ConditionAccepted, true, v1alpha1.ReasonAccepted, "the API server takes all that it needs to run")
	}
	if blocked {
		say(v1alpha1.ConditionProgrammed, false, reason, message)
	} else {
		say(v1alpha1.ConditionProgrammed, true, v1alpha1.ReasonDeployed, "all that it needs to run is applied")
		reason, message = readiness(o.deployment)
	}
	ready := reason == v1alpha1.ReasonDeployed
	stalled := isRefused || reason == v1alpha1.ReasonProgressDeadlineExceeded
	say(v1alpha1.ConditionReady, ready, reason, message)
	only(v1alpha1.ConditionReconciling, !ready && !stalled, reason, message)
	only(v1alpha1.ConditionStalled, stalled, reason, message)
	s.Conditions = own(s.Conditions)
	return s
}

// ReadyOfLatest is how many pods of the latest template are ready, at least: any older one may be among those that are.
func ReadyOfLatest(d *appsv1.Deployment) int32 {
	if d.Status.ObservedGeneration < d.Generation {
		return 0
	}
	return max(0, d.Status.ReadyReplicas-older(d))
}

// older is how many pods of older templates there are, but for those that are on their way out.
func older(d *appsv1.Deployment) int32 { return max(0, d.Status.Replicas-d.Status.UpdatedReplicas) }

// readiness says how many pods of the latest template are ready, and by its reason whether those are all that there are to
// be, and no older one is left, or else whether the Deployment still expects to come there.
func readiness(d *appsv1.Deployment) (reason, message string) {
	if d == nil {
		return v1alpha1.ReasonReplicasMissing, "there is no Deployment yet"
	}
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	if d.Status.ObservedGeneration < d.Generation {
		return v1alpha1.ReasonReplicasMissing, fmt.Sprintf("the Deployment has yet to make %d replicas of this generation", wanted)
	}
	current, left := ReadyOfLatest(d), older(d)
	message = fmt.Sprintf("%d of %d replicas are ready", min(current, wanted), wanted)
	if current >= wanted && left == 0 {
		return v1alpha1.ReasonDeployed, message
	}
	reason = v1alpha1.ReasonReplicasMissing
	causes := []string{message}
	if left > 0 {
		causes = append(causes, fmt.Sprintf("%d of an older template left", left))
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
