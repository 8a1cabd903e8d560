package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/conditions"
	"github.com/weir-dev/weir/internal/compile"
)

const (
	// maxProblems is the number of problems that the message of a condition lists.
	maxProblems = 5
	// maxLimiters is the number of Limiters that a status lists.
	maxLimiters = 16
)

// policyStatus is the only place that turns outcomes into the status of a policy. There is at least one outcome. A condition
// that has the same status in before keeps its transition time. The status changes at the time due even if the outcomes do not,
// unless due is zero.
func policyStatus(
	generation int64, outcomes []outcome, before v1alpha1.RateLimitPolicyStatus, now time.Time,
) (status v1alpha1.RateLimitPolicyStatus, due time.Time) {
	wanted, due := policyConditions(outcomes, before, generation, now)
	status = v1alpha1.RateLimitPolicyStatus{
		ObservedGeneration: generation,
		Conditions:         conditions.Merge(before.Conditions, wanted, generation, now),
	}
	listed, omitted := listedLimiters(outcomes)
	for _, o := range listed {
		if status.Effective == nil && o.rule != nil {
			effective := o.rule.Effective
			status.Effective = &effective
		}
		status.Limiters = append(status.Limiters, o.entry(entryOf(before.Limiters, o.limiter).Conditions, generation, now))
	}
	status.OmittedLimiters = omitted
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionOverridden) {
		i := slices.IndexFunc(outcomes, func(o outcome) bool { return o.overridden.Reason != "" })
		status.OverriddenBy, status.OverriddenDomains = outcomes[i].overridden.By, outcomes[i].overridden.Domains
	}
	return status, due
}

// listedLimiters returns the outcomes that the status lists, sorted by Limiter, and the number of the others. Limiters that are late come first,
// because since when they are late is in their entries, then those that cannot enforce the policy.
func listedLimiters(outcomes []outcome) (listed []outcome, omitted int32) {
	rank := func(o outcome) int {
		switch v := o.programmed(0); {
		case v.reason == v1alpha1.ReasonPending:
			return 0
		case v.status != metav1.ConditionTrue:
			return 1
		default:
			return 2
		}
	}
	byName := func(x, y outcome) int {
		return cmp.Or(cmp.Compare(x.limiter.Namespace, y.limiter.Namespace), cmp.Compare(x.limiter.Name, y.limiter.Name))
	}
	listed = slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return !o.hasEntry() })
	if omitted = int32(len(listed)) - maxLimiters; omitted <= 0 {
		return listed, 0
	}
	slices.SortFunc(listed, func(x, y outcome) int { return cmp.Or(cmp.Compare(rank(x), rank(y)), byName(x, y)) })
	listed = listed[:maxLimiters]
	slices.SortFunc(listed, byName)
	return listed, omitted
}

// hasEntry reports whether the status lists the Limiter, unless it lists maxLimiters others.
func (o outcome) hasEntry() bool { return o.rule != nil || o.overBudget != "" }

// entry returns the state of the policy at one Limiter.
func (o outcome) entry(before []metav1.Condition, generation int64, now time.Time) v1alpha1.PolicyLimiterStatus {
	entry := v1alpha1.PolicyLimiterStatus{Namespace: o.limiter.Namespace, Name: o.limiter.Name}
	if o.rule != nil {
		entry.Revision = o.rule.Revision
	}
	if o.rule != nil && !o.enforced {
		entry.Acknowledged, entry.Replicas = &o.acknowledged, &o.replicas
	}
	wanted := []metav1.Condition{o.programmed(generation).condition(v1alpha1.ConditionProgrammed)}
	if d := o.degradation; d.reason != "" {
		wanted = append(wanted, condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, d.reason, d.message))
	}
	entry.Conditions = conditions.Merge(sinceEdit(before, generation), wanted, generation, now)
	return entry
}

