package report

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
)

// outcome is the state of one policy at one Limiter that selects it.
type outcome struct {
	limiter  types.NamespacedName // empty for a policy that no Limiter selects
	rule     *selection.Rule      // nil if the policy does not compile or is not selected
	problems []compile.Problem
	targets  []gateway.Target // of a valid policy with targets
	// overBudget describes why the policy exceeds the budget of the Limiter; empty if it does not.
	overBudget string
	// enforced reports whether every replica that serves, of at least one, enforces the policy. While the operator cannot use
	// Redis, it reports whether they did when the operator last could, and is false without ready pods.
	enforced               bool
	acknowledged, replicas int32
	lateSince              time.Time // see observeLate; zero if it is unknown
	allSilent              bool      // replicas serve, and the operator does not receive heartbeats of any of them
	decided                bool      // a replica reports a request that it decided under the rule
	notReporting           bool      // some replicas do not report such requests
	rejected               string    // which replica rejects the published rules, and why; empty if all accept them
	connecting             bool      // the operator has not finished the first attempt to publish
	unavailable            string    // why Redis is unavailable; empty if it is available
	degradation            degradation
	overridden             selection.Overridden
	webhook                string            // why API servers do not call the Limiter for the policy; empty if they do, or need not
	unmatched              compile.Unmatched // why no request can match the rule; the zero value if some may
	notAdmitted            string            // why no Limiter admits the policy; empty if one selects it, or if the selectors do not match it
}

// outcomeAt returns the state of the policy at the Limiter, and whether the Limiter selects the policy.
func outcomeAt(s *LimiterState, p selection.Policy, reported v1alpha1.RateLimitPolicyStatus) (o outcome, selected bool) {
	if s.SelectionUnknown {
		return outcomeOfUnknown(s, p, reported)
	}
	if _, selected := s.RuleSet.Policies[p.GetUID()]; selected {
		o := outcomeOf(s, p, reported.Limiters)
		if s.RuleSet.Kept[p.Key()] {
			o.unmatched = reportedUnmatched(reported)
		}
		return o, true
	}
	return outcome{}, false
}

// outcomeOfUnknown is outcomeAt for a Limiter whose selection is unknown. What the status reports is still true of replicas that
// enforce this generation.
func outcomeOfUnknown(s *LimiterState, p selection.Policy, reported v1alpha1.RateLimitPolicyStatus) (o outcome, selected bool) {
	before := entryOf(reported.Limiters, s.Limiter)
	if before.Revision == "" || reported.Effective == nil {
		return outcome{}, false
	}
	programmed := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionProgrammed)
	return outcome{
		limiter: s.Limiter,
		rule:    &selection.Rule{Policy: p.Name, Revision: before.Revision, Effective: *reported.Effective},
		enforced: !s.NoReadyPods && programmed != nil && programmed.Status == metav1.ConditionTrue &&
			programmed.ObservedGeneration == p.GetGeneration(),
		unavailable: s.Delivery.Outage.Message,
		degradation: reportedCrowding(before),
		unmatched:   reportedUnmatched(reported),
	}, true
}

// reportedUnmatched returns what the status reports about a policy that limits no request. It is still true while the operator cannot read what it
// depends on.
func reportedUnmatched(reported v1alpha1.RateLimitPolicyStatus) compile.Unmatched {
	ready := meta.FindStatusCondition(reported.Conditions, v1alpha1.ConditionReady)
	if ready == nil || !slices.Contains([]string{v1alpha1.ReasonNoRoutes, v1alpha1.ReasonNoNamespaces, v1alpha1.ReasonNoMatch}, ready.Reason) {
		return compile.Unmatched{}
	}
	return compile.Unmatched{Reason: ready.Reason, Message: ready.Message}
}

