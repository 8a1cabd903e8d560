package report

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// After each step of a random history, a Reporter that reads all policies finds no status that the Reporter which has seen the history did not make.
func TestEvaluate_MissesNoChangedStatus(t *testing.T) {
	for seed := range uint64(20) {
		h := newHistory(seed)
		for step := range 150 {
			h.change()
			if missed := h.report(); len(missed) > 0 {
				t.Fatalf("seed %d, step %d: the statuses of %v are not current", seed, step, missed)
			}
		}
	}
}

// history has policies, and two Limiters that select them.
type history struct {
	random   *rand.Rand
	now      time.Time
	policies []v1alpha1.RateLimitPolicy
	states   []LimiterState
	reporter Reporter
	version  int
	cache    selection.Listed
	listed   map[types.UID]string // versions in the cache
}

func newHistory(seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1000, 0), reporter: Reporter{States: NewLimiterStates()}, listed: map[types.UID]string{}}
	for i := range 8 {
		p := v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: strconv.Itoa(i), UID: types.UID(strconv.Itoa(i)), Generation: 1, ResourceVersion: "1"}}
		if i == 7 {
			p.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{}}
		}
		h.policies = append(h.policies, p)
	}
	for i := range 2 {
		name := types.NamespacedName{Namespace: "weir", Name: strconv.Itoa(i)}
		h.states = append(h.states, LimiterState{Limiter: name, RuleSet: &selection.RuleSet{
			Limiter: selection.LimiterVersion{UID: types.UID("limiter-" + name.Name)}, Encoded: rules.Encoded{Revision: "0"}, Policies: map[types.UID]int64{}, Rules: map[string]selection.Rule{},
		}})
	}
	return h
}

