// Package report writes the statuses of policies and Limiters.
package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
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
	// StatusesPerRound bounds the statuses that are written before changes are looked for. When an operator starts or thousands of policies
	// are created, they must not delay the status of a policy that is edited then.
	StatusesPerRound = 200
	// concurrentWrites is how many statuses are written at the same time: the API server needs milliseconds for each.
	concurrentWrites = 8
	// maxWait is how long a status waits to be written before it is made again from what is known then.
	maxWait = 5 * time.Second
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
	// Policies lists the policies that are not being deleted. If it is nil, the Client lists them.
	Policies selection.PolicyLister
	// Gateways reads the targets of policies; nil if they are unknown.
	Gateways selection.GatewayReader
	// Clock returns the current time.
	Clock func() time.Time
	// States of the Limiters.
	States *LimiterStates
	// Events records transitions; can be nil.
	Events *Events

	policies   followedPolicies
	reported   map[types.UID]*reportedPolicy
	evaluated  evaluatedStates
	unselected selection.Unselected
	changes    ChangeCounter
	pending    pendingStatuses
}

// Changed reports that there is something new to report.
func (r *Reporter) Changed() { r.changes.Add(r.Clock()) }

// pendingStatuses are those that the last rounds have not written yet.
type pendingStatuses struct {
	statuses []pendingStatus
	changes  uint64        // counted when they were made
	made     time.Time     // when they were made
	next     time.Duration // when statuses change without a change of objects, after they were made
}

// pendingStatus is a status to write.
type pendingStatus struct {
	policy   selection.Policy
	latest   writtenStatus
	reported reportedPolicy // without the write
	status   v1alpha1.RateLimitPolicyStatus
}

// isEdit reports whether the policy had a status of an earlier generation.
func (p pendingStatus) isEdit() bool {
	return p.latest.status.ObservedGeneration > 0 && p.latest.status.ObservedGeneration != p.policy.GetGeneration()
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
	// stale is true if the status must be made again: it was not written, or the outcomes were not complete.
	stale bool
}

// isSettled reports whether the status stays until the policy or its outcomes change. A nil reportedPolicy is not settled.
func (r *reportedPolicy) isSettled() bool { return r != nil && !r.stale && r.due.IsZero() }

// isCurrent reports whether the status of that version of the policy follows from outcomes that have not changed.
func (r *reportedPolicy) isCurrent(version string, now time.Time) bool {
	return !r.stale && r.over == version && (r.due.IsZero() || now.Before(r.due))
}

type writtenStatus struct {
	version string // resource version of the policy after the write
	status  v1alpha1.RateLimitPolicyStatus
}

// missing returns the status that was written and that the cache does not have yet; nil if the cache is up to date.
func (r *reportedPolicy) missing(p selection.Policy) *writtenStatus {
	if r.over != p.GetResourceVersion() {
		return nil
	}
	return r.written
}

// latest returns the status that was written last, by the reporter or as the cache has it.
func (r *reportedPolicy) latest(p selection.Policy) writtenStatus {
	if missing := r.missing(p); missing != nil {
		return *missing
	}
	return writtenStatus{version: p.GetResourceVersion(), status: *p.Status}
}

// untilDue returns how long to wait until the status changes with time, at most one interval.
func (r *reportedPolicy) untilDue(now time.Time) time.Duration {
	if r.due.IsZero() {
		return interval
	}
	return min(interval, max(r.due.Sub(now), NextRound))
}

// Reconcile writes the statuses that have changed, as many as fit in a round. It writes nothing before every Limiter has a state.
func (r *Reporter) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	changes, changed := r.changes.Since(r.pending.changes)
	if !changed && len(r.pending.statuses) > 0 && r.Clock().Sub(r.pending.made) < maxWait {
		return r.writeRound(ctx)
	}
	r.pending = pendingStatuses{changes: changes, made: r.Clock()}
	inputs, err := selection.Gather(ctx, selection.Reader{Reader: r.Client, Policies: r.Policies, Gateways: r.Gateways}, false)
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
	r.unselected.Compile(inputs, ruleSets(states))
	r.evaluate(inputs, states)
	return r.writeRound(ctx)
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

func ruleSets(states []LimiterState) []*selection.RuleSet {
	all := make([]*selection.RuleSet, len(states))
	for i := range states {
		all[i] = states[i].RuleSet
	}
	return all
}

