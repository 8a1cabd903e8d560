package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
)

// Two Limiters select the policy: default and staging.
func TestPolicyStatus_ReadyDependsOnTheLimitersThatCanEnforce(t *testing.T) {
	rule := &selection.Rule{Revision: "sha256:a"}
	of := func(name string, o outcome) outcome {
		o.limiter = types.NamespacedName{Namespace: "weir", Name: name}
		if o.overBudget == "" {
			o.rule = rule
		}
		return o
	}
	enforced := outcome{enforced: true}
	tests := map[string]struct {
		production, staging outcome
		programmed, ready   string // status, reason and message
		waits               bool
	}{
		"both enforce it": {
			enforced, enforced,
			"True Programmed all replicas of 2 Limiters enforce generation 4", "True Programmed all replicas of 2 Limiters enforce generation 4", false,
		},
		"no request can match it, and staging has no room": {
			outcome{enforced: true, unmatched: compile.Unmatched{Reason: "NoRoutes", Message: "no routes"}},
			outcome{overBudget: "spec: over"},
			"False OverBudget weir/staging: spec: over", "False NoRoutes no routes", false,
		},
		"requests can match it at staging": { // production keeps an earlier rule set
			outcome{enforced: true, unmatched: compile.Unmatched{Reason: "NoRoutes", Message: "no routes"}},
			enforced,
			"True Programmed all replicas of 2 Limiters enforce generation 4", "True Programmed all replicas of 2 Limiters enforce generation 4", false,
		},
		"staging has no replicas": {
			enforced,
			outcome{},
			"False NoReplicas weir/staging: no limiter replica is ready: check the pods of the Limiter",
			"True PartiallyProgrammed 1 of 2 Limiters enforce generation 4; not weir/staging: no limiter replica is ready: check the pods of the Limiter", false,
		},
		"the Redis of staging is unavailable": {
			enforced,
			outcome{replicas: 2, unavailable: "refused"},
			"False StoreUnreachable weir/staging: Redis cannot be used: refused",
			"True PartiallyProgrammed 1 of 2 Limiters enforce generation 4; not weir/staging: Redis cannot be used: refused", false,
		},
		"the budget of staging has no room": {
			enforced,
			outcome{overBudget: "spec: over"},
			"False OverBudget weir/staging: spec: over",
			"True PartiallyProgrammed 1 of 2 Limiters enforce generation 4; not weir/staging: spec: over", false,
		},
		"some replicas of staging are late": {
			enforced,
			outcome{replicas: 2, acknowledged: 1},
			"False Pending weir/staging: 1 of 2 replicas enforce generation 4", "False Pending weir/staging: 1 of 2 replicas enforce generation 4", true,
		},
		"a replica of staging rejects the rules": {
			enforced,
			outcome{replicas: 2, acknowledged: 1, rejected: "replica b rejects the rules: rule shop/x: bad"},
			"False Pending weir/staging: 1 of 2 replicas enforce generation 4; replica b rejects the rules: rule shop/x: bad",
			"False Pending weir/staging: 1 of 2 replicas enforce generation 4; replica b rejects the rules: rule shop/x: bad", true,
		},
		"all replicas of staging reject their first rules": {
			enforced,
			outcome{rejected: "replica b rejects the rules: rule shop/x: bad"},
			"False NoReplicas weir/staging: no limiter replica is ready: replica b rejects the rules: rule shop/x: bad",
			"True PartiallyProgrammed 1 of 2 Limiters enforce generation 4; " +
				"not weir/staging: no limiter replica is ready: replica b rejects the rules: rule shop/x: bad", false,
		},
		"the operator connects to the Redis of staging": {
			enforced,
			outcome{connecting: true},
			"False Pending weir/staging: the operator is connecting to Redis", "False Pending weir/staging: the operator is connecting to Redis", true,
		},
		"only staging enforces it, production is late": {
			outcome{replicas: 2},
			enforced,
			"False Pending weir/default: 0 of 2 replicas enforce generation 4", "False Pending weir/default: 0 of 2 replicas enforce generation 4", true,
		},
		"none enforces it": {
			outcome{replicas: 2, unavailable: "refused"},
			outcome{replicas: 2, acknowledged: 1},
			"False StoreUnreachable weir/default: Redis cannot be used: refused", "False StoreUnreachable weir/default: Redis cannot be used: refused", false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_800_000_000, 0)
			outcomes := []outcome{of("default", test.production), of("staging", test.staging)}
			status, due := policyStatus(4, outcomes, v1alpha1.RateLimitPolicyStatus{}, now)
			for kind, want := range map[string]string{v1alpha1.ConditionProgrammed: test.programmed, v1alpha1.ConditionReady: test.ready} {
				c := meta.FindStatusCondition(status.Conditions, kind)
				if got := string(c.Status) + " " + c.Reason + " " + c.Message; got != want {
					t.Errorf("%s: %s, want %s", kind, got, want)
				}
			}
			if ready := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady); ready == meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReconciling) {
				t.Errorf("Ready and Reconciling are both %v", ready)
			}
			if !test.waits {
				if !due.IsZero() {
					t.Errorf("the status changes at %v, want no change", due)
				}
				return
			}
			// A Limiter that makes no progress for a minute does not keep the policy from being ready.
			if want := now.Add(time.Minute); !due.Equal(want) {
				t.Fatalf("the status changes at %v, want %v", due, want)
			}
			before, _ := policyStatus(4, outcomes, status, due.Add(-time.Second))
			if meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionReady) {
				t.Error("Ready before the deadline")
			}
			after, _ := policyStatus(4, outcomes, status, due)
			if c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonPartiallyProgrammed {
				t.Errorf("Ready after the deadline: %+v", c)
			}
		})
	}
}

