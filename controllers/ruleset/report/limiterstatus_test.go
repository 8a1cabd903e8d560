package report

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
)

func TestLimiterReporter_WritesChangesOnce(t *testing.T) {
	r := newReporting(t)
	reporter := &LimiterReporter{Client: r.cached, Clock: func() time.Time { return r.now }}
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "edge", UID: "edge", Generation: 3, ResourceVersion: "1"}}
	r.version = 1
	limiter.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True"}} // of another controller
	set := stateOf(publish.Delivery{}).RuleSet
	set.Revision = "sha256:a"
	d := publish.Delivery{
		Replicas: []publish.ServingReplica{{Revision: "sha256:a"}, {Revision: "sha256:b"}},
		Redis:    publish.Redis{Primaries: 3, Version: "7.2.4"}, Scripts: []publish.Script{{Name: "spend", SHA: "01", LoadedOn: 3}},
	}
	report := func(when string, d publish.Delivery, selector error, want int) {
		t.Helper()
		r.written = nil
		if err := reporter.Report(t.Context(), limiter, set, d, Problems{InvalidSelector: selector}); err != nil || len(r.written) != want {
			t.Errorf("%s: %d writes, %v; want %d", when, len(r.written), err, want)
		}
	}
	receive := func() { // the cache receives the write
		limiter.ResourceVersion = strconv.Itoa(r.version)
		conditions := append([]metav1.Condition{{Type: "Ready", Status: "True"}}, r.limiter.Conditions...)
		limiter.Status = *r.limiter.DeepCopy()
		limiter.Status.Conditions = conditions
	}
	degraded := func() metav1.Condition {
		if c := meta.FindStatusCondition(r.limiter.Conditions, "Degraded"); c != nil {
			return *c
		}
		return metav1.Condition{}
	}
	report("the first status", d, nil, 1)
	got := r.limiter
	if got.Revision != "sha256:a" || got.EnforcingReplicas != 1 || got.Policies.Accepted != 1 || got.Policies.Rejected != 0 || !got.Redis.Reachable ||
		got.Redis.Primaries != 3 || got.Redis.Version != "7.2.4" || len(got.Scripts) != 1 || got.Scripts[0].LoadedOn != 3 || len(got.Conditions) != 0 {
		t.Errorf("status %+v", got)
	}
	report("before the cache has it", d, nil, 0)
	receive()
	report("with it in the cache", d, nil, 0)
	r.version++
	limiter.Status.EnforcingReplicas, limiter.ResourceVersion = 9, strconv.Itoa(r.version)
	report("after a change of another client", d, nil, 1)

	receive()
	d.Local = publish.LocalMode{Replicas: 2, Since: r.now.Add(-time.Minute + 3*time.Millisecond)}
	report("local mode", d, nil, 1)
	if l := r.limiter.LocalMode; l == nil || l.Replicas != 2 || !l.Since.Time.Equal(r.now.Add(-time.Minute)) {
		t.Errorf("in local mode: %+v", l)
	}
	receive()
	report("still local mode", d, nil, 0)
	d.Local = publish.LocalMode{Replicas: 2}
	report("local mode since an unknown time", d, nil, 1)
	if l := r.limiter.LocalMode; l == nil || l.Since != nil {
		t.Errorf("in local mode: %+v", l)
	}
	receive()
	outage := publish.Delivery{Redis: d.Redis, Scripts: d.Scripts, Outage: publish.Outage{Reason: "StoreDenied", Message: "NOPERM", Since: r.now}}
	report("an outage", outage, nil, 1)
	if r.limiter.EnforcingReplicas != 1 || r.limiter.Redis.Reachable || degraded().Reason != "StoreDenied" || !strings.Contains(degraded().Message, "NOPERM") {
		t.Errorf("in the outage: %+v", r.limiter)
	}
	receive()
	began := degraded().LastTransitionTime
	r.now = r.now.Add(time.Hour)
	outage.Outage.Message = "NOAUTH"
	report("another message", outage, nil, 1)
	if c := degraded(); !c.LastTransitionTime.Equal(&began) || !strings.Contains(c.Message, "NOAUTH") || c.ObservedGeneration != 3 {
		t.Errorf("condition %+v, want the time %v of its begin", c, began)
	}
	receive()
	set.Revision = "sha256:c"
	report("another rule set in the outage", outage, nil, 1)
	if r.limiter.EnforcingReplicas != 0 {
		t.Errorf("%d replicas enforce a rule set that was never published", r.limiter.EnforcingReplicas)
	}
	receive()
	report("the end of the outage", publish.Delivery{}, nil, 1)
	if len(r.limiter.Conditions) != 0 || r.limiter.Redis.Version != "" || len(r.limiter.Scripts) != 0 {
		t.Errorf("after the outage: %+v", r.limiter)
	}
}

