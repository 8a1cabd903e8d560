// Package report writes the statuses of policies and Limiters.
package report

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// policyOwner owns the status of policies.
const policyOwner = client.FieldOwner("weir-operator")

const (
	// StatusesPerRound bounds the statuses that are written before the states of the Limiters are read again. When an operator
	// starts or Redis fails, thousands of statuses change. They must not delay the status of a policy that is edited then.
	StatusesPerRound = 50
	// NextRound is the wait before the next round if there are more statuses to write.
	NextRound = time.Millisecond
	// ConflictRetry is the wait after a write conflict: until then the cache receives the newer version of the policy.
	ConflictRetry = 100 * time.Millisecond
	// interval is how often all statuses are verified while no Limiter changes: another client may have changed them.
	interval = time.Minute
)

// Reporter writes the status of every policy from the states of the Limiters that select it. It serves one call at a time.
type Reporter struct {
	// Client reads Limiters, policies and namespaces from a cache, and writes statuses.
	Client client.Client
	// Gateways reads the targets of policies; nil if they are unknown.
	Gateways selection.GatewayReader
	// Clock returns the current time.
	Clock func() time.Time
	// States of the Limiters.
	States *LimiterStates
	// Events records transitions; can be nil.
	Events *Events

	reported   map[types.UID]reportedPolicy
	unselected selection.Unselected
}

// reportedPolicy is the status of a policy that was written last.
type reportedPolicy struct {
	// over is the resource version of the policy in the cache at that time.
	over string
	// summaries of the outcomes that the status was made from.
	summaries []summary
	// late has since when Limiters are late; nil if the status lists all Limiters.
	late map[lateLimiter]time.Time
	// written is the status that was written over that version; nil if nothing was.
	written *writtenStatus
	// due is when the status changes without a change of the outcomes; zero if it does not.
	due time.Time
}

type writtenStatus struct {
	version string // resource version of the policy after the write
	status  v1alpha1.RateLimitPolicyStatus
}

// missing returns the status that was written and that the cache does not have yet; nil if the cache is up to date.
func (r reportedPolicy) missing(p selection.Policy) *writtenStatus {
	if r.over != p.GetResourceVersion() {
		return nil
	}
	return r.written
}

// latest returns the status that was written last, by the reporter or as the cache has it.
func (r reportedPolicy) latest(p selection.Policy) writtenStatus {
	if missing := r.missing(p); missing != nil {
		return *missing
	}
	return writtenStatus{version: p.GetResourceVersion(), status: *p.Status}
}

// untilDue returns how long to wait until the status changes with time, at most one interval.
func (r reportedPolicy) untilDue(now time.Time) time.Duration {
	if r.due.IsZero() {
		return interval
	}
	return min(interval, max(r.due.Sub(now), NextRound))
}

// errNextRound means that the status must be written in the next round.
var errNextRound = errors.New("the number of statuses for this round is reached")

// Reconcile writes the statuses that have changed. It writes nothing before every Limiter has a state.
func (r *Reporter) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	inputs, err := selection.Gather(ctx, r.Client, r.Gateways, false)
	if err != nil {
		return ctrl.Result{}, err
	}
	states, complete, err := r.states(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !complete { // the missing states arrive as changes
		return ctrl.Result{RequeueAfter: interval}, nil
	}
	policies := selection.List(inputs.Policies)
	r.unselected.Compile(inputs, policies, func(policy types.UID) bool { return selected(policy, states) })
	requeueAfter, err := r.report(ctx, policies, states)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: requeueAfter}, nil
}

// states returns the states of the Limiters that exist and are not being deleted. It is complete if every one has a state.
func (r *Reporter) states(ctx context.Context) (states []LimiterState, complete bool, err error) {
	var limiters v1alpha1.LimiterList
	if err := r.Client.List(ctx, &limiters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list Limiters: %w", err)
	}
	existing := map[types.NamespacedName]types.UID{}
	for i := range limiters.Items {
		if l := &limiters.Items[i]; l.DeletionTimestamp.IsZero() {
			existing[client.ObjectKeyFromObject(l)] = l.UID
		}
	}
	for _, s := range r.States.all() {
		if uid, ok := existing[s.Limiter]; ok && uid == s.RuleSet.Limiter.UID {
			states = append(states, s)
		}
	}
	return states, len(states) == len(existing), nil
}

func selected(policy types.UID, states []LimiterState) bool {
	for i := range states {
		if _, ok := states[i].RuleSet.Policies[policy]; ok {
			return true
		}
	}
	return false
}

