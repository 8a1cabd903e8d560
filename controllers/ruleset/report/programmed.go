package report

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// PendingDeadline is how long Ready waits for the replicas of one Limiter while another Limiter enforces the policy.
const PendingDeadline = time.Minute

// verdict is the status, the reason and the message of a condition.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func (v verdict) condition(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: v.status, Reason: v.reason, Message: v.message}
}

// programmed describes one Limiter. It has numbers only while replicas are missing: a Limiter that scales must not change the
// statuses of thousands of policies.
func (o outcome) programmed(generation int64) verdict {
	switch {
	case o.notAdmitted != "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNotAdmitted, o.notAdmitted}
	case o.overBudget != "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonOverBudget, o.overBudget}
	case o.rule == nil:
		return verdict{
			metav1.ConditionFalse, v1alpha1.ReasonNotSelected,
			"no Limiter selects the policy: create a Limiter, or check spec.policySelector and spec.policyNamespaceSelector of the existing ones",
		}
	case o.enforced && o.webhook != "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNotRegistered, "API servers do not call the Limiter for this policy: " + o.webhook}
	case o.enforced:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonProgrammed, fmt.Sprintf("all replicas enforce generation %d", generation)}
	case o.connecting:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonPending, "the operator is connecting to Redis"}
	case o.unavailable != "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonStoreUnreachable, "Redis cannot be used: " + o.unavailable}
	case o.replicas == 0 && o.rejected != "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNoReplicas, "no limiter replica is ready: " + o.rejected}
	case o.replicas == 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNoReplicas, "no limiter replica is ready: check the pods of the Limiter"}
	default:
		message := fmt.Sprintf("%d of %d replicas enforce generation %d", o.acknowledged, o.replicas, generation)
		if o.rejected != "" {
			message += "; " + o.rejected
		}
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonPending, message}
	}
}

// programmed describes all Limiters. It is true if every one enforces the policy, and otherwise names the first that does not.
func programmed(outcomes []outcome, generation int64) verdict {
	for _, o := range outcomes {
		if v := o.programmed(generation); v.status != metav1.ConditionTrue {
			v.message = o.prefix(outcomes) + v.message
			return v
		}
	}
	if len(outcomes) == 1 {
		return outcomes[0].programmed(generation)
	}
	message := fmt.Sprintf("all replicas of %d Limiters enforce generation %d", len(outcomes), generation)
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonProgrammed, message}
}

// sinceEdit returns the conditions of an entry without Programmed=False of another generation: Ready waits again after an edit.
func sinceEdit(before []metav1.Condition, generation int64) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(before), func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionProgrammed && c.Status == metav1.ConditionFalse && c.ObservedGeneration != generation
	})
}

// lateLimiter is a Limiter that is late with a generation of a policy.
type lateLimiter struct {
	limiter    types.NamespacedName
	generation int64
}

// observeLate sets since when the outcomes are late, and returns it, if there are more Limiters than a status lists. The argument before has what it
// returned for the policy before: a Limiter that is new in it is late since now.
func observeLate(outcomes []outcome, before map[lateLimiter]time.Time, generation int64, now time.Time) map[lateLimiter]time.Time {
	if len(outcomes) <= maxLimiters {
		return nil
	}
	late := map[lateLimiter]time.Time{}
	for i := range outcomes {
		o := &outcomes[i]
		if o.programmed(generation).reason != v1alpha1.ReasonPending {
			continue
		}
		key := lateLimiter{o.limiter, generation}
		since, known := before[key]
		if !known {
			since = now
		}
		late[key], o.lateSince = since, since
	}
	return late
}

// unmatchedBy returns why no request can match the policy, at any Limiter that has its rule; the zero value if some may.
func unmatchedBy(outcomes []outcome) (first compile.Unmatched) {
	for _, o := range outcomes {
		switch {
		case o.rule == nil:
		case o.unmatched.Reason == "":
			return compile.Unmatched{}
		case first.Reason == "":
			first = o.unmatched
		}
	}
	return first
}

