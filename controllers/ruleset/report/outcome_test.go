package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
)

var edge = types.NamespacedName{Namespace: "weir-system", Name: "edge"}

// policyOf returns the RateLimitPolicy shop/daily in a generation.
func policyOf(generation int64) selection.Policy {
	p := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "daily", UID: "daily", Generation: generation}}
	return selection.Policy{Object: p, Name: "shop/daily", Status: &p.Status}
}

// stateOf returns the state of a Limiter that has selected the first generation of shop/daily, with its rule r1.
func stateOf(d publish.Delivery) *LimiterState {
	return &LimiterState{
		Limiter: edge, Considered: map[types.UID]int64{"daily": 1}, Delivery: d,
		RuleSet: &selection.RuleSet{
			Limiter: selection.LimiterVersion{UID: "edge"}, Policies: map[types.UID]int64{"daily": 1},
			Rules:      map[string]selection.Rule{"shop/daily": {Policy: "shop/daily", Revision: "r1"}},
			Problems:   map[selection.Key][]compile.Problem{},
			Overridden: map[string]selection.Overridden{"shop/daily": {Reason: "StricterPolicy", Message: "m"}},
		},
	}
}

// serving returns replicas, of which the first have the rule r1.
func serving(all, enforcing int) (replicas []publish.ServingReplica) {
	for i := range all {
		r := publish.ServingReplica{Rules: map[string]string{"shop/daily": "r0"}}
		if i < enforcing {
			r.Rules = map[string]string{"shop/daily": "r1"}
		}
		replicas = append(replicas, r)
	}
	return replicas
}

// reportedAs returns what the status of the policy reports about a Limiter.
func reportedAs(limiter types.NamespacedName, revision string, status metav1.ConditionStatus) []v1alpha1.PolicyLimiterStatus {
	return []v1alpha1.PolicyLimiterStatus{
		{Namespace: "weir-system", Name: "other"},
		{Namespace: limiter.Namespace, Name: limiter.Name, Revision: revision, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Status: status}}},
	}
}

func TestOutcomeOf_IsEnforcedIfEveryReplicaHasTheRule(t *testing.T) {
	down := publish.Outage{Reason: "StoreUnreachable", Message: "refused", Since: time.Unix(1_800_000_000, 0)}
	enforced := reportedAs(edge, "r1", metav1.ConditionTrue)
	for name, test := range map[string]struct {
		generation             int64
		d                      publish.Delivery
		reported               []v1alpha1.PolicyLimiterStatus
		enforced               bool
		acknowledged, replicas int32
	}{
		"no replica":                             {1, publish.Delivery{}, nil, false, 0, 0},
		"one is silent, and all before":          {1, publish.Delivery{Replicas: serving(2, 2), AtLeast: 3, Silent: publish.Silent{Replicas: 1}}, enforced, true, 2, 3},
		"one is silent, and not all before":      {1, publish.Delivery{Replicas: serving(2, 2), AtLeast: 3, Silent: publish.Silent{Replicas: 1}}, nil, false, 2, 3},
		"one is silent, and another is behind":   {1, publish.Delivery{Replicas: serving(2, 1), AtLeast: 3, Silent: publish.Silent{Replicas: 1}}, enforced, false, 1, 3},
		"one is silent, and another is new":      {1, publish.Delivery{Replicas: serving(2, 2), AtLeast: 4, Silent: publish.Silent{Replicas: 1}}, enforced, false, 2, 4},
		"one is silent, edited since":            {2, publish.Delivery{Replicas: serving(2, 2), AtLeast: 3, Silent: publish.Silent{Replicas: 1}}, enforced, false, 0, 3},
		"all replicas":                           {1, publish.Delivery{Replicas: serving(2, 2)}, nil, true, 2, 2},
		"one of two":                             {1, publish.Delivery{Replicas: serving(2, 1)}, nil, false, 1, 2},
		"one without a heartbeat":                {1, publish.Delivery{Replicas: serving(2, 2), AtLeast: 3}, nil, false, 2, 3},
		"one of two, and both before":            {1, publish.Delivery{Replicas: serving(2, 1)}, enforced, false, 1, 2},
		"the rule of an earlier generation":      {2, publish.Delivery{Replicas: serving(2, 2)}, nil, false, 0, 2},
		"an outage, enforced before":             {1, publish.Delivery{Outage: down}, enforced, true, 0, 0},
		"an outage, edited since":                {2, publish.Delivery{Outage: down}, enforced, false, 0, 0},
		"an outage, another rule before":         {1, publish.Delivery{Outage: down}, reportedAs(edge, "r0", metav1.ConditionTrue), false, 0, 0},
		"an outage, not enforced before":         {1, publish.Delivery{Outage: down}, reportedAs(edge, "r1", metav1.ConditionFalse), false, 0, 0},
		"an outage, enforced by another Limiter": {1, publish.Delivery{Outage: down}, reportedAs(types.NamespacedName{Name: "edge"}, "r1", metav1.ConditionTrue), false, 0, 0},
		"a restart, enforced before":             {1, publish.Delivery{Connecting: true}, enforced, true, 0, 0},
		"a restart, nothing before":              {1, publish.Delivery{Connecting: true}, nil, false, 0, 0},
	} {
		o := outcomeOf(stateOf(test.d), policyOf(test.generation), test.reported)
		if o.enforced != test.enforced || o.acknowledged != test.acknowledged || o.replicas != test.replicas {
			t.Errorf("%s: enforced %v by %d of %d; want %v by %d of %d", name, o.enforced, o.acknowledged, o.replicas, test.enforced, test.acknowledged, test.replicas)
		}
		if o.rule == nil || o.rule.Revision != "r1" || o.limiter != edge || o.overridden.Message != "m" || o.connecting != test.d.Connecting || o.unavailable != test.d.Outage.Message {
			t.Errorf("%s: %+v", name, o)
		}
		if o.degradation != (degradation{}) {
			t.Errorf("%s: degradation %+v", name, o.degradation)
		}
	}
}

