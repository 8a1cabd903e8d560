package report

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/conditions"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// limiterOwner owns the fields of a Limiter's status that describe its rules and its Redis. Another controller owns the rest.
const limiterOwner = client.FieldOwner("weir-ruleset")

// LimiterReporter writes the status of one Limiter. It serves one call at a time.
type LimiterReporter struct {
	// Client writes the status.
	Client client.Client
	// Clock returns the current time.
	Clock func() time.Time

	reported reportedLimiter
}

// reportedLimiter is the status that was written last.
type reportedLimiter struct {
	version string // resource version of the Limiter after the write
	status  v1alpha1.LimiterStatus
}

// Problems are the problems of a Limiter that its Delivery does not have.
type Problems struct {
	// InvalidSelector is the error of its selectors; nil if they are valid.
	InvalidSelector error
	// Snapshot describes why the snapshot is not written; empty if it is.
	Snapshot string
	// Separate describes a Limiter that does not share counters with this one; empty if all do.
	Separate string
}

// Report writes the status of the Limiter if it has changed.
func (r *LimiterReporter) Report(
	ctx context.Context, limiter *v1alpha1.Limiter, set *selection.RuleSet, d publish.Delivery, problems Problems,
) error {
	before := ownedStatus(limiter)
	if order, err := resourceversion.CompareResourceVersion(limiter.ResourceVersion, r.reported.version); err == nil && order < 0 {
		before = r.reported.status // the cache does not have the last write yet
	}
	after := limiterStatus(limiter.Generation, set, d, problems, before.Conditions, r.Clock())
	if d.Unavailable() && before.Revision == after.Revision { // the operator may have restarted since it knew the replicas
		after.EnforcingReplicas = before.EnforcingReplicas
	}
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	apply := applyLimiterStatus(limiter, after)
	err := r.Client.Status().Apply(ctx, apply, limiterOwner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of Limiter %s/%s: %w", limiter.Namespace, limiter.Name, err)
	}
	r.reported = reportedLimiter{status: after}
	if err == nil {
		r.reported.version = *apply.ResourceVersion // the client decodes the response into the configuration that it sends
	}
	return nil
}

// ownedStatus returns the fields of the status that this controller owns.
func ownedStatus(limiter *v1alpha1.Limiter) v1alpha1.LimiterStatus {
	status := limiter.Status
	owned := v1alpha1.LimiterStatus{
		Revision: status.Revision, EnforcingReplicas: status.EnforcingReplicas, LocalMode: status.LocalMode,
		Policies: status.Policies, Redis: status.Redis, Scripts: status.Scripts,
	}
	for _, kind := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionCountsSeparately} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			owned.Conditions = append(owned.Conditions, *c)
		}
	}
	return owned
}

// limiterStatus returns the new values of these fields. What is known of Redis stays while it is unavailable.
func limiterStatus(
	generation int64, set *selection.RuleSet, d publish.Delivery, problems Problems, before []metav1.Condition, now time.Time,
) v1alpha1.LimiterStatus {
	status := v1alpha1.LimiterStatus{
		Revision:          set.Revision,
		EnforcingReplicas: d.Enforcing(set),
		Policies:          &v1alpha1.PolicyCount{Accepted: int32(len(set.Rules)), Rejected: int32(len(set.Problems))},
		Redis:             &v1alpha1.RedisState{Reachable: !d.Unavailable(), Primaries: int32(d.Redis.Primaries), Version: d.Redis.Version},
	}
	if d.Unavailable() && !d.Outage.Since.IsZero() {
		status.Redis.UnreachableSince = new(metav1.NewTime(d.Outage.Since.Truncate(time.Second)))
	}
	if d.Local.Replicas > 0 {
		status.LocalMode = &v1alpha1.LocalModeState{Replicas: d.Local.Replicas}
		if !d.Local.Since.IsZero() {
			status.LocalMode.Since = new(metav1.NewTime(d.Local.Since.Truncate(time.Second)))
		}
	}
	for _, script := range d.Scripts {
		status.Scripts = append(status.Scripts, v1alpha1.LoadedScript{
			Name: script.Name, SHA: script.SHA, LoadedOn: int32(script.LoadedOn),
		})
	}
	degraded := limiterDegradation(d, selectorProblem(set, problems.InvalidSelector), set.LeftOut, problems.Snapshot)
	var wanted []metav1.Condition
	if degraded.reason != "" {
		wanted = append(wanted, condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, degraded.reason, degraded.message))
	}
	if problems.Separate != "" {
		wanted = append(wanted, condition(v1alpha1.ConditionCountsSeparately, metav1.ConditionTrue, v1alpha1.ReasonNoCounterGroup, problems.Separate))
	}
	if len(wanted) > 0 {
		status.Conditions = conditions.Merge(before, wanted, generation, now)
	}
	return status
}

// selectorProblem describes the effect of invalid selectors; it is nil if they are valid.
func selectorProblem(set *selection.RuleSet, invalidSelector error) error {
	switch {
	case invalidSelector == nil:
		return nil
	case len(set.Rules) == 0:
		return fmt.Errorf("no policies are selected until the selector is valid: %w", invalidSelector)
	default:
		return fmt.Errorf("the previous rule set stays active until the selector is valid: %w", invalidSelector)
	}
}

func applyLimiterStatus(limiter *v1alpha1.Limiter, s v1alpha1.LimiterStatus) *v1alpha1ac.LimiterApplyConfiguration {
	status := v1alpha1ac.LimiterStatus().
		WithRevision(s.Revision).
		WithPolicies(v1alpha1ac.PolicyCount().WithAccepted(s.Policies.Accepted).WithRejected(s.Policies.Rejected))
	if s.EnforcingReplicas != 0 {
		status.WithEnforcingReplicas(s.EnforcingReplicas)
	}
	if l := s.LocalMode; l != nil {
		local := v1alpha1ac.LocalModeState().WithReplicas(l.Replicas)
		local.Since = l.Since
		status.WithLocalMode(local)
	}
	redis := v1alpha1ac.RedisState().WithReachable(s.Redis.Reachable)
	redis.UnreachableSince = s.Redis.UnreachableSince
	if s.Redis.Primaries != 0 {
		redis.WithPrimaries(s.Redis.Primaries)
	}
	if s.Redis.Version != "" {
		redis.WithVersion(s.Redis.Version)
	}
	status.WithRedis(redis)
	for _, script := range s.Scripts {
		status.WithScripts(v1alpha1ac.LoadedScript().WithName(script.Name).WithSHA(script.SHA).WithLoadedOn(script.LoadedOn))
	}
	status.WithConditions(conditions.Apply(s.Conditions)...)
	return v1alpha1ac.Limiter(limiter.Name, limiter.Namespace).WithUID(limiter.UID).WithStatus(status)
}