// change changes a policy, or what a Limiter does with one.
func (h *history) change() {
	h.now = h.now.Add(time.Duration(h.random.IntN(25)) * time.Second)
	i, l := h.random.IntN(len(h.policies)), h.random.IntN(len(h.states))
	p, s := &h.policies[i], &h.states[l]
	name, key := "shop/"+p.Name, selection.Key{Name: "shop/" + p.Name}
	set := *s.RuleSet
	set.Policies, set.Rules, set.Problems = maps.Clone(set.Policies), maps.Clone(set.Rules), cloned(set.Problems)
	set.Overridden, set.Unmatched = cloned(set.Overridden), cloned(set.Unmatched)
	h.version++
	switch h.random.IntN(16) {
	case 14: // deleted, and another one created
		name := fmt.Sprintf("p%d", h.version)
		p.Name, p.UID, p.Generation, p.ResourceVersion = name, types.UID(name), 1, fmt.Sprintf("v.%d", h.version)
		p.Status = v1alpha1.RateLimitPolicyStatus{}
	case 15: // another object of the same name
		p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("%s.%d", p.Name, h.version)), fmt.Sprintf("v.%d", h.version)
	case 0:
		p.Generation++
		p.ResourceVersion = fmt.Sprintf("v.%d", h.version)
	case 1, 2, 3:
		set.Policies[p.UID] = p.Generation
		delete(set.Problems, key)
		set.Rules[name] = selection.Rule{Policy: name, Revision: fmt.Sprintf("sha256:%d", h.random.IntN(3))}
		set.Revision = strconv.Itoa(h.version)
	case 4:
		delete(set.Policies, p.UID)
		delete(set.Rules, name)
	case 5:
		set.Policies[p.UID] = p.Generation
		delete(set.Rules, name)
		set.Problems[key] = []compile.Problem{{Policy: name, Reason: v1alpha1.ReasonConflicted, Message: strconv.Itoa(h.random.IntN(3))}}
	case 6:
		set.Overridden[name] = selection.Overridden{Reason: v1alpha1.ReasonStricterPolicy, Message: strconv.Itoa(h.random.IntN(3))}
	case 7:
		set.Unmatched[key] = compile.Unmatched{Reason: v1alpha1.ReasonNoMatch, Message: strconv.Itoa(h.random.IntN(3))}
	case 8:
		s.Delivery.Replicas = slices.Clone(s.Delivery.Replicas)
		if replicas := s.Delivery.Replicas; len(replicas) > 0 { // one takes the newest rules
			replicas[h.random.IntN(len(replicas))] = publish.ServingReplica{Revision: s.RuleSet.Revision, Rules: s.RuleSet.RuleRevisions()}
		}
	case 9:
		s.Delivery.Replicas = append(slices.Clone(s.Delivery.Replicas), publish.ServingReplica{Revision: s.RuleSet.Revision, Rules: s.RuleSet.RuleRevisions()})
		if len(s.Delivery.Replicas) > 3 {
			s.Delivery.Replicas = nil
		}
	case 10:
		s.Delivery.Crowded = cloned(s.Delivery.Crowded)
		s.Delivery.Crowded[name] = []limiter.Crowding{"", limiter.OverMaximum, limiter.NearMemory}[h.random.IntN(3)]
	case 11:
		s.Delivery.Outage = publish.Outage{}
		if h.random.IntN(2) == 0 {
			s.Delivery.Outage = publish.Outage{Reason: v1alpha1.ReasonStoreUnreachable, Message: "refused"}
		}
	case 12:
		s.NotAdmitted = cloned(s.NotAdmitted)
		s.NotAdmitted[p.UID] = []string{"", "has no spec.kubernetesThrottle"}[h.random.IntN(2)]
	default:
		h.reporter.States.SetWebhooks(map[types.UID]Webhook{s.RuleSet.Limiter.UID: {Covers: map[types.UID]Coverage{"7": {h.random.Int64N(3), h.random.IntN(2) == 0}}}})
	}
	s.RuleSet = &set
	if h.random.IntN(4) > 0 { // the Limiter has considered every policy
		s.Considered = map[types.UID]int64{}
		for i := range h.policies {
			s.Considered[h.policies[i].UID] = h.policies[i].Generation
		}
	}
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// report makes and writes the statuses, except a few that fail. It returns the other policies whose status is then not current.
func (h *history) report() (missed []string) {
	h.evaluate(&h.reporter)
	failed := map[string]bool{}
	for _, pending := range h.reporter.pending.statuses {
		if h.random.IntN(5) == 0 {
			failed[pending.policy.GetName()] = true
			continue
		}
		i := slices.IndexFunc(h.policies, func(p v1alpha1.RateLimitPolicy) bool { return p.UID == pending.policy.GetUID() })
		h.version++
		p := &h.policies[i]
		pending.reported.written = &writtenStatus{version: fmt.Sprintf("v.%d", h.version), status: pending.status}
		h.reporter.reported[p.UID] = &pending.reported
		p.Status, p.ResourceVersion = pending.status, pending.reported.written.version
	}
	all := Reporter{States: h.reporter.States}
	h.evaluate(&all)
	for _, pending := range all.pending.statuses {
		if !failed[pending.policy.GetName()] {
			missed = append(missed, pending.policy.GetName())
		}
	}
	return missed
}

// list returns the policies as a cache does: one that has not changed since the last call is the same object.
func (h *history) list() stored.Policies {
	exist := map[types.UID]bool{}
	for i := range h.policies {
		p := h.policies[i]
		if exist[p.UID] = true; h.listed[p.UID] != p.ResourceVersion {
			h.listed[p.UID] = p.ResourceVersion
			h.cache.Set(&p)
		}
	}
	all, err := h.cache.ListPolicies(context.Background())
	if err != nil {
		panic(err)
	}
	for _, p := range all.Namespaced {
		if !exist[p.UID] {
			delete(h.listed, p.UID)
			h.cache.Remove(p)
		}
	}
	if all, err = h.cache.ListPolicies(context.Background()); err != nil {
		panic(err)
	}
	return all
}

func (h *history) evaluate(r *Reporter) {
	inputs := selection.Inputs{Policies: h.list()}
	r.pending = pendingStatuses{made: h.now}
	r.unselected.Compile(inputs, ruleSets(h.states))
	r.evaluate(inputs, slices.Clone(h.states))
}
