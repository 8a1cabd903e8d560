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

// outcome is what has become of one policy with one Limiter that selects it.
type outcome struct {
	limiter      types.NamespacedName // empty for a policy that none selects
	rule         *enforced            // nil if the policy does not compile, or is not selected
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

// news is all that the status of a policy in one version depends on.
type news struct {
	limiter                types.NamespacedName
	revision               string // of the rule, empty for a policy that does not compile
	acknowledged, replicas int32
	unreachable            string
	degradation            degradation
	overridden             overridden
}

// news is what the status says anew when it changes.
func (o outcome) news() news {
	if o.rule == nil {
		return news{limiter: o.limiter}
	}
	return news{
		limiter: o.limiter, revision: o.rule.revision, acknowledged: o.acknowledged, replicas: o.replicas,
		unreachable: o.unreachable, degradation: o.degradation, overridden: o.overridden,
	}
}

// maxLimiters is how many Limiters a status lists.
const maxLimiters = 16

// statusOf is the one place that turns outcomes, of which there is at least one, into a status. A condition that says what
// it said in before keeps its transition time; the others get now.
func statusOf(generation int64, outcomes []outcome, before []metav1.Condition, now metav1.Time) v1alpha1.RateLimitPolicyStatus {
	status := v1alpha1.RateLimitPolicyStatus{ObservedGeneration: generation}
	for _, c := range conditionsOf(outcomes, generation) {
		c.ObservedGeneration = generation
		c.LastTransitionTime = now
		if b := meta.FindStatusCondition(before, c.Type); b != nil && b.Status == c.Status {
			c.LastTransitionTime = b.LastTransitionTime
			if c.Type == v1alpha1.ConditionDegraded && c.Reason == v1alpha1.ReasonStoreUnreachable && sameUpToSince(*b, c) {
				c.Message = b.Message // since when: another operator has seen the outage begin, and nobody its end
			}
		}
		status.Conditions = append(status.Conditions, c)
	}
	for _, o := range outcomes {
		if o.rule == nil || len(status.Limiters) == maxLimiters {
			continue
		}
		if status.Effective == nil {
			effective := o.rule.effective
			status.Effective = &effective
		}
		status.Limiters = append(status.Limiters, v1alpha1.PolicyLimiterStatus{
			Namespace:    o.limiter.Namespace,
			Name:         o.limiter.Name,
			Revision:     o.rule.revision,
			Acknowledged: o.acknowledged,
			Replicas:     o.replicas,
		})
	}
	return status
}

// sameUpToSince says whether two conditions say the same of the same Limiter, but for since when.
func sameUpToSince(a, b metav1.Condition) bool {
	before, _, _ := strings.Cut(a.Message, " since ")
	after, _, _ := strings.Cut(b.Message, " since ")
	return a.Reason == b.Reason && before == after
}

// conditionsOf follows kstatus: Ready sums up; Reconciling stands while time may help, Stalled while only an edit can,
// and either goes away when it is over. So do Degraded and
// Overridden, of which kstatus knows nothing: the policy is enforced.
func conditionsOf(outcomes []outcome, generation int64) []metav1.Condition {
	for _, o := range outcomes {
		if len(o.problems) > 0 {
			return invalid(problemText(o.problems))
		}
	}
	value, reason, message := programmedOf(outcomes, generation)
	conditions := []metav1.Condition{
		condition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the policy compiles"),
		condition(v1alpha1.ConditionProgrammed, value, reason, message),
		condition(v1alpha1.ConditionReady, value, reason, message),
	}
	if value != metav1.ConditionTrue {
		conditions = append(conditions, condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message))
	}
	only := func(kind string, of func(outcome) (reason, message string)) {
		for _, o := range outcomes {
			if reason, message := of(o); reason != "" {
				conditions = append(conditions, condition(kind, metav1.ConditionTrue, reason, o.among(outcomes)+message))
				return
			}
		}
	}
	only(v1alpha1.ConditionDegraded, func(o outcome) (reason, message string) { return o.degradation.reason, o.degradation.message })
	only(v1alpha1.ConditionOverridden, func(o outcome) (reason, message string) { return o.overridden.reason, o.overridden.message })
	return conditions
}

func invalid(message string) []metav1.Condition {
	return []metav1.Condition{
		condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid, message),
		condition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonInvalid, "not enforced: the policy is invalid"),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalid, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid, message),
	}
}

// among names the Limiter where there are several.
func (o outcome) among(all []outcome) string {
	if len(all) == 1 {
		return ""
	}
	return o.limiter.String() + ": "
}

// programmedOf speaks of the Limiter that is the least far; of all of them once they are.
func programmedOf(outcomes []outcome, generation int64) (value metav1.ConditionStatus, reason, message string) {
	var acknowledged, replicas int32
	for _, o := range outcomes {
		if value, reason, message := o.programmedBy(generation); value != metav1.ConditionTrue {
			return value, reason, o.among(outcomes) + message
		}
		acknowledged, replicas = acknowledged+o.acknowledged, replicas+o.replicas
	}
	message = enforcing(acknowledged, replicas, generation)
	if len(outcomes) > 1 {
		message = fmt.Sprintf("%d of %d replicas of %d Limiters enforce generation %d", acknowledged, replicas, len(outcomes), generation)
	}
	return metav1.ConditionTrue, v1alpha1.ReasonProgrammed, message
}

func (o outcome) programmedBy(generation int64) (value metav1.ConditionStatus, reason, message string) {
	switch {
	case o.rule == nil:
		return metav1.ConditionFalse, v1alpha1.ReasonNotSelected,
			"no Limiter selects the policy: create one, or see policySelector and policyNamespaceSelector of those there are"
	case o.unreachable != "":
		return metav1.ConditionFalse, v1alpha1.ReasonStoreUnreachable, "Redis cannot be used: " + o.unreachable
	case o.programmed():
		return metav1.ConditionTrue, v1alpha1.ReasonProgrammed, enforcing(o.acknowledged, o.replicas, generation)
	case o.replicas == 0:
		return metav1.ConditionFalse, v1alpha1.ReasonNoReplicas, "no limiter replica is ready"
	default:
		return metav1.ConditionFalse, v1alpha1.ReasonPending, enforcing(o.acknowledged, o.replicas, generation)
	}
}

func enforcing(acknowledged, replicas int32, generation int64) string {
	return fmt.Sprintf("%d of %d replicas enforce generation %d", acknowledged, replicas, generation)
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
