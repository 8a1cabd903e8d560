package ruleset

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// toldProblems bounds how many problems of one policy its conditions tell.
const toldProblems = 5

// outcome is what has become of one policy.
type outcome struct {
	rule         *enforced // nil if the policy does not compile
	problems     []compile.Problem
	acknowledged int32
	replicas     int32
	unreachable  string // why Redis cannot be reached, empty if it can
	degradation  degradation
	overridden   overridden
}

// programmed says whether every live replica, of at least one, enforces the policy.
func (o outcome) programmed() bool {
	return o.rule != nil && o.unreachable == "" && o.replicas > 0 && o.acknowledged == o.replicas
}

// news is what the status says anew when it changes.
func (o outcome) news() news {
	if o.rule == nil {
		return news{}
	}
	return news{
		revision: o.rule.revision, acknowledged: o.acknowledged, replicas: o.replicas,
		unreachable: o.unreachable, degradation: o.degradation, overridden: o.overridden,
	}
}

// statusOf is the one place that turns an outcome into a status. A condition that says what it said in before keeps
// its transition time; the others get now.
func statusOf(
	generation int64, limiter types.NamespacedName, o outcome, before []metav1.Condition, now metav1.Time,
) v1alpha1.RateLimitPolicyStatus {
	status := v1alpha1.RateLimitPolicyStatus{ObservedGeneration: generation}
	for _, c := range conditionsOf(o, generation) {
		c.ObservedGeneration = generation
		c.LastTransitionTime = now
		if b := meta.FindStatusCondition(before, c.Type); b != nil && b.Status == c.Status {
			c.LastTransitionTime = b.LastTransitionTime
			if c.Type == v1alpha1.ConditionDegraded && c.Reason == v1alpha1.ReasonStoreUnreachable && b.Reason == c.Reason {
				c.Message = b.Message // since when: another operator has seen the outage begin, and nobody its end
			}
		}
		status.Conditions = append(status.Conditions, c)
	}
	if o.rule == nil {
		return status
	}
	effective := o.rule.effective
	status.Effective = &effective
	status.Limiters = []v1alpha1.LimiterStatus{{
		Namespace:    limiter.Namespace,
		Name:         limiter.Name,
		Revision:     o.rule.revision,
		Acknowledged: o.acknowledged,
		Replicas:     o.replicas,
	}}
	return status
}

// conditionsOf follows kstatus: Ready sums up; Reconciling stands while time may help, Stalled while only an edit can,
// and either goes away when it is over. So do Degraded and
// Overridden, of which kstatus knows nothing: the policy is enforced.
func conditionsOf(o outcome, generation int64) []metav1.Condition {
	if o.rule == nil {
		message := problemText(o.problems)
		return []metav1.Condition{
			condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid, message),
			condition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonInvalid, "not enforced: the policy is invalid"),
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalid, message),
			condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid, message),
		}
	}
	accepted := condition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the policy compiles")
	value, reason, message := programmedOf(o, generation)
	conditions := []metav1.Condition{
		accepted,
		condition(v1alpha1.ConditionProgrammed, value, reason, message),
		condition(v1alpha1.ConditionReady, value, reason, message),
	}
	if value != metav1.ConditionTrue {
		conditions = append(conditions, condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message))
	}
	if d := o.degradation; d.reason != "" {
		conditions = append(conditions, condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, d.reason, d.message))
	}
	if by := o.overridden; by.reason != "" {
		conditions = append(conditions, condition(v1alpha1.ConditionOverridden, metav1.ConditionTrue, by.reason, by.message))
	}
	return conditions
}

func programmedOf(o outcome, generation int64) (value metav1.ConditionStatus, reason, message string) {
	enforce := fmt.Sprintf("%d of %d replicas enforce generation %d", o.acknowledged, o.replicas, generation)
	switch {
	case o.unreachable != "":
		return metav1.ConditionFalse, v1alpha1.ReasonStoreUnreachable, "Redis cannot be used: " + o.unreachable
	case o.programmed():
		return metav1.ConditionTrue, v1alpha1.ReasonProgrammed, enforce
	case o.replicas == 0:
		return metav1.ConditionFalse, v1alpha1.ReasonNoReplicas, "no limiter replica is ready"
	default:
		return metav1.ConditionFalse, v1alpha1.ReasonPending, enforce
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// problemText reads "spec.match.http.paths[0].value: …; spec.window: …".
func problemText(problems []compile.Problem) string {
	told := problems[:min(len(problems), toldProblems)]
	texts := make([]string, 0, len(told)+1)
	for _, p := range told {
		texts = append(texts, strings.TrimPrefix(p.Field+": "+p.Message, ": "))
	}
	if more := len(problems) - len(told); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
