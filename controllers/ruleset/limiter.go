package ruleset

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

// limiterReconciler reconciles one Limiter.
type limiterReconciler struct {
	Config

	name     types.NamespacedName
	states   *report.LimiterStates
	metrics  *metrics
	changes  *report.ChangeCounter
	compiler selection.Compiler

	mu sync.Mutex // guards the fields below
	// stopped is the UID of a Limiter that is being deleted: nothing is published for it.
	stopped types.UID
	// latest is the Limiter as it was last reconciled; nil after its rules are removed from Redis.
	latest *v1alpha1.Limiter
	// deleted is when the Limiter was found to be deleted.
	deleted time.Time

	selected   selected
	batched    time.Duration // until the changes are selected that follow each other; 0 if nothing waits
	ruleSet    *selection.RuleSet
	edits      edits
	publisher  publish.Publisher
	publishing publishing
	snapshot   publish.Snapshot
	status     report.LimiterReporter
	resync     resyncInterval
}

// selected describes the last selection.
type selected struct {
	changes         uint64 // counted before it
	limiter         selection.LimiterVersion
	at              time.Time
	listed          stored.Policies      // all policies
	considered      map[types.UID]int64  // their generations
	notAdmitted     map[types.UID]string // see stored.Policies.NotAdmitted
	invalidSelector error
}

func newLimiterReconciler(
	c Config, name types.NamespacedName, states *report.LimiterStates, m *metrics, changes *report.ChangeCounter, wait time.Duration,
) *limiterReconciler {
	sequence := &publish.Sequence{Clock: c.Clock}
	return &limiterReconciler{
		Config:  c,
		name:    name,
		states:  states,
		metrics: m,
		changes: changes,
		compiler: selection.Compiler{
			KeyPrefix: c.KeyPrefix, HashKey: c.HashKey, Memo: new(selection.Memo), Encoder: new(rules.Encoder),
		},
		publisher:  publish.Publisher{Open: c.Open, Resync: c.Resync, Clock: c.Clock, Sequence: sequence},
		publishing: publishing{wait: wait, latest: publish.Delivery{Connecting: true}},
		snapshot: publish.Snapshot{
			Client: c.Client, Uncached: c.Uncached, Limiter: name, Resync: c.Resync, Clock: c.Clock, Sequence: sequence, Confirm: c.Confirm,
		},
		status: report.LimiterReporter{Client: c.Client, Clock: c.Clock},
	}
}