// policyConditions returns the conditions of a policy. They follow kstatus: Ready is the summary. Reconciling is present while
// the policy can become ready without an edit, Stalled while it needs an edit. Degraded and Overridden are unknown to kstatus
// and present while they are true: the policy is enforced nevertheless. The conditions change at the time due, see ready.
func policyConditions(
	outcomes []outcome, before v1alpha1.RateLimitPolicyStatus, generation int64, now time.Time,
) (all []metav1.Condition, due time.Time) {
	for _, o := range outcomes {
		if len(o.problems) > 0 {
			return rejectedBy(o.problems), time.Time{}
		}
	}
	if !slices.ContainsFunc(outcomes, func(o outcome) bool { return o.overBudget == "" }) {
		message := outcomes[0].prefix(outcomes) + outcomes[0].overBudget
		return rejected(v1alpha1.ReasonOverBudget, "the policy is over budget", message), time.Time{}
	}
	ready, due := ready(outcomes, before.Limiters, generation, now)
	all = []metav1.Condition{
		condition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, acceptedMessage(outcomes)),
		programmed(outcomes, generation).condition(v1alpha1.ConditionProgrammed),
		enforced(outcomes, before.Conditions, generation).condition(v1alpha1.ConditionEnforced),
		ready.condition(v1alpha1.ConditionReady),
	}
	switch {
	case ready.status == metav1.ConditionTrue:
	case ready.reason == v1alpha1.ReasonNoMatch:
		all = append(all, condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, ready.reason, ready.message))
	default:
		all = append(all, condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, ready.reason, ready.message))
	}
	addFirst := func(kind string, of func(outcome) (reason, message string)) {
		for _, o := range outcomes {
			if reason, message := of(o); reason != "" {
				all = append(all, condition(kind, metav1.ConditionTrue, reason, o.prefix(outcomes)+message))
				return
			}
		}
	}
	addFirst(v1alpha1.ConditionDegraded, func(o outcome) (reason, message string) { return o.degradation.reason, o.degradation.message })
	addFirst(v1alpha1.ConditionOverridden, func(o outcome) (reason, message string) { return o.overridden.Reason, o.overridden.Message })
	return all, due
}

func rejected(reason, cause, message string) []metav1.Condition {
	return []metav1.Condition{
		condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason, message),
		condition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, reason, "not enforced: "+cause),
		condition(v1alpha1.ConditionEnforced, metav1.ConditionFalse, reason, "not enforced: "+cause),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message),
	}
}

// prefix is the name of the Limiter if there are several outcomes.
func (o outcome) prefix(all []outcome) string {
	if len(all) == 1 {
		return ""
	}
	return o.limiter.String() + ": "
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// problemText returns for example "spec.match.http.paths[0].value: …; spec.window: …".
func problemText(problems []compile.Problem) string {
	listed := problems[:min(len(problems), maxProblems)]
	texts := make([]string, 0, len(listed)+1)
	for _, p := range listed {
		texts = append(texts, strings.TrimPrefix(p.Field+": "+p.Message, ": "))
	}
	if more := len(problems) - len(listed); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

func applyPolicyStatus(status v1alpha1.RateLimitPolicyStatus) *v1alpha1ac.RateLimitPolicyStatusApplyConfiguration {
	apply := v1alpha1ac.RateLimitPolicyStatus().WithObservedGeneration(status.ObservedGeneration)
	apply.WithConditions(conditions.Apply(status.Conditions)...)
	for _, l := range status.Limiters {
		apply.WithLimiters(applyEntry(l))
	}
	if status.OmittedLimiters > 0 {
		apply.WithOmittedLimiters(status.OmittedLimiters)
	}
	for _, o := range status.OverriddenBy {
		apply.WithOverriddenBy(v1alpha1ac.PolicyOverride().WithDomain(o.Domain).WithKind(o.Kind).WithName(o.Name))
	}
	if status.OverriddenDomains > 0 {
		apply.WithOverriddenDomains(status.OverriddenDomains)
	}
	if e := status.Effective; e != nil {
		apply.WithEffective(v1alpha1ac.EffectivePolicy().
			WithSummary(e.Summary))
		for _, r := range e.Rates {
			rate := v1alpha1ac.EffectiveRate().WithPolicy(r.Policy).WithAlgorithm(r.Algorithm).WithWindow(r.Window).WithKeyPattern(r.KeyPattern)
			if r.Limit != nil {
				rate.WithLimit(*r.Limit)
			}
			apply.Effective.WithRates(rate)
		}
		if e.MatchedBy != "" {
			apply.Effective.WithMatchedBy(e.MatchedBy)
		}
	}
	for _, a := range status.Ancestors {
		apply.WithAncestors(applyAncestor(a))
	}
	return apply
}

func applyEntry(l v1alpha1.PolicyLimiterStatus) *v1alpha1ac.PolicyLimiterStatusApplyConfiguration {
	apply := v1alpha1ac.PolicyLimiterStatus().WithNamespace(l.Namespace).WithName(l.Name).WithConditions(conditions.Apply(l.Conditions)...)
	if l.Revision != "" {
		apply.WithRevision(l.Revision)
	}
	apply.Acknowledged, apply.Replicas = l.Acknowledged, l.Replicas
	return apply
}
