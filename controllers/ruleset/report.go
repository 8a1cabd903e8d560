package ruleset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// fieldOwner owns what the controller writes.
const fieldOwner = client.FieldOwner("weir-operator")

// statusesPerRound bounds how many statuses are written before policies are looked at again: thousands of statuses,
// when an operator starts or Redis goes away, must not keep an edit from being published.
const statusesPerRound = 50

// reported remembers what each policy was told last.
type reported map[types.UID]told

// told is what a policy was told.
type told struct {
	// shown is the resource version of the policy that the cache showed then.
	shown string
	// news that the status is made of.
	news news
	// written, if not nil, is the status over which the cache does not show yet what was written.
	written *writtenStatus
}

type writtenStatus struct {
	version string // resource version that came of it
	status  v1alpha1.RateLimitPolicyStatus
}

// news is all that the status of a policy in one version depends on.
type news struct {
	revision               string // of the rule, empty for a policy that does not compile
	acknowledged, replicas int32
	unreachable            string
	degradation            degradation
	overridden             overridden
}

// unseen is what was written over the policy as the cache shows it, nil for nothing.
func (t told) unseen(p policy) *writtenStatus {
	if t.shown != p.GetResourceVersion() {
		return nil
	}
	return t.written
}

// errLater says that a status is to be written in another round.
var errLater = errors.New("enough statuses written in this round")

// report writes the status of every policy for which there is something new to say.
func (r *Reconciler) report(ctx context.Context, policies []policy, d delivery) (progress, error) {
	done := progress{programmed: len(d.replicas) > 0}
	now := r.Clock()
	after := make(reported, len(policies))
	budget := statusesPerRound
	var errs []error
	for _, p := range policies {
		o := r.outcome(p, d)
		if o.rule != nil && !o.programmed() {
			done.programmed = false
		}
		r.metrics.reached(p.name, o, now)
		before, known := r.reported[p.GetUID()]
		if known {
			after[p.GetUID()] = before
		}
		if known && before.shown == p.GetResourceVersion() && before.news == o.news() {
			continue
		}
		told, err := r.tell(ctx, p, before.unseen(p), o, now, &budget)
		switch {
		case err == nil:
			after[p.GetUID()] = told
		case errors.Is(err, errLater):
			done.unwritten = true
		case apierrors.IsConflict(err): // the cache has yet to show what the policy has become
			done.programmed = false
		case apierrors.IsNotFound(err): // it is gone, and needs none
		default:
			errs = append(errs, fmt.Errorf("write status of %s: %w", p.name, err))
		}
	}
	r.reported = after
	return done, errors.Join(errs...)
}

// tell writes the status that comes of o, out of the budget, unless the policy has it.
func (r *Reconciler) tell(ctx context.Context, p policy, unseen *writtenStatus, o outcome, now time.Time, budget *int) (told, error) {
	latest := writtenStatus{version: p.GetResourceVersion(), status: *p.status}
	if unseen != nil {
		latest = *unseen
	}
	stamp := metav1.NewTime(now).Rfc3339Copy() // in seconds, as the API keeps it
	status := statusOf(p.GetGeneration(), r.Limiter, o, latest.status.Conditions, stamp)
	if equality.Semantic.DeepEqual(latest.status, status) {
		return told{shown: p.GetResourceVersion(), news: o.news(), written: unseen}, nil
	}
	if *budget == 0 {
		return told{}, errLater
	}
	*budget--
	version, err := r.write(ctx, p, latest.version, status)
	if err != nil {
		return told{}, err
	}
	return told{shown: p.GetResourceVersion(), news: o.news(), written: &writtenStatus{version: version, status: status}}, nil
}

func (r *Reconciler) outcome(p policy, d delivery) outcome {
	if problems := r.compiled.problems[p.key()]; len(problems) > 0 {
		return outcome{problems: problems}
	}
	rule, ok := r.compiled.rules[p.name]
	if !ok {
		return outcome{}
	}
	return outcome{
		rule:         &rule,
		acknowledged: d.acknowledged(p.name, rule.revision),
		replicas:     int32(len(d.replicas)),
		unreachable:  d.unreachable,
		degradation:  d.degradation(),
		overridden:   r.compiled.overridden[p.name],
	}
}

// write applies the status over that version of the policy, as the only owner of its fields, and returns the version
// that it has then. It is a conflict if the policy has changed, or another has taken its name.
func (r *Reconciler) write(
	ctx context.Context, p policy, over string, status v1alpha1.RateLimitPolicyStatus,
) (version string, err error) {
	apply, written := p.apply(over, applyStatus(status))
	if err := r.Client.Status().Apply(ctx, apply, fieldOwner, client.ForceOwnership); err != nil {
		return "", err
	}
	return written(), nil
}

func applyStatus(status v1alpha1.RateLimitPolicyStatus) *v1alpha1ac.RateLimitPolicyStatusApplyConfiguration {
	apply := v1alpha1ac.RateLimitPolicyStatus().WithObservedGeneration(status.ObservedGeneration)
	for _, c := range status.Conditions {
		apply.WithConditions(metav1ac.Condition().
			WithType(c.Type).
			WithStatus(c.Status).
			WithReason(c.Reason).
			WithMessage(c.Message).
			WithObservedGeneration(c.ObservedGeneration).
			WithLastTransitionTime(c.LastTransitionTime))
	}
	for _, l := range status.Limiters {
		apply.WithLimiters(v1alpha1ac.LimiterStatus().
			WithNamespace(l.Namespace).
			WithName(l.Name).
			WithRevision(l.Revision).
			WithAcknowledged(l.Acknowledged).
			WithReplicas(l.Replicas))
	}
	if e := status.Effective; e != nil {
		apply.WithEffective(v1alpha1ac.EffectivePolicy().
			WithLimit(e.Limit).
			WithWindow(e.Window).
			WithKeyPattern(e.KeyPattern).
			WithScript(v1alpha1ac.ScriptReference().WithName(e.Script.Name).WithSHA(e.Script.SHA)))
	}
	return apply
}
