package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
)

// Flux, kpt and kubectl wait evaluate the conditions with kstatus.
func TestPolicyStatus_HasTheConditionsThatKstatusExpects(t *testing.T) {
	rule := &selection.Rule{Revision: "sha256:a"}
	many := degradation{v1alpha1.ReasonManyIdentifiers, "many"}
	tests := map[string]struct {
		outcome outcome
		want    string // conditions in order
		kstatus string
	}{
		"a policy that does not compile": {
			outcome{problems: []compile.Problem{{Field: "spec.window", Message: "no"}}},
			"Accepted=False/Invalid Programmed=False/Invalid Enforced=False/Invalid Ready=False/Invalid Stalled=True/Invalid", "Failed",
		},
		"a policy that does not compile while Redis is unavailable": {
			outcome{problems: []compile.Problem{{Field: "spec.window", Message: "no"}}, unavailable: "refused", degradation: many},
			"Accepted=False/Invalid Programmed=False/Invalid Enforced=False/Invalid Ready=False/Invalid Stalled=True/Invalid", "Failed",
		},
		"no replica serves": {
			outcome{rule: rule},
			"Accepted=True/Accepted Programmed=False/NoReplicas Enforced=Unknown/Pending Ready=False/NoReplicas Reconciling=True/NoReplicas", "InProgress",
		},
		"some replicas enforce it": {
			outcome{rule: rule, acknowledged: 1, replicas: 2},
			"Accepted=True/Accepted Programmed=False/Pending Enforced=Unknown/Pending Ready=False/Pending Reconciling=True/Pending", "InProgress",
		},
		"all replicas enforce it": {
			outcome{rule: rule, enforced: true},
			"Accepted=True/Accepted Programmed=True/Programmed Enforced=False/NoRequests Ready=True/Programmed", "Current",
		},
		"all replicas enforce it, and API servers do not call the Limiter": {
			outcome{rule: rule, enforced: true, webhook: "no pod is ready"},
			"Accepted=True/Accepted Programmed=False/NotRegistered Enforced=Unknown/Pending Ready=False/NotRegistered Reconciling=True/NotRegistered", "InProgress",
		},
		"all replicas enforce it, and it has no routes": {
			outcome{rule: rule, enforced: true, unmatched: compile.Unmatched{Reason: "NoRoutes", Message: "m"}},
			"Accepted=True/Accepted Programmed=True/Programmed Enforced=False/NoRoutes Ready=False/NoRoutes Reconciling=True/NoRoutes", "InProgress",
		},
		"all replicas enforce it, and its fields contradict each other": {
			outcome{rule: rule, enforced: true, unmatched: compile.Unmatched{Reason: "NoMatch", Message: "m"}},
			"Accepted=True/Accepted Programmed=True/Programmed Enforced=False/NoMatch Ready=False/NoMatch Stalled=True/NoMatch", "Failed",
		},
		"some replicas enforce it, and it has no routes": {
			outcome{rule: rule, acknowledged: 1, replicas: 2, unmatched: compile.Unmatched{Reason: "NoRoutes", Message: "m"}},
			"Accepted=True/Accepted Programmed=False/Pending Enforced=False/NoRoutes Ready=False/Pending Reconciling=True/Pending", "InProgress",
		},
		"no Limiter admits it": {
			outcome{notAdmitted: "Limiter a/b admits none"},
			"Accepted=True/Accepted Programmed=False/NotAdmitted Enforced=False/NotAdmitted Ready=False/NotAdmitted Reconciling=True/NotAdmitted", "InProgress",
		},
		"Redis unavailable to the operator, a policy that replicas enforce": {
			outcome{rule: rule, enforced: true, unavailable: "refused", degradation: many},
			"Accepted=True/Accepted Programmed=True/Programmed Enforced=Unknown/Pending Ready=True/Programmed Degraded=True/ManyIdentifiers", "Current",
		},
		"the operator has just started": {
			outcome{rule: rule, connecting: true},
			"Accepted=True/Accepted Programmed=False/Pending Enforced=Unknown/Pending Ready=False/Pending Reconciling=True/Pending", "InProgress",
		},
		"the operator has just started, a policy that replicas enforced": {
			outcome{rule: rule, connecting: true, enforced: true},
			"Accepted=True/Accepted Programmed=True/Programmed Enforced=Unknown/Pending Ready=True/Programmed", "Current",
		},
		"Redis unavailable, a policy that was edited": {
			outcome{rule: rule, acknowledged: 1, replicas: 2, unavailable: "refused", degradation: many},
			"Accepted=True/Accepted Programmed=False/StoreUnreachable Enforced=Unknown/Pending Ready=False/StoreUnreachable " +
				"Reconciling=True/StoreUnreachable Degraded=True/ManyIdentifiers", "InProgress",
		},
		"a replica in local mode": {
			outcome{rule: rule, enforced: true, degradation: many},
			"Accepted=True/Accepted Programmed=True/Programmed Enforced=False/NoRequests Ready=True/Programmed Degraded=True/ManyIdentifiers", "Current",
		},
		"a replica in local mode, another without the rule": {
			outcome{rule: rule, acknowledged: 1, replicas: 2, degradation: many},
			"Accepted=True/Accepted Programmed=False/Pending Enforced=Unknown/Pending Ready=False/Pending Reconciling=True/Pending Degraded=True/ManyIdentifiers", "InProgress",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			status, due := policyStatus(policy.Generation, []outcome{test.outcome}, v1alpha1.RateLimitPolicyStatus{}, time.Unix(1_800_000_000, 0))
			if !due.IsZero() {
				t.Errorf("the status of a policy of one Limiter changes with time, at %v", due)
			}
			var got []string
			for _, c := range status.Conditions {
				got = append(got, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
				if c.ObservedGeneration != 3 || c.LastTransitionTime.IsZero() || c.Message == "" {
					t.Errorf("condition %+v lacks generation, time or message", c)
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got := kstatus(policy.Generation, status); got != test.kstatus {
				t.Errorf("kstatus is %s, want %s", got, test.kstatus)
			}
			if got := kstatus(policy.Generation+1, status); got != "InProgress" {
				t.Errorf("kstatus after an edit is %s, want InProgress", got)
			}
		})
	}
	created := v1alpha1.RateLimitPolicyStatus{ObservedGeneration: -1} // the schema's default
	if got := kstatus(1, created); got != "InProgress" {
		t.Errorf("kstatus of a new policy is %s, want InProgress", got)
	}
}

// kstatus evaluates the conditions as sigs.k8s.io/cli-utils/pkg/kstatus does for custom resources, in the same order.
func kstatus(generation int64, status v1alpha1.RateLimitPolicyStatus) string {
	is := func(kind string) bool { return meta.IsStatusConditionTrue(status.Conditions, kind) }
	switch {
	case status.ObservedGeneration != generation, is("Reconciling"):
		return "InProgress"
	case is("Stalled"):
		return "Failed"
	case meta.FindStatusCondition(status.Conditions, "Ready") == nil, is("Ready"):
		return "Current"
	default:
		return "InProgress"
	}
}

func TestProblemText_ListsTheFirstProblems(t *testing.T) {
	problem := func(field string) compile.Problem { return compile.Problem{Field: field, Message: "bad"} }
	tests := map[string]struct {
		problems []compile.Problem
		want     string
	}{
		"one":                  {[]compile.Problem{problem("spec.limit")}, "spec.limit: bad"},
		"two":                  {[]compile.Problem{problem("a"), problem("b")}, "a: bad; b: bad"},
		"one without a field":  {[]compile.Problem{problem("")}, "bad"},
		"more than are listed": {[]compile.Problem{problem("a"), problem("b"), problem("c"), problem("d"), problem("e"), problem("f"), problem("g")}, "a: bad; b: bad; c: bad; d: bad; e: bad; and 2 more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := problemText(test.problems); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