// In an outage, the heartbeats are the last ones known, and the status reports what replicas enforced before.
func TestOutcomeOf_IsNotEnforcedInAnOutageWithoutReadyPods(t *testing.T) {
	down := publish.Outage{Reason: "StoreUnreachable", Message: "refused", Since: time.Unix(1_800_000_000, 0)}
	enforced := reportedAs(edge, "r1", metav1.ConditionTrue)
	for name, test := range map[string]struct {
		d        publish.Delivery
		enforced bool
	}{
		"heartbeats before the outage":     {publish.Delivery{Replicas: serving(2, 2), AtLeast: 2, Outage: down}, false},
		"no heartbeats":                    {publish.Delivery{Outage: down}, false},
		"a restart":                        {publish.Delivery{Connecting: true}, false},
		"no outage: the heartbeats decide": {publish.Delivery{Replicas: serving(2, 2)}, true},
	} {
		s := stateOf(test.d)
		if o := outcomeOf(s, policyOf(1), enforced); !o.enforced {
			t.Errorf("%s, with ready pods: not enforced", name)
		}
		s.NoReadyPods = true
		o := outcomeOf(s, policyOf(1), enforced)
		if o.enforced != test.enforced || !test.enforced && (o.acknowledged != 0 || o.replicas != 0) {
			t.Errorf("%s: enforced %v by %d of %d; want %v", name, o.enforced, o.acknowledged, o.replicas, test.enforced)
		}
	}
}

