package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

func TestPolicyDegradation_ReportsOutagesAndLocalMode(t *testing.T) {
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	redis := publish.Replica{Mode: "redis", Since: ten.Add(-time.Hour)}
	local := func(since time.Time) publish.Replica { return publish.Replica{Mode: publish.ModeLocal, Since: since} }
	tests := map[string]struct {
		replicas    []publish.Replica
		unavailable string
		began       time.Time
		want        degradation
	}{
		"no replica":                   {},
		"all replicas use Redis":       {replicas: []publish.Replica{redis, redis}},
		"replicas that report no mode": {replicas: []publish.Replica{{}, {Mode: "redis"}}},
		"one local replica of three": {
			replicas: []publish.Replica{redis, local(ten), redis},
			want:     degradation{"LocalMode", "1 of 3 replicas in local mode since 2026-11-21T10:00:00Z: check their connections to Redis"},
		},
		"the earliest of two times": {
			replicas: []publish.Replica{local(ten.Add(time.Minute)), redis, local(ten)},
			want:     degradation{"LocalMode", "2 of 3 replicas in local mode since 2026-11-21T10:00:00Z: check their connections to Redis"},
		},
		"a known and two unknown times": {
			replicas: []publish.Replica{local(time.Time{}), local(ten), local(time.Time{})},
			want:     degradation{"LocalMode", "3 of 3 replicas in local mode since 2026-11-21T10:00:00Z: check their connections to Redis"},
		},
		"no known time": {
			replicas: []publish.Replica{local(time.Time{})},
			want:     degradation{"LocalMode", "1 of 1 replicas in local mode: check their connections to Redis"},
		},
		"times are in UTC and whole seconds": {
			replicas: []publish.Replica{local(ten.Add(999 * time.Millisecond).In(time.FixedZone("", 3600)))},
			want:     degradation{"LocalMode", "1 of 1 replicas in local mode since 2026-11-21T10:00:00Z: check their connections to Redis"},
		},
		"Redis unavailable": {
			unavailable: "dial tcp: refused", began: ten,
			want: degradation{
				"StoreUnreachable",
				"the operator has not reached Redis since 2026-11-21T10:00:00Z: replicas that cannot reach Redis either follow spec.onStoreFailure",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := publish.Delivery{Outage: publish.Outage{Message: test.unavailable, Since: test.began}}
			for _, r := range test.replicas {
				d.Replicas = append(d.Replicas, publish.ServingReplica{})
				d.Local.Add(r)
			}
			if diff := cmp.Diff(test.want, policyDegradation(d), cmp.AllowUnexported(degradation{})); diff != "" {
				t.Errorf("degradation (-want +got):\n%s", diff)
			}
		})
	}
}

// The operator restarts while Redis is unavailable.
func TestPolicyStatus_KeepsTheStartOfAnOutageWhenTheOperatorRestarts(t *testing.T) {
	rule := &selection.Rule{Revision: "sha256:a"}
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	at := func(began time.Time) outcome {
		d := publish.Delivery{Outage: publish.Outage{Message: "refused", Since: began}}
		return outcome{rule: rule, unavailable: d.Outage.Message, degradation: policyDegradation(d)}
	}
	policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	before, _ := policyStatus(policy.Generation, []outcome{at(ten)}, v1alpha1.RateLimitPolicyStatus{}, ten)
	after, _ := policyStatus(policy.Generation, []outcome{at(ten.Add(time.Hour))}, before, ten.Add(time.Hour))
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the status (-of the first operator +of the second):\n%s", diff)
	}

	local := outcome{rule: rule, degradation: degradation{v1alpha1.ReasonLocalMode, "local"}}
	other, _ := policyStatus(policy.Generation, []outcome{local}, before, ten.Add(time.Hour))
	c := meta.FindStatusCondition(other.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Message != "local" || c.Reason != v1alpha1.ReasonLocalMode || !c.LastTransitionTime.Time.Equal(ten) {
		t.Errorf("Degraded with another reason: %+v", c)
	}
}

// The Redis of one of two Limiters becomes available again.
func TestPolicyStatus_NamesTheDegradedLimiter(t *testing.T) {
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	of := func(name, unavailable string, began time.Time) outcome {
		d := publish.Delivery{Outage: publish.Outage{Message: unavailable, Since: began}}
		limiter := types.NamespacedName{Namespace: "weir-system", Name: name}
		return outcome{limiter: limiter, rule: &selection.Rule{Revision: "sha256:a"}, enforced: true, unavailable: unavailable, degradation: policyDegradation(d)}
	}
	const rest = ": the operator has not reached Redis since 2026-11-21T10:00:00Z: replicas that cannot reach Redis either follow spec.onStoreFailure"
	before, _ := policyStatus(1, []outcome{of("a", "refused", ten), of("b", "refused", ten)}, v1alpha1.RateLimitPolicyStatus{}, ten)
	c := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Message != "weir-system/a"+rest {
		t.Fatalf("Degraded of both: %+v", c)
	}
	after, _ := policyStatus(1, []outcome{of("a", "", time.Time{}), of("b", "refused", ten)}, before, ten.Add(time.Minute))
	c = meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Message != "weir-system/b"+rest || !c.LastTransitionTime.Time.Equal(ten) {
		t.Errorf("Degraded of the second: %+v", c)
	}
}
