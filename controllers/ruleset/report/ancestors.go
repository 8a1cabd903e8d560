package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/conditions"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
)

// maxAncestors is the number of entries in status.ancestors, and of targets of a policy.
const maxAncestors = 16

// ancestors returns an entry for each target of the policy. A target that would accept the policy has the condition of the policy while the
// policy is not accepted, for example because it is invalid. The Limiter of the first outcome with targets decides.
func ancestors(
	p selection.Policy, outcomes []outcome, status v1alpha1.RateLimitPolicyStatus, before []v1alpha1.PolicyAncestorStatus, now time.Time,
) (all []v1alpha1.PolicyAncestorStatus) {
	targets := targetsOf(outcomes)
	policy := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted)
	for i, ref := range p.Targets[:min(len(p.Targets), maxAncestors)] {
		accepted := condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, policy.Reason, policy.Message)
		if i < len(targets) && (targets[i].Reason != v1alpha1.ReasonAccepted || policy.Status == metav1.ConditionTrue) {
			accepted.Reason, accepted.Message = targets[i].Reason, targets[i].Message
			if accepted.Reason == v1alpha1.ReasonAccepted {
				accepted.Status = metav1.ConditionTrue
				if targets[i].Idle {
					accepted.Reason = v1alpha1.ReasonNoRoutes
				}
			}
		}
		if len(targets) == 0 && policy.Status == metav1.ConditionTrue { // its previous rule is kept, and its targets cannot be read
			accepted.Status = metav1.ConditionTrue
			if reported := meta.FindStatusCondition(conditionsAt(before, ref), v1alpha1.ConditionAccepted); reported != nil {
				accepted = *reported
			}
		}
		entry := v1alpha1.PolicyAncestorStatus{AncestorRef: ref, ControllerName: v1alpha1.ControllerName}
		entry.Conditions = conditions.Merge(conditionsAt(before, ref), []metav1.Condition{accepted}, p.GetGeneration(), now)
		all = append(all, entry)
	}
	return all
}

func targetsOf(outcomes []outcome) []gateway.Target {
	i := slices.IndexFunc(outcomes, func(o outcome) bool { return len(o.targets) > 0 })
	if i < 0 {
		return nil
	}
	return outcomes[i].targets
}

// conditionsAt returns the conditions of the target in the status.
func conditionsAt(before []v1alpha1.PolicyAncestorStatus, ref v1alpha1.TargetReference) []metav1.Condition {
	i := slices.IndexFunc(before, func(a v1alpha1.PolicyAncestorStatus) bool { return equality.Semantic.DeepEqual(a.AncestorRef, ref) })
	if i < 0 {
		return nil
	}
	return before[i].Conditions
}

// targetsText returns everything that a status depends on.
func targetsText(targets []gateway.Target) string {
	texts := make([]string, len(targets))
	for i, t := range targets {
		texts[i] = fmt.Sprintf("%s %t: %s", t.Reason, t.Idle, t.Message)
	}
	return strings.Join(texts, "\n")
}

// acceptedMessage names the targets that do not accept a policy which others accept.
func acceptedMessage(outcomes []outcome) string {
	targets := targetsOf(outcomes)
	failed := slices.DeleteFunc(slices.Clone(targets), func(t gateway.Target) bool { return t.Reason == v1alpha1.ReasonAccepted })
	if len(failed) == 0 {
		return "the policy is valid"
	}
	return fmt.Sprintf("the policy is valid; %d of %d targets do not accept it, see status.ancestors: %s", len(failed), len(targets), failed[0].Message)
}

// rejectedBy returns the conditions of a policy with problems. A policy without a target waits for one: tools that apply a policy and its route
// together must not take it for a failure.
func rejectedBy(problems []compile.Problem) []metav1.Condition {
	reason := problems[0].Reason
	switch reason {
	case v1alpha1.ReasonTargetNotFound, v1alpha1.ReasonRefNotPermitted:
		all := rejected(reason, "no target accepts the policy", problemText(problems))
		waiting := &all[len(all)-1]
		waiting.Type = v1alpha1.ConditionReconciling
		return all
	case v1alpha1.ReasonConflicted:
		cause := "no target accepts the policy"
		if problems[0].Field == "spec.counterName" {
			cause = "another policy has its counters"
		}
		return rejected(reason, cause, problemText(problems))
	default:
		return rejected(v1alpha1.ReasonInvalid, "the policy is invalid", problemText(problems))
	}
}

func applyAncestor(a v1alpha1.PolicyAncestorStatus) *v1alpha1ac.PolicyAncestorStatusApplyConfiguration {
	return v1alpha1ac.PolicyAncestorStatus().WithAncestorRef(a.AncestorRef).WithControllerName(a.ControllerName).WithConditions(conditions.Apply(a.Conditions)...)
}