// enforced reports whether a replica of any Limiter has decided a request under this generation. The status remembers it: it stays true when replicas
// restart or are idle. While the operator has no heartbeats of replicas with the rule, the condition does not change.
func enforced(outcomes []outcome, before []metav1.Condition, generation int64) verdict {
	var decided, deployed, notReporting, selected bool
	for _, o := range outcomes {
		selected = selected || o.rule != nil
		decided = decided || o.decided
		if o.programmed(generation).status == metav1.ConditionTrue && o.hasHeartbeats() {
			deployed, notReporting = true, notReporting || o.notReporting
		}
	}
	was := meta.FindStatusCondition(before, v1alpha1.ConditionEnforced)
	if was == nil || was.ObservedGeneration != generation {
		was = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: fmt.Sprintf(
			"the operator waits until all replicas of a Limiter have generation %d: see Programmed", generation)}
	}
	unmatched := unmatchedBy(outcomes)
	switch {
	case !selected:
		v := programmed(outcomes, generation)
		return verdict{metav1.ConditionFalse, v.reason, v.message}
	case decided || was.Status == metav1.ConditionTrue:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonRequestDecided, fmt.Sprintf("a replica has decided a request under generation %d", generation)}
	case unmatched.Reason != "":
		return verdict{metav1.ConditionFalse, unmatched.Reason, unmatched.Message}
	case deployed && notReporting:
		return verdict{
			metav1.ConditionUnknown, v1alpha1.ReasonNotReported,
			"some replicas are of an older version, which does not report the policies that have decided requests: upgrade the limiters",
		}
	case deployed:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNoRequests, fmt.Sprintf("no replica has decided a request under generation %d: "+
			"send a request that matches; if this remains, check whether the gateway calls the Limiter, sends the domain, "+
			"and names the route or the descriptors that the policy matches", generation)}
	default:
		return verdict{was.Status, was.Reason, was.Message}
	}
}

// ready summarizes all Limiters. A Limiter that cannot enforce the policy (no replica is ready, or its Redis is unavailable), or
// has not done so by the deadline, does not keep the policy from being ready if another Limiter enforces it. The message names
// it. The deadline of a Limiter depends on its entry in the status, or on lateSince if the status cannot list it. A policy that no request can match
// is not ready. The result changes when a deadline passes; due is zero if no deadline is pending.
func ready(outcomes []outcome, reported []v1alpha1.PolicyLimiterStatus, generation int64, now time.Time) (result verdict, due time.Time) {
	all := programmed(outcomes, generation)
	var enforcing int
	var missing, waiting string // the first Limiter that does not enforce the policy, and the first that Ready waits for
	for _, o := range outcomes {
		v := o.programmed(generation)
		if v.status == metav1.ConditionTrue {
			enforcing++
			continue
		}
		if missing == "" {
			missing = o.prefix(outcomes) + v.message
		}
		if v.reason != v1alpha1.ReasonPending {
			continue
		}
		since := now
		if !o.lateSince.IsZero() {
			since = o.lateSince
		}
		before := meta.FindStatusCondition(sinceEdit(entryOf(reported, o.limiter).Conditions, generation), v1alpha1.ConditionProgrammed)
		if before != nil && before.Status == metav1.ConditionFalse && before.LastTransitionTime.Time.Before(since) {
			since = before.LastTransitionTime.Time
		}
		deadline := since.Add(PendingDeadline)
		if !now.Before(deadline) {
			continue
		}
		if waiting == "" {
			waiting = o.prefix(outcomes) + v.message
		}
		if due.IsZero() || deadline.Before(due) {
			due = deadline
		}
	}
	switch unmatched := unmatchedBy(outcomes); {
	case enforcing == 0:
		return all, time.Time{}
	case unmatched.Reason != "":
		return verdict{metav1.ConditionFalse, unmatched.Reason, unmatched.Message}, time.Time{}
	case missing == "":
		return all, time.Time{}
	case waiting != "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonPending, waiting}, due
	default:
		message := fmt.Sprintf("%d of %d Limiters enforce generation %d; not %s", enforcing, len(outcomes), generation, missing)
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonPartiallyProgrammed, message}, time.Time{}
	}
}