// Other controllers write the same status, so that the cache can receive a change while it lacks the last write.
func TestLimiterReporter_WritesAStateThatReturnsBeforeTheCacheHasTheLastWrite(t *testing.T) {
	r := newReporting(t)
	reporter := &LimiterReporter{Client: r.cached, Clock: func() time.Time { return r.now }}
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "edge", UID: "edge", ResourceVersion: "1"}}
	r.version = 1
	report := func(outage publish.Outage) {
		t.Helper()
		d := publish.Delivery{Outage: outage}
		if err := reporter.Report(t.Context(), limiter, stateOf(d).RuleSet, d, Problems{}); err != nil {
			t.Fatal(err)
		}
	}
	report(publish.Outage{})
	limiter.Status, limiter.ResourceVersion = *r.limiter.DeepCopy(), strconv.Itoa(r.version)
	r.version++ // the write of another controller
	other := strconv.Itoa(r.version)
	report(publish.Outage{Reason: "StoreDenied", Message: "NOPERM"})
	if r.limiter.Redis.Reachable {
		t.Fatal("the outage is not written")
	}
	limiter.ResourceVersion = other
	report(publish.Outage{})
	if !r.limiter.Redis.Reachable {
		t.Error("the end of the outage is not written: the cache still has the status from before it")
	}
}

func TestLimiterReporter_WritesSinceWhenRedisIsUnreachable(t *testing.T) {
	r := newReporting(t)
	reporter := &LimiterReporter{Client: r.cached, Clock: func() time.Time { return r.now }}
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "edge", UID: "edge"}}
	began := metav1.NewTime(r.now)
	for _, step := range []struct {
		outage publish.Outage
		want   *metav1.Time
	}{
		{publish.Outage{Reason: "StoreDenied", Message: "NOPERM", Since: r.now.Add(3 * time.Millisecond)}, &began},
		{publish.Outage{Reason: "StoreDenied", Message: "NOPERM"}, nil}, // at an unknown time
		{publish.Outage{}, nil},
	} {
		d := publish.Delivery{Outage: step.outage}
		if err := reporter.Report(t.Context(), limiter, stateOf(d).RuleSet, d, Problems{}); err != nil {
			t.Fatal(err)
		}
		if got := r.limiter.Redis.UnreachableSince; !got.Equal(step.want) {
			t.Errorf("outage %+v: unreachable since %v, want %v", step.outage, got, step.want)
		}
	}
}

func TestLimiterStatus_ReportsLimitersThatCountSeparately(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	d := publish.Delivery{Outage: publish.Outage{Reason: "StoreDenied", Message: "NOPERM", Since: at}}
	status := limiterStatus(1, stateOf(d).RuleSet, d, Problems{Separate: "m"}, nil, at)
	limiter := &v1alpha1.Limiter{Status: status}
	if owned := ownedStatus(limiter); len(owned.Conditions) != 2 || owned.Conditions[0].Type != "Degraded" || owned.Conditions[1].Type != "CountsSeparately" ||
		owned.Conditions[1].Reason != "NoCounterGroup" || owned.Conditions[1].Message != "m" {
		t.Errorf("conditions %+v", owned.Conditions)
	}
	status = limiterStatus(1, stateOf(publish.Delivery{}).RuleSet, publish.Delivery{}, Problems{}, status.Conditions, at)
	if len(status.Conditions) != 0 {
		t.Errorf("without a problem: %+v", status.Conditions)
	}
}

