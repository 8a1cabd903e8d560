package ruleset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/conditions"
)

// fieldOwner owns what the controller writes.
const fieldOwner = client.FieldOwner("weir-operator")

// statusesPerRound bounds how many statuses are written before the standings are looked at again: thousands of statuses,
// when an operator starts or Redis goes away, must not keep one from being told what is new.
const statusesPerRound = 50

// patrol is how often all statuses are looked at when there is no news: for what others have written into them.
const patrol = time.Minute

// Reporter writes into the status of every policy what has become of it with the Limiters that select it. It serves one
// call at a time.
type Reporter struct {
	Config

	board      *board
	reported   reported
	unselected unselected
}

func newReporter(config Config, b *board) *Reporter { return &Reporter{Config: config, board: b} }

// reported remembers what each policy was told last.
type reported map[types.UID]told

// told is what a policy was told.
type told struct {
	// shown is the resource version of the policy that the cache showed then.
	shown string
	// news that the status is made of.
	news []news
	// written, if not nil, is the status over which the cache does not show yet what was written.
	written *writtenStatus
}

type writtenStatus struct {
	version string // resource version that came of it
	status  v1alpha1.RateLimitPolicyStatus
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

// Reconcile writes the status of every policy for which there is something new to say, if every Limiter has been heard.
func (r *Reporter) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	gathered, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	standings, all, err := r.standings(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !all { // whose standing will be news
		return ctrl.Result{RequeueAfter: patrol}, nil
	}
	policies := each(gathered.Policies)
	r.unselected.compile(gathered, policies, standings)
	again, err := r.report(ctx, policies, standings)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// standings are those of the Limiters that are there and stay, and whether those are all.
func (r *Reporter) standings(ctx context.Context) (standings []standing, all bool, err error) {
	var limiters v1alpha1.LimiterList
	if err := r.Client.List(ctx, &limiters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list Limiters: %w", err)
	}
	wanted := map[types.NamespacedName]types.UID{}
	for i := range limiters.Items {
		if l := &limiters.Items[i]; l.DeletionTimestamp.IsZero() {
			wanted[client.ObjectKeyFromObject(l)] = l.UID
		}
	}
	for _, s := range r.board.all() {
		if uid, is := wanted[s.limiter]; is && uid == s.compiled.limiter.uid {
			standings = append(standings, s)
		}
	}
	return standings, len(standings) == len(wanted), nil
}

// report writes statuses and says when to look again.
func (r *Reporter) report(ctx context.Context, policies []policy, standings []standing) (again time.Duration, err error) {
	now := r.Clock()
	after := make(reported, len(policies))
	budget := statusesPerRound
	again = patrol
	var errs []error
	for _, p := range policies {
		before, known := r.reported[p.GetUID()]
		if known {
			after[p.GetUID()] = before
		}
		outcomes, heard := r.outcomes(p, standings)
		if !heard { // some Limiter has not chosen yet: its standing will be news
			continue
		}
		if known && before.shown == p.GetResourceVersion() && sameNews(before.news, outcomes) {
			continue
		}
		told, err := r.tell(ctx, p, before.unseen(p), outcomes, now, &budget)
		switch {
		case err == nil:
			after[p.GetUID()] = told
		case errors.Is(err, errLater):
			again = atOnce
		case apierrors.IsConflict(err): // the cache has yet to show what the policy has become
			again = min(again, firstLook)
		case apierrors.IsNotFound(err): // it is gone, and needs none
		default:
			errs = append(errs, fmt.Errorf("write status of %s: %w", p.name, err))
		}
	}
	r.reported = after
	return again, errors.Join(errs...)
}

// outcomes are what has become of the policy, one for each Limiter that selects it, or one if none does. They are not
// heard until every Limiter has chosen from the policy as it is.
func (r *Reporter) outcomes(p policy, standings []standing) (outcomes []outcome, heard bool) {
	for i := range standings {
		s := &standings[i]
		if generation, is := s.considered[p.GetUID()]; !is || generation != p.GetGeneration() {
			return nil, false
		}
		if _, selected := s.compiled.input[p.GetUID()]; selected {
			outcomes = append(outcomes, s.outcome(p))
		}
	}
	if len(outcomes) == 0 {
		outcomes = []outcome{{problems: r.unselected.problems[p.key()]}}
	}
	return outcomes, true
}

// tell writes the status that comes of the outcomes, out of the budget, unless the policy has it.
func (r *Reporter) tell(
	ctx context.Context, p policy, unseen *writtenStatus, outcomes []outcome, now time.Time, budget *int,
) (told, error) {
	latest := writtenStatus{version: p.GetResourceVersion(), status: *p.status}
	if unseen != nil {
		latest = *unseen
	}
	stamp := metav1.NewTime(now).Rfc3339Copy() // in seconds, as the API keeps it
	status := statusOf(p.GetGeneration(), outcomes, latest.status.Conditions, stamp)
	if equality.Semantic.DeepEqual(latest.status, status) {
		return told{shown: p.GetResourceVersion(), news: newsOf(outcomes), written: unseen}, nil
	}
	if *budget == 0 {
		return told{}, errLater
	}
	*budget--
	version, err := r.write(ctx, p, latest.version, status)
	if err != nil {
		return told{}, err
	}
	return told{shown: p.GetResourceVersion(), news: newsOf(outcomes), written: &writtenStatus{version: version, status: status}}, nil
}

// outcome is what has become of a policy that the Limiter selects.
func (s *standing) outcome(p policy) outcome {
	o := outcome{limiter: s.limiter, problems: s.compiled.problems[p.key()]}
	if rule, ok := s.compiled.rules[p.name]; ok && len(o.problems) == 0 {
		o.rule = &rule
		o.replicas = s.delivery.alive()
		if s.compiled.input[p.GetUID()] == p.GetGeneration() { // a rule set that is held may be of an earlier one
			o.acknowledged = s.delivery.acknowledged(p.name, rule.revision)
		}
		o.unreachable, o.degradation = s.delivery.unreachable, s.delivery.degradation()
		o.overridden = s.compiled.overridden[p.name]
	}
	return o
}

// newsOf is what the status says anew when it changes.
func newsOf(outcomes []outcome) []news {
	all := make([]news, len(outcomes))
	for i := range outcomes {
		all[i] = outcomes[i].news()
	}
	return all
}

func sameNews(before []news, outcomes []outcome) bool {
	return slices.EqualFunc(before, outcomes, func(n news, o outcome) bool { return n == o.news() })
}

// write applies the status over that version of the policy, as the only owner of its fields, and returns the version
// that it has then. It is a conflict if the policy has changed, or another has taken its name.
func (r *Reporter) write(
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
	apply.WithConditions(conditions.Apply(status.Conditions)...)
	for _, l := range status.Limiters {
		apply.WithLimiters(v1alpha1ac.PolicyLimiterStatus().
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