// Production has been late for two minutes when the policy is edited. Staging enforces the edit first.
func TestPolicyStatus_ReadyWaitsAgainAfterAnEdit(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	production := outcome{limiter: types.NamespacedName{Namespace: "weir", Name: "default"}, rule: &selection.Rule{Revision: "sha256:a"}, acknowledged: 2, replicas: 3}
	staging := outcome{limiter: types.NamespacedName{Namespace: "weir", Name: "staging"}, rule: production.rule, enforced: true}
	status, _ := policyStatus(1, []outcome{production, staging}, v1alpha1.RateLimitPolicyStatus{}, now)
	now = now.Add(2 * time.Minute)
	status, _ = policyStatus(1, []outcome{production, staging}, status, now)
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		t.Fatal("Ready waits for a Limiter that is late for two minutes")
	}
	production.acknowledged = 0
	deadline := now.Add(PendingDeadline)
	for round := 1; round <= 3; round++ {
		var due time.Time
		status, due = policyStatus(2, []outcome{production, staging}, status, now)
		if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) || !due.Equal(deadline) {
			t.Errorf("round %d after the edit: Ready is %v until %v, want False until %v",
				round, meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady), due, deadline)
		}
		now = now.Add(time.Second)
	}
	status, _ = policyStatus(2, []outcome{production, staging}, status, deadline)
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		t.Error("Ready still waits after the deadline")
	}
}

// The first Limiter cannot enforce the policy, the second is late for more than a minute, the third has just become late, and the last
// enforces it.
func TestPolicyStatus_ReadyWaitsForEachLimiterThatIsLate(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var outcomes []outcome
	for _, name := range []string{"empty", "stuck", "late", "enforcing"} {
		outcomes = append(outcomes, outcome{
			limiter: types.NamespacedName{Namespace: "weir", Name: name}, rule: &selection.Rule{Revision: "sha256:a"}, replicas: 2, acknowledged: 2, enforced: true,
		})
	}
	outcomes[0].enforced, outcomes[0].replicas, outcomes[0].acknowledged = false, 0, 0
	outcomes[1].enforced, outcomes[1].acknowledged = false, 1
	status, _ := policyStatus(1, outcomes, v1alpha1.RateLimitPolicyStatus{}, now)
	now = now.Add(time.Minute)
	outcomes[2].enforced, outcomes[2].acknowledged = false, 1
	status, due := policyStatus(1, outcomes, status, now)
	want := "weir/late: 1 of 2 replicas enforce generation 1"
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonPending || c.Message != want || !due.Equal(now.Add(time.Minute)) {
		t.Errorf("Ready: %+v until %v, want Pending: %s for a minute", c, due, want)
	}
}