func TestLimiterReporter_ReturnsTheErrorsOfTheAPIServer(t *testing.T) {
	r := newReporting(t)
	reporter := &LimiterReporter{Client: r.cached, Clock: func() time.Time { return r.now }}
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "edge"}}
	set := stateOf(publish.Delivery{}).RuleSet
	r.failing["edge"] = errors.New("refused")
	if err := reporter.Report(t.Context(), limiter, set, publish.Delivery{}, Problems{}); !errors.Is(err, r.failing["edge"]) || !strings.Contains(err.Error(), "status of Limiter weir-system/edge") {
		t.Errorf("%v, want the error", err)
	}
	r.failing["edge"] = apierrors.NewNotFound(schema.GroupResource{Resource: "limiters"}, "edge")
	if err := reporter.Report(t.Context(), limiter, set, publish.Delivery{}, Problems{}); err != nil {
		t.Errorf("a Limiter that was deleted: %v", err)
	}
}

func TestLimiterDegradation_ReportsTheMostSevereProblem(t *testing.T) {
	set, empty := stateOf(publish.Delivery{}).RuleSet, stateOf(publish.Delivery{}).RuleSet
	clear(empty.Rules)
	selector := errors.New("bad selector")
	warning := publish.Redis{Warnings: []string{"a: evicts", "b: evicts"}, WrongClocks: []string{"a: ahead"}}
	local := publish.LocalMode{Replicas: 1}
	outage := publish.Outage{Reason: "StoreDenied", Message: "NOPERM"}
	for name, test := range map[string]struct {
		d               publish.Delivery
		problems        Problems
		empty           bool
		reason, message string
	}{
		"nothing":                        {publish.Delivery{}, Problems{}, false, "", ""},
		"warnings":                       {publish.Delivery{Redis: warning}, Problems{}, false, "StoreEvicts", "a: evicts; b: evicts"},
		"a wrong clock":                  {publish.Delivery{Redis: publish.Redis{WrongClocks: []string{"a: ahead", "b: behind"}}}, Problems{}, false, "StoreClockWrong", "a: ahead; b: behind"},
		"local mode, and warnings":       {publish.Delivery{Redis: warning, Local: local, AtLeast: 2}, Problems{}, false, "LocalMode", "1 of 2 replicas in local mode: check their connections to Redis"},
		"an invalid selector, and those": {publish.Delivery{Redis: warning, Local: local}, Problems{InvalidSelector: selector}, false, "InvalidSelector", "the previous rule set stays active until the selector is valid: bad selector"},
		"an invalid selector at first":   {publish.Delivery{}, Problems{InvalidSelector: selector}, true, "InvalidSelector", "no policies are selected until the selector is valid: bad selector"},
		"an outage, and all of those":    {publish.Delivery{Redis: warning, Local: local, Outage: outage}, Problems{InvalidSelector: selector}, false, "StoreDenied", "Redis cannot be used: NOPERM"},
		"no snapshot":                    {publish.Delivery{}, Problems{Snapshot: "forbidden"}, false, "SnapshotNotWritten", noSnapshot},
		"no snapshot in an outage":       {publish.Delivery{Outage: outage}, Problems{Snapshot: "forbidden"}, false, "StoreDenied", "Redis cannot be used: NOPERM; " + noSnapshot},
	} {
		of := set
		if test.empty {
			of = empty
		}
		if got := limiterDegradation(test.d, selectorProblem(of, test.problems.InvalidSelector), "", test.problems.Snapshot); got != (degradation{test.reason, test.message}) {
			t.Errorf("%s: %+v, want %s: %s", name, got, test.reason, test.message)
		}
	}
	for want, d := range map[string]publish.Delivery{"RouteTableIncomplete": {Redis: warning}, "LocalMode": {Local: local, AtLeast: 2}} {
		if got := limiterDegradation(d, nil, "Gateway a/b does not exist", ""); got.reason != want || want != "LocalMode" && got.message != "Gateway a/b does not exist" {
			t.Errorf("routes are left out: %+v, want %s", got, want)
		}
	}
}

const noSnapshot = "the snapshot of the rules is not written, so limiters that start while Redis is unavailable do not have these rules: forbidden"
