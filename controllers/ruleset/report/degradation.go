package report

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter"
)

// degradation is the reason and the message of a condition Degraded. The zero value stands for no condition.
type degradation struct {
	reason, message string
}

// policyDegradation returns what is wrong with the policy, while its Limiter enforces it. What is wrong with the Limiter or its Redis concerns
// thousands of policies and is in the status of the Limiter alone. Without heartbeats, what the policy reported about its identifiers stays.
func policyDegradation(s *LimiterState, p selection.Policy, reported v1alpha1.PolicyLimiterStatus) degradation {
	switch {
	case s.RuleSet.Unreadable != "" && s.RuleSet.Kept[p.Key()]:
		return targetsUnreadable(s.RuleSet.Unreadable)
	case s.Delivery.HasHeartbeats():
		return crowded(s.Delivery.Crowded[p.Name])
	default:
		return reportedCrowding(reported)
	}
}

// reportedCrowding returns what a status reports about the identifiers of its policy.
func reportedCrowding(reported v1alpha1.PolicyLimiterStatus) degradation {
	c := meta.FindStatusCondition(reported.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Reason != v1alpha1.ReasonIdentifierOverflow && c.Reason != v1alpha1.ReasonManyIdentifiers {
		return degradation{}
	}
	return degradation{c.Reason, c.Message}
}

// targetsUnreadable describes a policy that keeps its previous rule, because the operator cannot read its targets.
func targetsUnreadable(reason string) degradation {
	return degradation{v1alpha1.ReasonTargetsUnreadable, "the policy keeps the rule and the routes that were compiled last, because the operator cannot " +
		"read the objects of the Gateway API: " + reason}
}

// crowded describes a policy whose new identifiers get no counter of their own, or soon will not. The messages have no numbers that change:
// each change writes the status.
func crowded(is limiter.Crowding) degradation {
	const shared = "new identifiers share one counter, or are denied, as spec.identifiers.overflow of the Limiter states"
	switch is {
	case limiter.OverMemory:
		return degradation{v1alpha1.ReasonIdentifierOverflow, "Redis is nearly full, and counters of this policy take much of it: " + shared}
	case limiter.OverMaximum:
		return degradation{v1alpha1.ReasonIdentifierOverflow, "the policy has reached spec.identifiers.max of the Limiter: " + shared}
	case limiter.NearMemory:
		return degradation{v1alpha1.ReasonManyIdentifiers, "Redis fills up, and counters of this policy take much of it: when Redis is nearly full, " +
			"new identifiers get no counter of their own"}
	case limiter.NearMaximum:
		return degradation{v1alpha1.ReasonManyIdentifiers, "the policy has 80 % of the counters that spec.identifiers.max of the Limiter permits: " +
			"beyond it, new identifiers get no counter of their own"}
	default:
		return degradation{}
	}
}

// limiterDegradation returns the most severe problem of a Limiter, and whether the snapshot, which then matters, is not written.
// The error is that of its selectors, and leftOut is what the table of routes does not have.
func limiterDegradation(d publish.Delivery, invalidSelector error, leftOut, snapshot string) degradation {
	problem := degradationOf(d, invalidSelector, leftOut)
	if snapshot == "" {
		return problem
	}
	message := "the snapshot of the rules is not written, so limiters that start while Redis is unavailable do not have these rules: " + snapshot
	if problem.reason == "" {
		return degradation{v1alpha1.ReasonSnapshotNotWritten, message}
	}
	problem.message += "; " + message
	return problem
}

func degradationOf(d publish.Delivery, invalidSelector error, leftOut string) degradation {
	switch {
	case d.Unavailable():
		return degradation{d.Outage.Reason, fmt.Sprintf("Redis cannot be used%s: %s", since(d.Outage.Since), d.Outage.Message)}
	case d.Rejected != "":
		return degradation{v1alpha1.ReasonRulesRejected, d.Rejected}
	case invalidSelector != nil:
		return degradation{v1alpha1.ReasonInvalidSelector, invalidSelector.Error()}
	case d.Local.Replicas > 0:
		const message = "%d of %d replicas in local mode%s: check their connections to Redis"
		return degradation{v1alpha1.ReasonLocalMode, fmt.Sprintf(message, d.Local.Replicas, d.Serving(), since(d.Local.Since))}
	case d.Silent.Lasting:
		const message = "%d of %d replicas are ready and send no heartbeats: check their connections to Redis. They decide locally if they cannot reach it"
		return degradation{v1alpha1.ReasonLocalMode, fmt.Sprintf(message, d.Silent.Replicas, d.Serving())}
	case leftOut != "":
		return degradation{v1alpha1.ReasonRouteTableIncomplete, leftOut}
	case len(d.Redis.Warnings) > 0:
		return degradation{v1alpha1.ReasonStoreEvicts, strings.Join(d.Redis.Warnings, "; ")}
	case len(d.Redis.WrongClocks) > 0:
		return degradation{v1alpha1.ReasonStoreClockWrong, strings.Join(d.Redis.WrongClocks, "; ")}
	default:
		return degradation{}
	}
}

// since returns for example " since 2026-11-21T10:00:00Z"; it is empty if the time is unknown.
func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + t.UTC().Format(time.RFC3339)
}
