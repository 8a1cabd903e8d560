package ruleset

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// TestConditions holds every outcome to what tools make of it: kstatus is what Flux, kpt and kubectl wait decide by.
func TestConditions(t *testing.T) {
	rule := &enforced{revision: "sha256:a"}
	away := degradation{v1alpha1.ReasonStoreUnreachable, "away"}
	local := degradation{v1alpha1.ReasonLocalMode, "local"}
	tests := map[string]struct {
		outcome outcome
		want    string // conditions in order
		kstatus string
	}{
		"a policy that does not compile": {
			outcome{problems: []compile.Problem{{Field: "spec.window", Message: "no"}}},
			"Accepted=False/Invalid Programmed=False/Invalid Ready=False/Invalid Stalled=True/Invalid", "Failed",
		},
		"a policy that does not compile while Redis is away": {
			outcome{problems: []compile.Problem{{Field: "spec.window", Message: "no"}}, unreachable: "gone", degradation: away},
			"Accepted=False/Invalid Programmed=False/Invalid Ready=False/Invalid Stalled=True/Invalid", "Failed",
		},
		"no replica": {
			outcome{rule: rule},
			"Accepted=True/Accepted Programmed=False/NoReplicas Ready=False/NoReplicas Reconciling=True/NoReplicas", "InProgress",
		},
		"some replicas": {
			outcome{rule: rule, acknowledged: 1, replicas: 2},
			"Accepted=True/Accepted Programmed=False/Pending Ready=False/Pending Reconciling=True/Pending", "InProgress",
		},
		"all replicas": {
			outcome{rule: rule, acknowledged: 2, replicas: 2},
			"Accepted=True/Accepted Programmed=True/Programmed Ready=True/Programmed", "Current",
		},
		"Redis away": {
			outcome{rule: rule, acknowledged: 2, replicas: 2, unreachable: "gone", degradation: away},
			"Accepted=True/Accepted Programmed=False/StoreUnreachable Ready=False/StoreUnreachable " +
				"Reconciling=True/StoreUnreachable Degraded=True/StoreUnreachable", "InProgress",
		},
		"a replica in local mode": {
			outcome{rule: rule, acknowledged: 2, replicas: 2, degradation: local},
			"Accepted=True/Accepted Programmed=True/Programmed Ready=True/Programmed Degraded=True/LocalMode", "Current",
		},
		"a replica in local mode, another behind": {
			outcome{rule: rule, acknowledged: 1, replicas: 2, degradation: local},
			"Accepted=True/Accepted Programmed=False/Pending Ready=False/Pending Reconciling=True/Pending Degraded=True/LocalMode", "InProgress",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			status := statusOf(policy.Generation, []outcome{test.outcome}, nil, metav1.NewTime(time.Unix(1_800_000_000, 0)))
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
				t.Errorf("kstatus makes %s of it, want %s", got, test.kstatus)
			}
			if got := kstatus(policy.Generation+1, status); got != "InProgress" {
				t.Errorf("after an edit kstatus makes %s of it, want InProgress", got)
			}
		})
	}
	born := v1alpha1.RateLimitPolicyStatus{ObservedGeneration: -1} // the schema's default
	if got := kstatus(1, born); got != "InProgress" {
		t.Errorf("kstatus makes %s of a policy just created, want InProgress", got)
	}
}

// kstatus is the rule of sigs.k8s.io/cli-utils/pkg/kstatus for kinds it does not know, in its order.
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

func TestProblemText(t *testing.T) {
	problem := func(field string) compile.Problem { return compile.Problem{Field: field, Message: "bad"} }
	tests := map[string]struct {
		problems []compile.Problem
		want     string
	}{
		"one":                    {[]compile.Problem{problem("spec.limit")}, "spec.limit: bad"},
		"two":                    {[]compile.Problem{problem("a"), problem("b")}, "a: bad; b: bad"},
		"one of no field":        {[]compile.Problem{problem("")}, "bad"},
		"more than one can read": {[]compile.Problem{problem("a"), problem("b"), problem("c"), problem("d"), problem("e"), problem("f"), problem("g")}, "a: bad; b: bad; c: bad; d: bad; e: bad; and 2 more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := problemText(test.problems); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestPace(t *testing.T) {
	const resync = 5 * time.Second
	ms := func(n ...int) (waits []time.Duration) {
		for _, n := range n {
			waits = append(waits, time.Duration(n)*time.Millisecond)
		}
		return waits
	}
	type look struct {
		revision    string
		unreachable string
		delivery    delivery
	}
	all := delivery{replicas: []serving{{rules: map[string]string{"shop/daily": "sha256:a"}}}}
	some := delivery{replicas: []serving{{rules: map[string]string{"shop/daily": "sha256:before"}}}}
	tests := map[string]struct {
		looks []look
		want  []time.Duration
	}{
		"all is well": {[]look{{"a", "", all}, {"a", "", all}}, ms(5000, 5000)},
		"acknowledgements take their time": {
			[]look{{"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", all}},
			ms(100, 200, 400, 800, 1600, 2000, 2000, 5000),
		},
		"another edit starts anew": {[]look{{"a", "", some}, {"a", "", some}, {"b", "", some}}, ms(100, 200, 100)},
		"Redis stays away":         {[]look{{"a", "x", some}, {"a", "x", some}, {"a", "x", some}, {"a", "x", some}, {"a", "x", some}}, ms(1000, 2000, 4000, 5000, 5000)},
		"Redis returns":            {[]look{{"a", "x", some}, {"a", "x", some}, {"a", "", some}, {"a", "", all}}, ms(1000, 2000, 100, 5000)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var p pace
			var got []time.Duration
			for _, l := range test.looks {
				l.delivery.unreachable = l.unreachable
				of := &compiled{revision: l.revision, rules: map[string]enforced{"shop/daily": {revision: "sha256:a"}}}
				got = append(got, p.next(of, l.delivery, resync))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKnownForgetsWhatWasUsedLeast(t *testing.T) {
	var k known
	for i := range knownSets {
		k.learn(strconv.Itoa(i), map[string]string{"shop/x": strconv.Itoa(i)})
	}
	if rules, ok := k.recall("0"); !ok || rules["shop/x"] != "0" {
		t.Fatalf("recall of the first set: %v, %v", rules, ok)
	}
	k.learn("new", nil)
	if _, ok := k.recall("1"); ok {
		t.Error("the set that was used least is still known")
	}
	for _, revision := range []string{"0", "2", "new"} {
		if _, ok := k.recall(revision); !ok {
			t.Errorf("set %s is forgotten", revision)
		}
	}
}