// report writes the statuses that have changed, and returns when to call it again.
func (r *Reporter) report(ctx context.Context, policies []selection.Policy, states []LimiterState) (requeueAfter time.Duration, err error) {
	now := r.Clock()
	after := make(map[types.UID]reportedPolicy, len(policies))
	budget := StatusesPerRound
	requeueAfter = interval
	var errs []error
	for _, p := range policies {
		before, known := r.reported[p.GetUID()]
		if known {
			after[p.GetUID()] = before
		}
		outcomes, complete := r.outcomes(p, states, before.latest(p).status)
		if !complete { // the missing states arrive as changes
			continue
		}
		overdue := !before.due.IsZero() && !now.Before(before.due)
		if known && before.over == p.GetResourceVersion() && !overdue && unchanged(before.summaries, outcomes) {
			requeueAfter = min(requeueAfter, before.untilDue(now))
			continue
		}
		reported, err := r.reportPolicy(ctx, p, before, outcomes, now, &budget)
		switch {
		case err == nil:
			after[p.GetUID()] = reported
			requeueAfter = min(requeueAfter, reported.untilDue(now))
		case errors.Is(err, errNextRound):
			requeueAfter = NextRound
		case apierrors.IsConflict(err): // the policy was edited, and the cache does not have the edit yet
			requeueAfter = min(requeueAfter, ConflictRetry)
		case apierrors.IsNotFound(err): // the policy was deleted
		default:
			errs = append(errs, fmt.Errorf("write status of %s: %w", p.Name, err))
		}
	}
	r.reported = after
	r.Events.keep(func(policy types.UID) bool { _, exists := after[policy]; return exists })
	return requeueAfter, errors.Join(errs...)
}

// outcomes returns an outcome of the policy for each Limiter that selects it. If no Limiter selects it, there is one outcome
// without a Limiter. The outcomes are complete if every Limiter has considered the policy in its current generation.
func (r *Reporter) outcomes(
	p selection.Policy, states []LimiterState, reported v1alpha1.RateLimitPolicyStatus,
) (outcomes []outcome, complete bool) {
	for i := range states {
		s := &states[i]
		if generation, ok := s.Considered[p.GetUID()]; !ok || generation != p.GetGeneration() {
			return nil, false
		}
		if o, selected := outcomeAt(s, p, reported); selected {
			if o.rule != nil {
				var known bool
				if o.webhook, known = r.States.webhookProblem(s.RuleSet.Limiter.UID, p); !known {
					return nil, false
				}
			}
			outcomes = append(outcomes, o)
		}
	}
	if len(outcomes) == 0 {
		outcomes = []outcome{{
			problems: r.unselected.Problems(p.Key()), targets: r.unselected.Targets(p.Key()), notAdmitted: notAdmitted(p, states),
		}}
	}
	return outcomes, true
}

// reportPolicy writes the status of the policy, unless it has that status. It takes the write from the budget.
func (r *Reporter) reportPolicy(
	ctx context.Context, p selection.Policy, before reportedPolicy, outcomes []outcome, now time.Time, budget *int,
) (reportedPolicy, error) {
	latest := before.latest(p)
	late := observeLate(outcomes, before.late, p.GetGeneration(), now)
	status, due := policyStatus(p.GetGeneration(), outcomes, latest.status, now)
	status.Ancestors = ancestors(p, outcomes, status, latest.status.Ancestors, now)
	reported := reportedPolicy{over: p.GetResourceVersion(), summaries: summaries(outcomes), written: before.missing(p), due: due, late: late}
	if equality.Semantic.DeepEqual(latest.status, status) {
		return reported, nil
	}
	if *budget == 0 {
		return reportedPolicy{}, errNextRound
	}
	*budget--
	version, err := r.write(ctx, p, latest.version, status)
	if err != nil {
		return reportedPolicy{}, err
	}
	reported.written = &writtenStatus{version: version, status: status}
	r.Events.record(p, latest.status, status)
	return reported, nil
}

// write applies the status over that version of the policy, and returns the version after the write. It fails with a conflict
// if the policy has changed, or another policy has its name now. The client decodes the response into the configuration that
// it sends.
func (r *Reporter) write(ctx context.Context, p selection.Policy, over string, status v1alpha1.RateLimitPolicyStatus) (version string, err error) {
	var apply runtime.ApplyConfiguration
	var written func() string
	if p.Cluster {
		a := v1alpha1ac.ClusterRateLimitPolicy(p.GetName()).WithResourceVersion(over).WithStatus(applyPolicyStatus(status))
		apply, written = a, func() string { return *a.ResourceVersion }
	} else {
		a := v1alpha1ac.RateLimitPolicy(p.GetName(), p.GetNamespace()).WithResourceVersion(over).WithStatus(applyPolicyStatus(status))
		apply, written = a, func() string { return *a.ResourceVersion }
	}
	if err := r.Client.Status().Apply(ctx, apply, policyOwner, client.ForceOwnership); err != nil {
		return "", err
	}
	return written(), nil
}
