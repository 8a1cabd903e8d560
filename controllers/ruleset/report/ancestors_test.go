package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
)

func target(name, reason string) gateway.Target {
	return gateway.Target{Ref: routeRef(name), Reason: reason, Message: "message of " + name}
}

func idleTarget(name string) gateway.Target {
	t := target(name, v1alpha1.ReasonAccepted)
	t.Idle = true
	return t
}

func routeRef(name string) v1alpha1.TargetReference {
	return v1alpha1.TargetReference{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetHTTPRoute, Name: name}
}

func problem(reason string) []compile.Problem {
	return []compile.Problem{{Policy: "shop/daily", Field: "spec.targetRefs[0].name", Reason: reason, Message: "m"}}
}

func TestAncestors_ReportEachTarget(t *testing.T) {
	rule := &selection.Rule{Revision: "r1"}
	for name, test := range map[string]struct {
		outcomes []outcome
		want     []string // status, reason and message of the targets a and b
	}{
		"both accept": {
			[]outcome{{rule: rule, targets: []gateway.Target{target("a", "Accepted"), target("b", "Accepted")}}},
			[]string{"True Accepted message of a", "True Accepted message of b"},
		},
		"one is missing": {
			[]outcome{{rule: rule, targets: []gateway.Target{target("a", "TargetNotFound"), target("b", "Accepted")}}},
			[]string{"False TargetNotFound message of a", "True Accepted message of b"},
		},
		"one has no routes": {
			[]outcome{{rule: rule, targets: []gateway.Target{idleTarget("a"), target("b", "Accepted")}}},
			[]string{"True NoRoutes message of a", "True Accepted message of b"},
		},
		"none accepts": {
			[]outcome{{problems: problem("TargetNotFound"), targets: []gateway.Target{target("a", "TargetNotFound"), target("b", "Conflicted")}}},
			[]string{"False TargetNotFound message of a", "False Conflicted message of b"},
		},
		"invalid": {
			[]outcome{{problems: []compile.Problem{{Field: "spec.limit", Reason: "Invalid", Message: "m"}}}},
			[]string{"False Invalid spec.limit: m", "False Invalid spec.limit: m"},
		},
		"over budget": {
			[]outcome{{overBudget: "too much", targets: []gateway.Target{target("a", "Accepted"), target("b", "TargetNotFound")}}},
			[]string{"False OverBudget too much", "False TargetNotFound message of b"},
		},
		"known at the second Limiter": {
			[]outcome{{limiter: edge, rule: rule}, {rule: rule, targets: []gateway.Target{target("a", "Accepted"), target("b", "TargetNotFound")}}},
			[]string{"True Accepted message of a", "False TargetNotFound message of b"},
		},
		"the targets cannot be read": { // a is new, and b is reported
			[]outcome{{rule: rule}}, []string{"True Accepted the policy is valid", "True Accepted reported before"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := policyOf(7)
			p.Targets = []v1alpha1.TargetReference{routeRef("a"), routeRef("b")}
			began, now := time.Unix(1_800_000_000, 0), time.Unix(1_800_000_060, 0)
			before := []v1alpha1.PolicyAncestorStatus{{AncestorRef: routeRef("b"), Conditions: []metav1.Condition{
				{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted", Message: "reported before", LastTransitionTime: metav1.NewTime(began)},
			}}}
			status, _ := policyStatus(7, test.outcomes, v1alpha1.RateLimitPolicyStatus{}, now)
			got := ancestors(p, test.outcomes, status, before, now)
			var texts []string
			for i, a := range got {
				if a.ControllerName != "weir.dev/operator" || len(a.Conditions) != 1 || a.AncestorRef.Name != []string{"a", "b"}[i] {
					t.Fatalf("entry %d: %+v", i, a)
				}
				c := a.Conditions[0]
				texts = append(texts, string(c.Status)+" "+c.Reason+" "+c.Message)
				want := now
				if a.AncestorRef.Name == "b" && c.Status == metav1.ConditionTrue {
					want = began
				}
				if !c.LastTransitionTime.Time.Equal(want) || c.ObservedGeneration != 7 {
					t.Errorf("entry %d: changed at %v in generation %d, want %v", i, c.LastTransitionTime, c.ObservedGeneration, want)
				}
			}
			if diff := cmp.Diff(test.want, texts); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Tools that wait take Stalled for a failure. A route can be created after its policy, and a policy in conflict needs an edit.
func TestPolicyConditions_WaitForAMissingTarget(t *testing.T) {
	for reason, want := range map[string]string{
		"TargetNotFound": "Reconciling", "RefNotPermitted": "Reconciling", "Conflicted": "Stalled", "Invalid": "Stalled", "": "Stalled",
	} {
		all, _ := policyConditions([]outcome{{problems: problem(reason)}}, v1alpha1.RateLimitPolicyStatus{}, 1, time.Time{})
		var types []string
		for _, c := range all {
			types = append(types, c.Type)
		}
		if diff := cmp.Diff([]string{"Accepted", "Programmed", "Enforced", "Ready", want}, types); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
		expected := reason
		if reason == "" {
			expected = "Invalid"
		}
		if c := meta.FindStatusCondition(all, "Ready"); c.Status != metav1.ConditionFalse || c.Reason != expected || c.Message != "spec.targetRefs[0].name: m" {
			t.Errorf("%s: Ready is %+v", reason, c)
		}
	}
}

func TestPolicyConditions_NameTheTargetsThatDoNotAccept(t *testing.T) {
	rule := &selection.Rule{Revision: "r1"}
	some := []outcome{{rule: rule, enforced: true, targets: []gateway.Target{target("a", "Accepted"), target("b", "TargetNotFound")}}}
	all, _ := policyConditions(some, v1alpha1.RateLimitPolicyStatus{}, 1, time.Time{})
	const want = "the policy is valid; 1 of 2 targets do not accept it, see status.ancestors: message of b"
	if c := meta.FindStatusCondition(all, "Accepted"); c.Status != metav1.ConditionTrue || c.Message != want {
		t.Errorf("Accepted is %+v", c)
	}
}

func TestUnchanged_DependsOnTheTargets(t *testing.T) {
	for name, of := range map[string]outcome{"with a rule": {rule: &selection.Rule{}}, "without a rule": {}} {
		before, after := of, of
		before.targets = []gateway.Target{target("a", "Accepted")}
		after.targets = []gateway.Target{target("a", "TargetNotFound")}
		if unchanged(summaries([]outcome{before}), []outcome{after}) || !unchanged(summaries([]outcome{before}), []outcome{before}) {
			t.Errorf("%s: a change of a target is not noticed, or one is noticed without a change", name)
		}
	}
}

// A policy without targets can have the reason Conflicted too.
func TestRejectedBy_NamesTheCauseOfAConflict(t *testing.T) {
	for field, want := range map[string]string{
		"spec.counterName":   "not enforced: another policy has its counters",
		"spec.targetRefs[0]": "not enforced: no target accepts the policy",
	} {
		all := rejectedBy([]compile.Problem{{Field: field, Reason: v1alpha1.ReasonConflicted, Message: "policy shop/a …"}})
		for _, kind := range []string{v1alpha1.ConditionProgrammed, v1alpha1.ConditionEnforced} {
			if c := meta.FindStatusCondition(all, kind); c == nil || c.Message != want {
				t.Errorf("%s: condition %s is %+v, want the message %q", field, kind, c, want)
			}
		}
	}
}
