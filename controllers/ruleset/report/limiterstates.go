package report

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// LimiterState is the result of the last reconciliation of one Limiter. It is immutable.
type LimiterState struct {
	Limiter types.NamespacedName
	// Considered are the generations of all policies that the Limiter selected from.
	Considered map[types.UID]int64
	// RuleSet is compiled from the policies that it selected.
	RuleSet *selection.RuleSet
	// Delivery of the rule set.
	Delivery publish.Delivery
	// Counters is where the Limiter counts.
	Counters CounterSpace
	// NotAdmitted are the policies with match.kubernetes that the Limiter does not admit, and why. The reason completes "Limiter a/b ".
	NotAdmitted map[types.UID]string
	// NoReadyPods is true if no pod of the Limiter is ready: see [NoReadyPods].
	NoReadyPods bool
	// SelectionUnknown is true if the selectors of the Limiter are invalid and its active rule set cannot be read. The RuleSet is
	// then empty. Which policies the Limiter selected is in their statuses.
	SelectionUnknown bool
}

// CounterSpace is where a Limiter counts: its Redis, and its counter group. Limiters without a group have counters of their own.
type CounterSpace struct{ redis, group string }

// CountersOf returns where the Limiter counts.
func CountersOf(limiter *v1alpha1.Limiter) CounterSpace {
	spec := &limiter.Spec.Redis
	addresses := slices.Sorted(slices.Values(spec.Addresses))
	return CounterSpace{fmt.Sprint(addresses, spec.MasterName, spec.Database), limiter.Spec.CounterGroup}
}

// CountsSeparately names another Limiter that selects policies of this one and has the same Redis, without a common counter group. It is empty if there is
// no such Limiter.
func (l *LimiterStates) CountsSeparately(limiter types.NamespacedName) string {
	var own LimiterState
	states := l.all()
	for _, state := range states {
		if state.Limiter == limiter {
			own = state
		}
	}
	for _, other := range states {
		if other.Limiter == limiter || own.RuleSet == nil || other.Counters.redis != own.Counters.redis ||
			own.Counters.group != "" && other.Counters.group == own.Counters.group {
			continue
		}
		common := 0
		for policy := range own.RuleSet.Rules {
			if _, selects := other.RuleSet.Rules[policy]; selects {
				common++
			}
		}
		if common > 0 {
			return fmt.Sprintf("Limiter %s selects %d of the same policies and uses the same Redis, and each of the two Limiters admits the whole limit; "+
				"to admit it together, set the same spec.counterGroup in both; to separate the policies, use policySelector and policyNamespaceSelector",
				other.Limiter, common)
		}
	}
	return ""
}

// UnknownSelection returns the state of a Limiter whose selectors are invalid, and whose active rule set cannot be read.
func UnknownSelection(limiter *v1alpha1.Limiter, considered map[types.UID]int64) LimiterState {
	const message = "the selectors of the Limiter are invalid, and its active rule set cannot be read"
	return LimiterState{
		Limiter: client.ObjectKeyFromObject(limiter), Considered: considered,
		RuleSet:     &selection.RuleSet{Limiter: selection.VersionOf(limiter)},
		Delivery:    publish.Delivery{Outage: publish.Outage{Reason: v1alpha1.ReasonStoreUnreachable, Message: message}},
		NoReadyPods: NoReadyPods(limiter), SelectionUnknown: true,
	}
}

// NoReadyPods reports whether the Limiter has a Deployment whose pods are counted, and none of them is ready. Without a controller
// that counts pods, replicas are known by their heartbeats alone.
func NoReadyPods(limiter *v1alpha1.Limiter) bool {
	counted := limiter.Status.Replicas > 0 || meta.IsStatusConditionTrue(limiter.Status.Conditions, v1alpha1.ConditionReady)
	return counted && limiter.Status.ReadyReplicas == 0
}

// equal reports whether both states mean the same for every policy. Rule sets and generations that do not change keep their
// memory.
func (s *LimiterState) equal(other *LimiterState) bool {
	sameSelection := s.RuleSet == other.RuleSet ||
		s.SelectionUnknown && other.SelectionUnknown && s.RuleSet.Limiter == other.RuleSet.Limiter
	return sameSelection && s.Delivery.Equal(other.Delivery) && selection.EqualMaps(s.Considered, other.Considered) &&
		selection.EqualMaps(s.NotAdmitted, other.NotAdmitted) && s.NoReadyPods == other.NoReadyPods
}

// LimiterStates holds the states of all Limiters for the [Reporter]. It is safe for concurrent use.
type LimiterStates struct {
	changed chan struct{}

	mu       sync.Mutex
	states   map[types.NamespacedName]LimiterState
	webhooks map[types.UID]Webhook // by Limiter
}

// NewLimiterStates returns LimiterStates without any Limiter.
func NewLimiterStates() *LimiterStates {
	return &LimiterStates{
		changed: make(chan struct{}, 1), states: map[types.NamespacedName]LimiterState{}, webhooks: map[types.UID]Webhook{},
	}
}

// Set sets the state of a Limiter.
func (l *LimiterStates) Set(s LimiterState) {
	l.mu.Lock()
	before := l.states[s.Limiter]
	unchanged := s.equal(&before)
	l.states[s.Limiter] = s
	l.mu.Unlock()
	if !unchanged {
		l.notify()
	}
}

// Remove removes the state of a Limiter.
func (l *LimiterStates) Remove(limiter types.NamespacedName) {
	l.mu.Lock()
	delete(l.states, limiter)
	l.mu.Unlock()
	l.notify()
}

// Changed receives a value after a state has changed. Changes that were not received yet are one value.
func (l *LimiterStates) Changed() <-chan struct{} { return l.changed }

func (l *LimiterStates) notify() {
	select {
	case l.changed <- struct{}{}:
	default: // a change is pending already
	}
}

// all returns the states, sorted by namespace and name.
func (l *LimiterStates) all() []LimiterState {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]LimiterState, 0, len(l.states))
	for _, s := range l.states {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y LimiterState) int {
		return cmp.Or(cmp.Compare(x.Limiter.Namespace, y.Limiter.Namespace), cmp.Compare(x.Limiter.Name, y.Limiter.Name))
	})
	return all
}