// A policy that is invalid at one Limiter is listed for those that enforce it.
func TestPolicyStatus_ListsTheLimitersThatHaveARule(t *testing.T) {
	invalid := outcome{limiter: types.NamespacedName{Namespace: "weir", Name: "a"}}
	enforced := outcome{limiter: types.NamespacedName{Namespace: "weir", Name: "b"}, rule: &selection.Rule{Revision: "sha256:a"}, enforced: true}
	status, _ := policyStatus(1, []outcome{invalid, enforced}, v1alpha1.RateLimitPolicyStatus{}, time.Unix(1_800_000_000, 0))
	if len(status.Limiters) != 1 || status.Limiters[0].Name != "b" || status.Effective == nil {
		t.Errorf("lists %+v, effective %v; want the Limiter that has a rule", status.Limiters, status.Effective)
	}
}

// An edit that changes no rule does not change since when the Limiter enforces the policy.
func TestPolicyStatus_KeepsSinceWhenALimiterEnforcesThePolicy(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := outcome{limiter: edge, rule: &selection.Rule{Revision: "sha256:a"}, enforced: true}
	status, _ := policyStatus(1, []outcome{o}, v1alpha1.RateLimitPolicyStatus{}, now)
	status, _ = policyStatus(2, []outcome{o}, status, now.Add(time.Minute))
	if c := status.Limiters[0].Conditions[0]; !c.LastTransitionTime.Time.Equal(now) || c.ObservedGeneration != 2 {
		t.Errorf("%s=%s of generation %d since %v, want of generation 2 since %v", c.Type, c.Status, c.ObservedGeneration, c.LastTransitionTime, now)
	}
}

// A status lists 16 Limiters. Ready counts all of them: those that are late are listed, with the time since which they are.
func TestPolicyStatus_ReadyWaitsForEveryLimiter(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var outcomes []outcome
	for i := range maxLimiters + 3 {
		outcomes = append(outcomes, outcome{
			limiter: types.NamespacedName{Namespace: "weir", Name: fmt.Sprintf("l%02d", i)}, rule: &selection.Rule{Revision: "sha256:a"}, enforced: true,
		})
	}
	outcomes[3] = outcome{limiter: outcomes[3].limiter, overBudget: "spec: over"}
	var status v1alpha1.RateLimitPolicyStatus
	var late map[lateLimiter]time.Time
	report := func(when, ready, last string) {
		t.Helper()
		late = observeLate(outcomes, late, 1, now)
		status, _ = policyStatus(1, outcomes, status, now)
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); string(c.Status)+" "+c.Reason != ready {
			t.Errorf("%s: Ready is %s %s, want %s", when, c.Status, c.Reason, ready)
		}
		names := make([]string, len(status.Limiters))
		for i, l := range status.Limiters {
			names[i] = l.Name
		}
		if len(names) != maxLimiters || status.OmittedLimiters != 3 || !slices.IsSorted(names) || names[maxLimiters-1] != last || !slices.Contains(names, "l03") {
			t.Errorf("%s: the status lists %s and omits %d", when, names, status.OmittedLimiters)
		}
	}
	report("at first", "True PartiallyProgrammed", "l15")
	outcomes[18].enforced, outcomes[18].replicas = false, 1
	report("while the last one is late", "False Pending", "l18")
	now = now.Add(PendingDeadline - time.Second)
	report("before the deadline", "False Pending", "l18")
	now = now.Add(time.Second)
	report("after the deadline", "True PartiallyProgrammed", "l18")
}

