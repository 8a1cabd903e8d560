package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestDegradation(t *testing.T) {
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	redis := Replica{Mode: "redis", Since: ten.Add(-time.Hour)}
	local := func(since time.Time) Replica { return Replica{Mode: ModeLocal, Since: since} }
	tests := map[string]struct {
		replicas    []Replica
		unreachable string
		away        time.Time
		want        degradation
	}{
		"no replica":             {},
		"all with Redis":         {replicas: []Replica{redis, redis}},
		"replicas of older kind": {replicas: []Replica{{}, {Mode: "redis"}}},
		"one of three": {
			replicas: []Replica{redis, local(ten), redis},
			want:     degradation{"LocalMode", "1 of 3 replicas decides without Redis since 2026-11-21T10:00:00Z"},
		},
		"the first of two tells since when": {
			replicas: []Replica{local(ten.Add(time.Minute)), redis, local(ten)},
			want:     degradation{"LocalMode", "2 of 3 replicas decide without Redis since 2026-11-21T10:00:00Z"},
		},
		"one knows since when, one does not": {
			replicas: []Replica{local(time.Time{}), local(ten), local(time.Time{})},
			want:     degradation{"LocalMode", "3 of 3 replicas decide without Redis since 2026-11-21T10:00:00Z"},
		},
		"nobody knows since when": {
			replicas: []Replica{local(time.Time{})},
			want:     degradation{"LocalMode", "1 of 1 replicas decides without Redis"},
		},
		"times are in UTC and whole seconds": {
			replicas: []Replica{local(ten.Add(999 * time.Millisecond).In(time.FixedZone("", 3600)))},
			want:     degradation{"LocalMode", "1 of 1 replicas decides without Redis since 2026-11-21T10:00:00Z"},
		},
		"Redis away": {
			unreachable: "dial tcp: refused", away: ten,
			want: degradation{
				"StoreUnreachable",
				"the operator has not reached Redis since 2026-11-21T10:00:00Z: limiters that cannot reach it either decide by onStoreFailure",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := delivery{unreachable: test.unreachable, away: test.away}
			for _, r := range test.replicas {
				d.replicas = append(d.replicas, serving{})
				d.local.add(r)
			}
			if diff := cmp.Diff(test.want, d.degradation(), cmp.AllowUnexported(degradation{})); diff != "" {
				t.Errorf("degradation (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheBeginningOfAnOutageOutlivesTheOperator lets another operator take over while Redis is away.
func TestTheBeginningOfAnOutageOutlivesTheOperator(t *testing.T) {
	rule := &enforced{revision: "sha256:a"}
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	at := func(away time.Time) outcome {
		d := delivery{unreachable: "refused", away: away}
		return outcome{rule: rule, unreachable: d.unreachable, degradation: d.degradation()}
	}
	policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	before := statusOf(policy.Generation, []outcome{at(ten)}, nil, metav1.NewTime(ten))
	after := statusOf(policy.Generation, []outcome{at(ten.Add(time.Hour))}, before.Conditions, metav1.NewTime(ten.Add(time.Hour)))
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the status (-of the first operator +of the second):\n%s", diff)
	}

	local := outcome{rule: rule, degradation: degradation{v1alpha1.ReasonLocalMode, "local"}}
	other := statusOf(policy.Generation, []outcome{local}, before.Conditions, metav1.NewTime(ten.Add(time.Hour)))
	c := meta.FindStatusCondition(other.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Message != "local" || c.Reason != v1alpha1.ReasonLocalMode || !c.LastTransitionTime.Time.Equal(ten) {
		t.Errorf("another reason: %+v", c)
	}
}

// TestDegradedNamesTheLimiterThatIs lets one of two Limiters reach its Redis again.
func TestDegradedNamesTheLimiterThatIs(t *testing.T) {
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	of := func(name, unreachable string, away time.Time) outcome {
		d := delivery{unreachable: unreachable, away: away}
		limiter := types.NamespacedName{Namespace: "weir-system", Name: name}
		return outcome{limiter: limiter, rule: &enforced{revision: "sha256:a"}, acknowledged: 1, replicas: 1, unreachable: unreachable, degradation: d.degradation()}
	}
	const rest = ": the operator has not reached Redis since 2026-11-21T10:00:00Z: limiters that cannot reach it either decide by onStoreFailure"
	before := statusOf(1, []outcome{of("a", "refused", ten), of("b", "refused", ten)}, nil, metav1.NewTime(ten))
	c := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Message != "weir-system/a"+rest {
		t.Fatalf("Degraded of both: %+v", c)
	}
	after := statusOf(1, []outcome{of("a", "", time.Time{}), of("b", "refused", ten)}, before.Conditions, metav1.NewTime(ten.Add(time.Minute)))
	c = meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Message != "weir-system/b"+rest || !c.LastTransitionTime.Time.Equal(ten) {
		t.Errorf("Degraded of the second: %+v", c)
	}
}

func TestLocalModeIsToldAndDoesNotMakeAPolicyUnready(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.create("bad", badPath)
	h.reconcile()
	revision := h.current()
	began := time.UnixMilli(1_790_000_000_123)
	h.beat(revision, "a", "b", "c")
	h.reconcile()
	h.silent("daily", v1alpha1.ConditionDegraded)

	alive := func() {
		h.beat(revision, "a", "c")
		h.beatLocal(revision, began, "b")
		h.reconcile()
	}
	alive()
	h.says("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonLocalMode)
	if got := h.message("daily", v1alpha1.ConditionDegraded); got != "1 of 3 replicas decides without Redis since 2026-09-21T14:13:20Z" {
		t.Errorf("Degraded says %q", got)
	}
	h.says("daily", v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonProgrammed)
	h.says("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.silent("daily", v1alpha1.ConditionReconciling)
	h.silent("bad", v1alpha1.ConditionDegraded)
	steady := h.versions()
	for range 6 {
		alive()
	}
	h.restart()
	alive()
	if diff := cmp.Diff(steady, h.versions()); diff != "" {
		t.Errorf("statuses were written though nothing changed (-before +after):\n%s", diff)
	}

	h.beat(revision, "a", "b", "c")
	h.reconcile()
	h.silent("daily", v1alpha1.ConditionDegraded)
	h.says("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
}

func TestDegradedStandsWhileTheOperatorCannotReachRedis(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.reconcile()
	h.beatLocal(h.current(), time.UnixMilli(1_790_000_000_123), "a")
	h.reconcile()
	h.says("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonLocalMode)

	h.redis.Kill()
	h.reconcile()
	h.says("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonStoreUnreachable)
	want := "the operator has not reached Redis since " + h.now.UTC().Format(time.RFC3339) +
		": limiters that cannot reach it either decide by onStoreFailure"
	if got := h.message("daily", v1alpha1.ConditionDegraded); got != want {
		t.Errorf("Degraded says %q, want %q", got, want)
	}
	version := h.policy("daily").ResourceVersion
	for range 6 {
		h.reconcile()
	}
	if h.policy("daily").ResourceVersion != version {
		t.Error("the status was written again during one outage")
	}
	h.must(h.redis.Restart(t.Context()))
	h.reconcile()
	h.silent("daily", v1alpha1.ConditionDegraded)
}