// reconcile selects and compiles the policies, publishes the rule set, and reports the result.
func (l *limiterReconciler) reconcile(ctx context.Context, limiter *v1alpha1.Limiter) (ctrl.Result, error) {
	if err := l.selectPolicies(ctx, limiter); err != nil {
		return ctrl.Result{}, err
	}
	l.setState(limiter) // the status of a policy that this Limiter does not select must not wait for its Redis
	published := l.publishing.publish(ctx, &l.publisher, limiter, l.ruleSet)
	if latest := l.publishing.latest; published && latest.WantsWhole != l.compiler.Whole {
		l.compiler.Whole = latest.WantsWhole
		if err := l.selectPolicies(ctx, limiter); err != nil {
			return ctrl.Result{}, err
		}
		published = l.publishing.publish(ctx, &l.publisher, limiter, l.ruleSet)
	}
	l.setState(limiter)
	delivery := l.publishing.latest
	saveAfter := l.snapshot.Save(ctx, limiter, l.ruleSet, !delivery.Unavailable() && !delivery.Connecting)
	if delivery.Connecting {
		return ctrl.Result{RequeueAfter: l.publishing.wait}, nil
	}
	l.metrics.observeDelivery(l.edits, l.ruleSet, delivery, l.Clock())
	problems := report.Problems{
		InvalidSelector: l.selected.invalidSelector, Snapshot: l.snapshot.Problem(), Separate: l.states.CountsSeparately(l.name),
	}
	if err := l.status.Report(ctx, limiter, l.ruleSet, delivery, problems); err != nil {
		return ctrl.Result{}, err
	}
	if !published {
		return ctrl.Result{RequeueAfter: l.publishing.wait}, nil
	}
	after := l.resync.next(l.ruleSet, delivery, l.Resync)
	for _, wait := range []time.Duration{saveAfter, l.batched} {
		if wait > 0 {
			after = min(after, wait)
		}
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// setState makes the selection and the latest delivery available to the reporter of policies.
func (l *limiterReconciler) setState(limiter *v1alpha1.Limiter) {
	l.states.Set(report.LimiterState{
		Limiter: l.name, Considered: l.selected.considered, RuleSet: l.ruleSet, Delivery: l.publishing.latest,
		Counters: report.CountersOf(limiter), NotAdmitted: l.selected.notAdmitted, NoReadyPods: report.NoReadyPods(limiter),
	})
}

// gatherInterval is how often the policies are read when no watch reports a change.
const gatherInterval = time.Minute

// batchInterval is the least time between two selections while changes follow each other closely. A single change does not wait.
const batchInterval = 200 * time.Millisecond // see canFollow

// followInterval is how long a single change waits until the heartbeats are read again: replicas may enforce the rule set before it by then.
const followInterval = 20 * time.Millisecond

// selectPolicies compiles the rule set of the policies that the Limiter selects, unless nothing has changed.
func (l *limiterReconciler) selectPolicies(ctx context.Context, limiter *v1alpha1.Limiter) error {
	changes, changed := l.changes.Since(l.selected.changes)
	version, now := selection.VersionOf(limiter), l.Clock()
	isEncoded := l.ruleSet != nil && l.ruleSet.Whole == l.compiler.Whole
	if isEncoded && l.selected.limiter == version {
		if !changed && now.Sub(l.selected.at) < gatherInterval {
			return nil
		}
		if wait := l.selected.at.Add(batchInterval).Sub(now); wait > 0 && l.changes.AreMany(l.selected.changes) && !l.canFollow(ctx) {
			if l.batched = wait; l.changes.IsOne(l.selected.changes) {
				l.batched = min(wait, followInterval)
			}
			return nil
		}
	}
	l.batched = 0
	inputs, err := selection.Gather(ctx, l.reader(), selection.HasRouteTable(limiter))
	if err != nil {
		return err
	}
	policies, invalidSelector := inputs.SelectedBy(&limiter.Spec)
	if invalidSelector == nil && inputs.Unreadable() && (policies.HaveTargets() || selection.HasRouteTable(limiter)) {
		if err := l.addPrevious(ctx, limiter, inputs.Gateways); err != nil {
			return err
		}
	}
	if invalidSelector == nil {
		l.setRuleSet(l.ruleSet, l.compiler.Compile(l.ruleSet, limiter, policies, inputs.Hashes))
	} else if err := l.keepPrevious(ctx, limiter, inputs); err != nil {
		// The statuses of policies in other Limiters must not wait until the rule set can be read.
		l.states.Set(report.UnknownSelection(limiter, l.consider(inputs.Policies)))
		return err
	}
	notAdmitted, _ := inputs.NotAdmitted(&limiter.Spec) // fails as SelectedBy does
	l.selected = selected{
		notAdmitted: notAdmitted,
		changes:     changes, limiter: version, at: now, listed: inputs.Policies, considered: l.consider(inputs.Policies), invalidSelector: invalidSelector,
	}
	return nil
}

// consider returns the generations of the policies.
func (l *limiterReconciler) consider(listed stored.Policies) map[types.UID]int64 {
	return selection.Generations(l.selected.listed, listed, l.selected.considered)
}

// canFollow reports whether a rule set can be published before the batch interval ends: the replicas enforce the one before, and one change has followed it,
// so that who edits policies one after the other, and waits for the effect, does not wait longer. Who does not wait makes several changes meanwhile, however
// fast the replicas are. Without valid selectors, no rule set follows.
func (l *limiterReconciler) canFollow(ctx context.Context) bool {
	return l.selected.invalidSelector != nil ||
		l.changes.IsOne(l.selected.changes) && l.publishing.call == nil && l.publisher.IsEnforced(ctx, l.ruleSet)
}

// keepPrevious keeps the active rule set of a Limiter whose selectors are invalid. A Limiter without a rule set selects no
// policies.
func (l *limiterReconciler) keepPrevious(ctx context.Context, limiter *v1alpha1.Limiter, inputs selection.Inputs) error {
	before := l.ruleSet
	if before != nil && before.Limiter.UID == limiter.UID {
		kept, err := l.compiler.Encode(before.KeepPrevious(selection.List(inputs.Policies)))
		if err != nil {
			return fmt.Errorf("encode the active rule set %s: %w", before.Revision, err)
		}
		l.setRuleSet(before, kept)
		return nil
	}
	data, err := l.activeRuleSet(ctx, limiter)
	if err != nil {
		return fmt.Errorf("read the active rule set %s: %w", limiter.Status.Revision, err)
	}
	if data == nil {
		l.setRuleSet(before, l.compiler.Compile(before, limiter, stored.Policies{}, inputs.Hashes))
		return nil
	}
	restored, err := l.compiler.Restore(limiter, inputs, data, limiter.Status.Revision)
	if err != nil {
		return fmt.Errorf("decode the active rule set %s: %w", limiter.Status.Revision, err)
	}
	l.setRuleSet(nil, restored)
	return nil
}

// activeRuleSet returns the rule set with the revision in the Limiter's status, from the snapshot or from Redis. It returns nil
// if the status has no revision, or neither has the rule set.
func (l *limiterReconciler) activeRuleSet(ctx context.Context, limiter *v1alpha1.Limiter) ([]byte, error) {
	revision := limiter.Status.Revision
	if revision == "" {
		return nil, nil
	}
	data, err := l.snapshot.Load(ctx, revision)
	if err != nil || data != nil {
		return data, err
	}
	l.publishing.finish()
	return l.publisher.Load(ctx, limiter, revision)
}

func (l *limiterReconciler) setRuleSet(before, after *selection.RuleSet) {
	if before == after {
		return
	}
	l.ruleSet = after
	l.edits = l.metrics.observeRuleSet(l.name, l.edits, before, after, l.Clock())
}