// Ready waits for a Limiter that the status cannot list, because more than it lists are late already. A reporter calls it for each change.
func TestReporter_ReadyWaitsForTheLastOf20Limiters(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	outcomes := make([]outcome, 20)
	for i := range outcomes {
		outcomes[i] = outcome{
			limiter: types.NamespacedName{Namespace: "weir", Name: fmt.Sprintf("l%02d", i)}, rule: &selection.Rule{Revision: "sha256:a"}, replicas: 1,
			enforced: i == 0 || i > maxLimiters,
		}
	}
	var status v1alpha1.RateLimitPolicyStatus
	var late map[lateLimiter]time.Time
	report := func(when string, generation int64, want string, wantDue time.Duration) {
		t.Helper()
		late = observeLate(outcomes, late, generation, now)
		var due time.Time
		status, due = policyStatus(generation, outcomes, status, now)
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
		if got := string(c.Status) + " " + c.Message; !strings.HasPrefix(got, want) || due.IsZero() != (wantDue == 0) || wantDue > 0 && !due.Equal(now.Add(wantDue)) {
			t.Errorf("%s: Ready is %s until %v, want %s for %v", when, got, due, want, wantDue)
		}
		if status.OmittedLimiters != 4 || len(status.Limiters) != maxLimiters {
			t.Errorf("%s: the status lists %d Limiters and omits %d", when, len(status.Limiters), status.OmittedLimiters)
		}
	}
	report("16 are late", 1, "False weir/l01: 0 of 1 replicas", PendingDeadline)
	now = now.Add(PendingDeadline)
	report("they stay late", 1, "True 4 of 20 Limiters", 0)
	outcomes[19].enforced = false
	report("the last is late", 1, "False weir/l19: 0 of 1 replicas", PendingDeadline)
	now = now.Add(PendingDeadline - time.Second)
	report("before its deadline", 1, "False weir/l19: 0 of 1 replicas", time.Second)
	now = now.Add(time.Second)
	report("after its deadline", 1, "True 3 of 20 Limiters", 0)
	outcomes[1].enforced = true // now the status has room for the last
	report("it gets an entry", 1, "True 4 of 20 Limiters", 0)
	outcomes[1].enforced = false
	report("another is late again", 1, "False weir/l01", PendingDeadline)
	now = now.Add(PendingDeadline)
	report("an edit", 2, "False weir/l01", PendingDeadline)
	now = now.Add(PendingDeadline)
	report("all were late with it", 2, "True 3 of 20 Limiters", 0)
}

func TestPolicyStatus_HasNumbersOnlyWhileReplicasAreMissing(t *testing.T) {
	o := outcome{rule: &selection.Rule{Revision: "sha256:a"}, limiter: types.NamespacedName{Namespace: "weir", Name: "default"}, acknowledged: 1, replicas: 2}
	status, _ := policyStatus(1, []outcome{o}, v1alpha1.RateLimitPolicyStatus{}, time.Unix(1_800_000_000, 0))
	l := status.Limiters[0]
	if l.Acknowledged == nil || *l.Acknowledged != 1 || l.Replicas == nil || *l.Replicas != 2 || meta.IsStatusConditionTrue(l.Conditions, v1alpha1.ConditionProgrammed) {
		t.Errorf("entry of a Limiter with a missing replica: %+v", l)
	}
	o.acknowledged, o.enforced = 2, true
	status, _ = policyStatus(1, []outcome{o}, status, time.Unix(1_800_000_001, 0))
	l = status.Limiters[0]
	if l.Acknowledged != nil || l.Replicas != nil || !meta.IsStatusConditionTrue(l.Conditions, v1alpha1.ConditionProgrammed) {
		t.Errorf("entry of a Limiter that enforces the policy: %+v", l)
	}
}