// outcomeOf returns the state of a policy that the Limiter selects. The reported statuses are those of the policy before.
func outcomeOf(s *LimiterState, p selection.Policy, reported []v1alpha1.PolicyLimiterStatus) outcome {
	o := outcome{limiter: s.Limiter, problems: s.RuleSet.Problems[p.Key()], targets: s.RuleSet.Targets[p.Key()]}
	if len(o.problems) > 0 && o.problems[0].Reason == v1alpha1.ReasonOverBudget { // other Limiters can have another budget
		o.overBudget, o.problems = problemText(o.problems), nil
		return o
	}
	rule, ok := s.RuleSet.Rules[p.Name]
	if !ok || len(o.problems) > 0 {
		return o
	}
	o.rule = &rule
	o.replicas = s.Delivery.Serving()
	current := s.RuleSet.Policies[p.GetUID()] == p.GetGeneration() // a previous rule set can have the rule of an earlier generation
	if current {
		o.acknowledged = s.Delivery.Acknowledged(p.Name, rule.Revision)
		o.decided = s.Delivery.HasDecided(p.Name, rule.Revision)
	}
	o.enforced = o.replicas > 0 && o.acknowledged == o.replicas
	if silent := s.Delivery.Silent.Replicas; silent > 0 && o.acknowledged+silent == o.replicas && current && wasEnforced(reported, s.Limiter, rule.Revision) {
		o.enforced = true // a replica that sends no heartbeats keeps its rules
	}
	o.allSilent = !s.Delivery.HasHeartbeats()
	o.notReporting = s.Delivery.NotReporting
	o.connecting, o.unavailable, o.rejected = s.Delivery.Connecting, s.Delivery.Outage.Message, s.Delivery.Rejected
	if o.connecting || o.unavailable != "" { // the operator receives no heartbeats
		switch {
		case s.NoReadyPods:
			o.enforced, o.acknowledged, o.replicas = false, 0, 0 // the replicas that were known last do not serve any more
		case current && wasEnforced(reported, s.Limiter, rule.Revision):
			o.enforced = true // replicas do not lose rules when the operator loses Redis; new ones start from the snapshot
		}
	}
	o.degradation = policyDegradation(s, p, entryOf(reported, s.Limiter))
	o.overridden, o.unmatched = s.RuleSet.Overridden[p.Name], s.RuleSet.Unmatched[p.Key()]
	return o
}

// wasEnforced reports whether the status reports that the Limiter enforces this revision of the policy's rule.
func wasEnforced(reported []v1alpha1.PolicyLimiterStatus, limiter types.NamespacedName, revision string) bool {
	before := entryOf(reported, limiter)
	return before.Revision == revision && meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionProgrammed)
}

// entryOf returns the entry of the Limiter; the zero value if it has no entry.
func entryOf(reported []v1alpha1.PolicyLimiterStatus, limiter types.NamespacedName) v1alpha1.PolicyLimiterStatus {
	i := slices.IndexFunc(reported, func(l v1alpha1.PolicyLimiterStatus) bool {
		return l.Namespace == limiter.Namespace && l.Name == limiter.Name
	})
	if i < 0 {
		return v1alpha1.PolicyLimiterStatus{}
	}
	return reported[i]
}

// summary is everything in an outcome that the status of one version of a policy depends on.
type summary struct {
	limiter                types.NamespacedName
	revision               string // of the rule; empty if the policy does not compile
	problems               string
	enforced               bool
	decided, notReporting  bool
	hasHeartbeats          bool  // the operator receives heartbeats
	acknowledged, replicas int32 // zero if it is enforced: the status has numbers only while replicas are missing
	connecting             bool
	unavailable, rejected  string
	overBudget             string
	degradation            degradation
	overridden             string // everything of it
	webhook, notAdmitted   string
	unmatched              compile.Unmatched
	targets                string // reasons and messages
	matchedBy              v1alpha1.MatchedBy
}

// hasHeartbeats reports whether the operator receives the heartbeats of the Limiter.
func (o outcome) hasHeartbeats() bool { return !o.connecting && o.unavailable == "" && !o.allSilent }

func (o outcome) summary() summary {
	if o.rule == nil {
		return summary{
			limiter: o.limiter, problems: problemText(o.problems), overBudget: o.overBudget, notAdmitted: o.notAdmitted, targets: targetsText(o.targets),
		}
	}
	s := summary{
		targets: targetsText(o.targets),
		limiter: o.limiter, revision: o.rule.Revision, enforced: o.enforced, degradation: o.degradation,
		decided: o.decided, notReporting: o.notReporting, hasHeartbeats: o.hasHeartbeats(),
		webhook: o.webhook, matchedBy: o.rule.Effective.MatchedBy, unmatched: o.unmatched,
	}
	if o.overridden.Reason != "" {
		s.overridden = fmt.Sprint(o.overridden)
	}
	if !o.enforced {
		s.acknowledged, s.replicas, s.connecting = o.acknowledged, o.replicas, o.connecting
		s.unavailable, s.rejected = o.unavailable, o.rejected
	}
	return s
}

func summaries(outcomes []outcome) []summary {
	all := make([]summary, len(outcomes))
	for i := range outcomes {
		all[i] = outcomes[i].summary()
	}
	return all
}

// unchanged reports whether the outcomes have these summaries.
func unchanged(before []summary, outcomes []outcome) bool {
	return slices.EqualFunc(before, outcomes, func(s summary, o outcome) bool { return s == o.summary() })
}
