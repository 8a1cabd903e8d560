package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter"
)

func TestLimiterDegradation_ReportsOutagesAndLocalMode(t *testing.T) {
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	redis := publish.Replica{Mode: "redis", Since: ten.Add(-time.Hour)}
	local := func(since time.Time) publish.Replica { return publish.Replica{Mode: publish.ModeLocal, Since: since} }
	tests := map[string]struct {
		replicas    []publish.Replica
		silent      publish.Silent
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
		"silent replicas that connect again": {replicas: []publish.Replica{redis, redis}, silent: publish.Silent{Replicas: 1}},
		"a silent replica": {
			replicas: []publish.Replica{redis, redis}, silent: publish.Silent{Replicas: 1, Lasting: true},
			want: degradation{"LocalMode", "1 of 2 replicas are ready and send no heartbeats: check their connections to Redis. They decide locally if they cannot reach it"},
		},
		"Redis unavailable": {
			unavailable: "dial tcp: refused", began: ten,
			want: degradation{"StoreUnreachable", "Redis cannot be used since 2026-11-21T10:00:00Z: dial tcp: refused"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := publish.Delivery{Outage: publish.Outage{Reason: test.want.reason, Message: test.unavailable, Since: test.began}}
			if test.unavailable == "" {
				d.Outage = publish.Outage{}
			}
			for _, r := range test.replicas {
				d.Replicas = append(d.Replicas, publish.ServingReplica{})
				d.Local.Add(r)
			}
			d.Silent = test.silent
			if diff := cmp.Diff(test.want, limiterDegradation(d, nil, "", ""), cmp.AllowUnexported(degradation{})); diff != "" {
				t.Errorf("degradation (-want +got):\n%s", diff)
			}
		})
	}
}

// An outage and local mode concern every policy of a Limiter. Thousands of statuses must not change with them.
func TestOutcomeOf_DoesNotChangeInOutagesAndLocalMode(t *testing.T) {
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	normal := publish.Delivery{Replicas: serving(2, 2)}
	local, down := normal, normal
	local.Local = publish.LocalMode{Replicas: 1, Since: ten}
	down.Outage = publish.Outage{Reason: v1alpha1.ReasonStoreUnreachable, Message: "refused", Since: ten}
	var before v1alpha1.RateLimitPolicyStatus
	for range 2 { // the second one has what the first one reports
		before, _ = policyStatus(1, []outcome{outcomeOf(stateOf(normal), policyOf(1), before.Limiters)}, before, ten)
	}
	for name, d := range map[string]publish.Delivery{"local mode": local, "outage": down} {
		after, _ := policyStatus(1, []outcome{outcomeOf(stateOf(d), policyOf(1), before.Limiters)}, before, ten.Add(time.Minute))
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: the status changes (-before +after):\n%s", name, diff)
		}
	}
}

// In an outage, the operator does not receive what replicas report about identifiers.
func TestPolicyDegradation_KeepsWhatIsReportedAboutIdentifiers(t *testing.T) {
	crowded := publish.Delivery{Replicas: serving(1, 1), Crowded: map[string]limiter.Crowding{"shop/daily": limiter.NearMaximum}}
	outage := publish.Delivery{Replicas: serving(1, 1), Outage: publish.Outage{Reason: v1alpha1.ReasonStoreUnreachable, Message: "refused"}}
	o := outcomeOf(stateOf(crowded), policyOf(1), nil)
	if o.degradation.reason != v1alpha1.ReasonManyIdentifiers {
		t.Fatalf("before the outage: %+v", o.degradation)
	}
	before := []v1alpha1.PolicyLimiterStatus{o.entry(nil, 1, time.Now())}
	for name, test := range map[string]struct {
		d        publish.Delivery
		reported []v1alpha1.PolicyLimiterStatus
		want     degradation
	}{
		"an outage":                    {outage, before, o.degradation},
		"a restart of the operator":    {publish.Delivery{Connecting: true}, before, o.degradation},
		"an outage, nothing before":    {outage, nil, degradation{}},
		"heartbeats without a problem": {publish.Delivery{Replicas: serving(1, 1)}, before, degradation{}},
	} {
		if got := outcomeOf(stateOf(test.d), policyOf(1), test.reported).degradation; got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestPolicyStatus_NamesTheDegradedLimiter(t *testing.T) {
	of := func(name string, d degradation) outcome {
		return outcome{
			limiter: types.NamespacedName{Namespace: "weir-system", Name: name}, rule: &selection.Rule{Revision: "sha256:a"}, enforced: true, degradation: d,
		}
	}
	many := degradation{v1alpha1.ReasonManyIdentifiers, "many"}
	status, _ := policyStatus(1, []outcome{of("a", degradation{}), of("b", many)}, v1alpha1.RateLimitPolicyStatus{}, time.Now())
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Message != "weir-system/b: many" {
		t.Errorf("Degraded: %+v", c)
	}
}