// evaluate makes the statuses that are to be written, those of edited policies first. It looks at those policies that have changed, or whose state at
// a Limiter has, and at those whose statuses are not settled.
func (r *Reporter) evaluate(inputs selection.Inputs, states []LimiterState) {
	now := r.pending.made
	if r.reported == nil {
		r.reported = map[types.UID]*reportedPolicy{}
	}
	r.policies.replace(inputs.Policies, func(deleted types.UID) {
		delete(r.reported, deleted)
		r.Events.forget(deleted)
	})
	changed := r.evaluated.replace(states, r.States.allWebhooks(), &r.unselected)
	r.pending.next = interval
	for uid, p := range r.policies.toEvaluate(&changed) {
		before := r.reported[uid]
		if before != nil && before.isCurrent(p.ResourceVersion, now) && !changed.has(p.Key(), uid) {
			r.pending.next = min(r.pending.next, before.untilDue(now))
		} else {
			r.evaluatePolicy(p.Policy(), before, states)
		}
		r.policies.setSettled(uid, r.reported[uid].isSettled())
	}
	slices.SortStableFunc(r.pending.statuses, func(a, b pendingStatus) int {
		switch {
		case a.isEdit() == b.isEdit():
			return 0
		case a.isEdit():
			return -1
		default:
			return 1
		}
	})
}

// evaluatePolicy makes the status of a policy. The argument before has the last one; nil without one.
func (r *Reporter) evaluatePolicy(p selection.Policy, before *reportedPolicy, states []LimiterState) {
	now := r.pending.made
	known := before != nil
	if !known {
		before = &reportedPolicy{}
	}
	before.stale = true // until the status has been made, and written
	latest := before.latest(p)
	outcomes, complete := r.outcomes(p, states, latest.status)
	if !complete { // the missing states arrive as changes
		return
	}
	overdue := !before.due.IsZero() && !now.Before(before.due)
	if known && before.over == p.GetResourceVersion() && !overdue && unchanged(before.summaries, outcomes) {
		before.stale = false
		r.pending.next = min(r.pending.next, before.untilDue(now))
		return
	}
	late := observeLate(outcomes, before.late, p.GetGeneration(), now)
	status, due := policyStatus(p.GetGeneration(), outcomes, latest.status, now)
	status.Ancestors = ancestors(p, outcomes, status, latest.status.Ancestors, now)
	reported := reportedPolicy{
		over: p.GetResourceVersion(), summaries: summaries(outcomes), written: before.missing(p), due: due, late: late,
	}
	r.pending.next = min(r.pending.next, reported.untilDue(now))
	if equality.Semantic.DeepEqual(latest.status, status) {
		r.reported[p.GetUID()] = &reported
	} else {
		r.pending.statuses = append(r.pending.statuses, pendingStatus{p, latest, reported, status})
	}
}

// writeRound writes the first pending statuses. A status that could not be written is made again.
func (r *Reporter) writeRound(ctx context.Context) (ctrl.Result, error) {
	round := r.pending.statuses[:min(len(r.pending.statuses), StatusesPerRound)]
	r.pending.statuses = r.pending.statuses[len(round):]
	versions, failed := make([]string, len(round)), make([]error, len(round))
	var group errgroup.Group
	group.SetLimit(concurrentWrites)
	for i, p := range round {
		group.Go(func() error {
			versions[i], failed[i] = r.write(ctx, p.policy, p.latest.version, p.status)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	var errs []error
	for i, p := range round {
		switch err := failed[i]; {
		case err == nil:
			p.reported.written = &writtenStatus{version: versions[i], status: p.status}
			r.reported[p.policy.GetUID()] = &p.reported
			r.Events.record(p.policy, p.latest.status, p.status)
		case apierrors.IsConflict(err): // the policy was edited, and the cache does not have the edit yet
			r.pending.next = min(r.pending.next, ConflictRetry)
		case apierrors.IsNotFound(err): // the policy was deleted
		default:
			r.pending.next = min(r.pending.next, ConflictRetry) // after the rounds that remain
			errs = append(errs, fmt.Errorf("write status of %s: %w", p.policy.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	if len(r.pending.statuses) > 0 {
		return ctrl.Result{RequeueAfter: NextRound}, nil
	}
	return ctrl.Result{RequeueAfter: r.pending.next}, nil
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