func TestNoReadyPods_NeedsPodsThatAreCounted(t *testing.T) {
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	for name, test := range map[string]struct {
		status v1alpha1.LimiterStatus
		want   bool
	}{
		"pods are not counted":        {v1alpha1.LimiterStatus{}, false},
		"no pod of one is ready":      {v1alpha1.LimiterStatus{Replicas: 1}, true},
		"one pod of two is ready":     {v1alpha1.LimiterStatus{Replicas: 2, ReadyReplicas: 1}, false},
		"scaled to zero":              {v1alpha1.LimiterStatus{Conditions: ready}, true},
		"all pods are ready":          {v1alpha1.LimiterStatus{Replicas: 2, ReadyReplicas: 2, Conditions: ready}, false},
		"only ready pods are counted": {v1alpha1.LimiterStatus{ReadyReplicas: 2}, false},
	} {
		if got := NoReadyPods(&v1alpha1.Limiter{Status: test.status}); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestOutcomeOf_HasNoRuleForAPolicyThatDoesNotCompile(t *testing.T) {
	problems := []compile.Problem{{Field: "spec.limit", Message: "bad"}}
	missing, both := stateOf(publish.Delivery{Replicas: serving(1, 1)}), stateOf(publish.Delivery{Replicas: serving(1, 1)})
	delete(missing.RuleSet.Rules, "shop/daily")
	both.RuleSet.Problems[selection.Key{Name: "shop/daily"}] = problems
	for name, s := range map[string]*LimiterState{"no rule": missing, "a problem, and the rule of another policy of the same name": both} {
		if o := outcomeOf(s, policyOf(1), nil); o.rule != nil || o.enforced || o.limiter != edge || len(o.problems) != len(s.RuleSet.Problems) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// Other Limiters can have room for the policy: it is not a problem of the policy itself.
func TestOutcomeOf_SeparatesTheBudgetFromProblems(t *testing.T) {
	for reason, overBudget := range map[string]string{v1alpha1.ReasonOverBudget: "spec: full", v1alpha1.ReasonInvalid: ""} {
		s := stateOf(publish.Delivery{Replicas: serving(1, 1)})
		s.RuleSet.Problems[selection.Key{Name: "shop/daily"}] = []compile.Problem{{Field: "spec", Reason: reason, Message: "full"}}
		if o := outcomeOf(s, policyOf(1), nil); o.overBudget != overBudget || (len(o.problems) == 0) != (overBudget != "") || o.rule != nil {
			t.Errorf("%s: %+v", reason, o)
		}
	}
}

func TestOutcomeOf_ReportsTargetsThatCannotBeRead(t *testing.T) {
	const unreadable = "cannot read the objects of the Gateway API: forbidden"
	outage := publish.Outage{Reason: "StoreUnreachable", Message: "refused", Since: time.Unix(1_800_000_000, 0)}
	for name, test := range map[string]struct {
		unreadable     string
		kept           bool
		outage         publish.Outage
		reason, suffix string
	}{
		"nothing":                      {"", false, publish.Outage{}, "", ""},
		"the objects are being listed": {"", true, publish.Outage{}, "", ""},
		"a policy without targets":     {"forbidden", false, publish.Outage{}, "", ""},
		"the policy keeps its rule":    {"forbidden", true, publish.Outage{}, "TargetsUnreadable", unreadable},
		"an outage of Redis":           {"forbidden", true, outage, "TargetsUnreadable", unreadable},
	} {
		s := stateOf(publish.Delivery{Replicas: serving(1, 1), Outage: test.outage})
		s.RuleSet.Unreadable, s.RuleSet.Kept = test.unreadable, map[selection.Key]bool{{Name: "shop/daily"}: test.kept}
		if o := outcomeOf(s, policyOf(1), nil); o.degradation.reason != test.reason || !strings.HasSuffix(o.degradation.message, test.suffix) {
			t.Errorf("%s: %+v, want %s", name, o.degradation, test.reason)
		}
	}
}

func TestNotAdmitted_ListsTheFirstLimiters(t *testing.T) {
	var states []LimiterState
	for i := range maxLimiters + 2 {
		states = append(states, LimiterState{
			Limiter: types.NamespacedName{Namespace: "weir", Name: fmt.Sprintf("l%d", i)}, NotAdmitted: map[types.UID]string{"daily": "limits no writes"},
		})
	}
	if got := notAdmitted(policyOf(1), states); strings.Count(got, "Limiter weir/") != maxLimiters || strings.Contains(got, "weir/l16") {
		t.Errorf("%s: want the first %d Limiters", got, maxLimiters)
	}
	if got := notAdmitted(policyOf(1), states[:1]); !strings.HasPrefix(got, "the policy limits no writes: Limiter weir/l0 limits no writes; use ") {
		t.Error(got)
	}
}

// While all replicas enforce a policy, their number is not part of its status: scaling writes nothing.
func TestUnchanged_ComparesWhatTheStatusDependsOn(t *testing.T) {
	rule := &selection.Rule{Revision: "r1"}
	pending := outcome{limiter: edge, rule: rule, acknowledged: 1, replicas: 2}
	enforced := outcome{limiter: edge, rule: rule, enforced: true, acknowledged: 2, replicas: 2}
	with := func(o outcome, change func(*outcome)) outcome { change(&o); return o }
	for name, test := range map[string]struct {
		before, after outcome
		unchanged     bool
	}{
		"the same":                      {pending, pending, true},
		"another replica enforces it":   {pending, with(pending, func(o *outcome) { o.acknowledged = 2 }), false},
		"another replica serves":        {pending, with(pending, func(o *outcome) { o.replicas = 3 }), false},
		"another message of the outage": {pending, with(pending, func(o *outcome) { o.unavailable = "refused" }), false},
		"the first attempt has ended":   {with(pending, func(o *outcome) { o.connecting = true }), pending, false},
		"enforced now":                  {pending, enforced, false},
		"scaled while enforced":         {enforced, with(enforced, func(o *outcome) { o.acknowledged, o.replicas = 9, 9 }), true},
		"an outage while enforced":      {enforced, with(enforced, func(o *outcome) { o.unavailable = "refused" }), false}, // Enforced does not change in it
		"decided a request":             {enforced, with(enforced, func(o *outcome) { o.decided = true }), false},
		"an older replica":              {enforced, with(enforced, func(o *outcome) { o.notReporting = true }), false},
		"degraded":                      {enforced, with(enforced, func(o *outcome) { o.degradation.reason = "ManyIdentifiers" }), false},
		"overridden":                    {enforced, with(enforced, func(o *outcome) { o.overridden.Reason = "x" }), false},
		"another rule":                  {enforced, with(enforced, func(o *outcome) { o.rule = &selection.Rule{Revision: "r2"} }), false},
		"another Limiter":               {enforced, with(enforced, func(o *outcome) { o.limiter.Name = "x" }), false},
		"invalid":                       {enforced, outcome{limiter: edge}, false},
		"another Limiter, both invalid": {outcome{limiter: edge}, outcome{}, false},
		"invalid, with another problem": {outcome{limiter: edge}, outcome{limiter: edge, unavailable: "x", replicas: 2}, true}, // the version of the policy counts
	} {
		if got := unchanged(summaries([]outcome{test.before}), []outcome{test.after}); got != test.unchanged {
			t.Errorf("%s: unchanged is %v, want %v", name, got, test.unchanged)
		}
	}
	if unchanged(summaries([]outcome{pending}), []outcome{pending, pending}) {
		t.Error("one more Limiter is no change")
	}
}

func TestLimiterStates_NotifyOfChangesOnly(t *testing.T) {
	states := NewLimiterStates()
	first := *stateOf(publish.Delivery{Replicas: serving(1, 1)})
	other := first
	other.Limiter = types.NamespacedName{Namespace: "apps", Name: "zone"}
	last := first
	last.Limiter.Name = "zone"
	notified := func(when string, want bool) {
		t.Helper()
		got := false
		select {
		case <-states.Changed():
			got = true
		default:
		}
		if got != want {
			t.Errorf("%s: notified %v, want %v", when, got, want)
		}
	}
	notified("at first", false)
	states.Set(last)
	states.Set(first)
	states.Set(other)
	notified("three new Limiters", true)
	notified("received once", false)
	states.Set(first)
	notified("nothing has changed", false)
	for name, change := range map[string]func(*LimiterState){
		"another delivery":               func(s *LimiterState) { s.Delivery.Connecting = true },
		"another rule set":               func(s *LimiterState) { s.RuleSet = stateOf(publish.Delivery{}).RuleSet },
		"no pod is ready":                func(s *LimiterState) { s.NoReadyPods = true },
		"another generation of a policy": func(s *LimiterState) { s.Considered = map[types.UID]int64{"daily": 2} },
	} {
		changed := first
		change(&changed)
		states.Set(changed)
		notified(name, true)
		states.Set(first)
		notified("back from "+name, true)
	}
	var names []string
	for _, s := range states.all() {
		names = append(names, s.Limiter.String())
	}
	if len(names) != 3 || names[0] != "apps/zone" || names[1] != "weir-system/edge" || names[2] != "weir-system/zone" {
		t.Errorf("states of %q", names)
	}
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "edge", UID: "edge", Generation: 1}}
	states.Set(UnknownSelection(limiter, first.Considered))
	notified("the selection is unknown", true)
	states.Set(UnknownSelection(limiter, first.Considered))
	notified("the selection is still unknown", false)
	limiter.Generation = 2
	states.Set(UnknownSelection(limiter, first.Considered))
	notified("the selection is unknown after an edit", true)
	states.Remove(first.Limiter)
	notified("removed", true)
	if n := len(states.all()); n != 2 {
		t.Errorf("%d states after one was removed", n)
	}
}