// A condition that is false or unknown is written once for each reason, and once true it stays true for the generation: replicas that restart or are
// idle, and outages, must not rewrite the statuses of thousands of policies.
func TestPolicyStatus_IsEnforcedSinceARequestWasDecided(t *testing.T) {
	rule := &selection.Rule{Revision: "r1"}
	deployed := outcome{limiter: edge, rule: rule, enforced: true}
	with := func(o outcome, change func(*outcome)) outcome { change(&o); return o }
	decided := with(deployed, func(o *outcome) { o.decided = true })
	older := with(deployed, func(o *outcome) { o.notReporting = true })
	outage := with(deployed, func(o *outcome) { o.unavailable = "refused" })
	connecting := with(deployed, func(o *outcome) { o.connecting = true })
	pending := outcome{limiter: edge, rule: rule, acknowledged: 1, replicas: 2}
	other := with(deployed, func(o *outcome) { o.limiter.Name = "zone" })
	idle := with(deployed, func(o *outcome) { o.unmatched = compile.Unmatched{Reason: "NoRoutes", Message: "no routes"} })
	broken := outcome{limiter: edge, problems: []compile.Problem{{Field: "spec.window", Message: "no"}}}
	for name, steps := range map[string][]struct {
		generation int64
		outcomes   []outcome
		want       string // status, reason, and the beginning of the message
		since      int    // step of the transition
	}{
		"no request, and then one": {
			{1, []outcome{pending}, "Unknown/Pending the operator waits until all replicas of a Limiter have generation 1", 0},
			{1, []outcome{deployed}, "False/NoRequests no replica has decided a request under generation 1: send a request", 1},
			{1, []outcome{decided}, "True/RequestDecided a replica has decided a request under generation 1", 2},
			{1, []outcome{deployed}, "True/RequestDecided", 2}, // idle, with new replicas
			{1, []outcome{older}, "True/RequestDecided", 2},
			{1, []outcome{outage}, "True/RequestDecided", 2},
			{1, []outcome{connecting}, "True/RequestDecided", 2}, // the operator has restarted
			{1, []outcome{pending}, "True/RequestDecided", 2},
			{1, []outcome{idle}, "True/RequestDecided", 2},
			{2, []outcome{pending}, "Unknown/Pending", 9},
			{2, []outcome{deployed}, "False/NoRequests no replica has decided a request under generation 2", 10},
			{2, []outcome{decided}, "True/RequestDecided a replica has decided a request under generation 2", 11},
			{2, []outcome{{}}, "False/NotSelected no Limiter selects the policy", 12}, // the rule is gone
			{2, []outcome{deployed}, "False/NoRequests", 12},
		},
		"no request in an outage": {
			{1, []outcome{deployed}, "False/NoRequests", 0},
			{1, []outcome{outage}, "False/NoRequests", 0},
			{1, []outcome{connecting}, "False/NoRequests", 0},
			{1, []outcome{pending}, "False/NoRequests", 0},
			{2, []outcome{outage}, "Unknown/Pending", 4},
		},
		"replicas that do not report": {
			{1, []outcome{older}, "Unknown/NotReported some replicas are of an older version", 0},
			{1, []outcome{with(older, func(o *outcome) { o.decided = true })}, "True/RequestDecided", 1}, // a newer one has reported
		},
		"some replicas have it, and decide": {
			{1, []outcome{with(pending, func(o *outcome) { o.decided = true })}, "True/RequestDecided", 0},
		},
		"API servers do not call": {
			{1, []outcome{with(deployed, func(o *outcome) { o.webhook = "no pod is ready" })}, "Unknown/Pending", 0},
		},
		"two Limiters": {
			{1, []outcome{pending, other}, "False/NoRequests", 0},
			{1, []outcome{older, other}, "Unknown/NotReported", 1},
			{1, []outcome{deployed, with(other, func(o *outcome) { o.decided = true })}, "True/RequestDecided", 2},
		},
		"no request can match": {
			{1, []outcome{idle}, "False/NoRoutes no routes", 0},
			{1, []outcome{deployed}, "False/NoRequests", 0},
		},
		"an edit that does not compile": {
			{1, []outcome{decided}, "True/RequestDecided", 0},
			{2, []outcome{broken}, "False/Invalid not enforced: the policy is invalid", 1},
			{3, []outcome{decided}, "True/RequestDecided", 2},
		},
	} {
		var status v1alpha1.RateLimitPolicyStatus
		start := time.Unix(1_800_000_000, 0)
		for i, step := range steps {
			status, _ = policyStatus(step.generation, step.outcomes, status, start.Add(time.Duration(i)*time.Hour))
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEnforced)
			if got := fmt.Sprintf("%s/%s %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, step.want) {
				t.Errorf("%s, step %d: %s, want %s", name, i, got, step.want)
			}
			if want := start.Add(time.Duration(step.since) * time.Hour); !c.LastTransitionTime.Time.Equal(want) {
				t.Errorf("%s, step %d: since %v, want step %d", name, i, c.LastTransitionTime, step.since)
			}
		}
	}
}
