package ruleset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	yes = metav1.ConditionTrue
	no  = metav1.ConditionFalse
)

func limit(units int64) func(*v1alpha1.RateLimitPolicySpec) {
	return func(s *v1alpha1.RateLimitPolicySpec) { s.Limit = &units }
}

// badPath is a match that the schema accepts and RE2 does not.
func badPath(s *v1alpha1.RateLimitPolicySpec) {
	s.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{
		Paths: []v1alpha1.PathMatch{{Type: v1alpha1.PathRegularExpression, Value: "/v1/(?=x)"}},
	}}
}

func TestReconcile_FollowsAPolicyFromCreationToDeletion(t *testing.T) {
	h := newHarness(t)
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{}, h.activeLimits()); diff != "" {
		t.Fatalf("the rule set without policies (-want +got):\n%s", diff)
	}

	h.createPolicy("daily", nil)
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNoReplicas)
	h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonNoReplicas)
	h.hasCondition("daily", v1alpha1.ConditionReconciling, yes, v1alpha1.ReasonNoReplicas)
	if diff := cmp.Diff(map[string]int64{"daily": 100}, h.activeLimits()); diff != "" {
		t.Errorf("the rule set (-want +got):\n%s", diff)
	}

	h.heartbeat("", "starting")
	h.reconcile()
	if got := h.message("daily", v1alpha1.ConditionReady); got != "no limiter replica is ready: check the pods of the Limiter" {
		t.Errorf("while the only replica has no rules, Ready has message %q", got)
	}
	h.heartbeat(h.activeRevision(), "a")
	h.heartbeat("sha256:before", "b")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPending)
	if got := h.message("daily", v1alpha1.ConditionReady); got != "1 of 2 replicas enforce generation 1" {
		t.Errorf("Ready has message %q", got)
	}

	h.heartbeat(h.activeRevision(), "a", "b")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonProgrammed)
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.hasNoCondition("daily", v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled)
	status := h.policy("daily").Status
	want := &v1alpha1.EffectivePolicy{
		Rates: []v1alpha1.EffectiveRate{{
			Policy: h.namespace + "/daily", Algorithm: v1alpha1.SlidingWindowCounter, Limit: new(int64(100)), Window: "1d",
			KeyPattern: "weir:*:throttle:tenant:{*}:" + h.namespace + "/daily:*",
		}},
		Summary: "100 per 1d",
	}
	if diff := cmp.Diff(want, status.Effective); diff != "" {
		t.Errorf("effective (-want +got):\n%s", diff)
	}
	if l := status.Limiters; len(l) != 1 || l[0].Namespace != "weir-system" || l[0].Name != "default" ||
		l[0].Acknowledged != nil || l[0].Replicas != nil || !strings.HasPrefix(l[0].Revision, "sha256:") {
		t.Errorf("limiters %+v", l)
	}

	h.editPolicy("daily", limit(50))
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPending)
	if got := h.message("daily", v1alpha1.ConditionProgrammed); got != "0 of 2 replicas enforce generation 2" {
		t.Errorf("Programmed has message %q", got)
	}
	h.heartbeat(h.activeRevision(), "a", "b")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	if got := h.limiter("default").Status.EnforcingReplicas; got != 2 {
		t.Errorf("the Limiter reports %d enforcing replicas, want 2", got)
	}

	h.must(h.kube.Delete(t.Context(), h.policy("daily")))
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{}, h.activeLimits()); diff != "" {
		t.Errorf("the rule set after deletion (-want +got):\n%s", diff)
	}
}

func TestReconcile_ReportsAnInvalidPolicyAndPublishesTheOthers(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("good", nil)
	h.createPolicy("bad", nil)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasCondition("bad", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	good := h.policy("good").ResourceVersion

	h.editPolicy("bad", badPath)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasCondition("bad", v1alpha1.ConditionAccepted, no, v1alpha1.ReasonInvalid)
	h.hasCondition("bad", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonInvalid)
	h.hasCondition("bad", v1alpha1.ConditionReady, no, v1alpha1.ReasonInvalid)
	h.hasCondition("bad", v1alpha1.ConditionStalled, yes, v1alpha1.ReasonInvalid)
	h.hasNoCondition("bad", v1alpha1.ConditionReconciling)
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionReady, v1alpha1.ConditionStalled} {
		if got := h.message("bad", kind); !strings.HasPrefix(got, "spec.match.http.paths[0].value: ") {
			t.Errorf("message of %s is %q, want the field first", kind, got)
		}
	}
	if s := h.policy("bad").Status; s.Effective != nil || s.Limiters != nil {
		t.Errorf("an invalid policy still has effective %v, limiters %v", s.Effective, s.Limiters)
	}
	if diff := cmp.Diff(map[string]int64{"good": 100}, h.activeLimits()); diff != "" {
		t.Errorf("the rule set (-want +got):\n%s", diff)
	}
	if now := h.policy("good").ResourceVersion; now != good {
		t.Error("the good policy's status was written again")
	}
	if got := h.metric("weir_policy_problems", v1alpha1.ReasonInvalid); got != 1 {
		t.Errorf("weir_policy_problems = %v, want 1", got)
	}
	if got := h.metric("weir_rules_policies", ""); got != 1 {
		t.Errorf("weir_rules_policies = %v, want 1", got)
	}

	h.editPolicy("bad", func(s *v1alpha1.RateLimitPolicySpec) { s.Match = nil })
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasCondition("bad", v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
	h.hasCondition("bad", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.hasNoCondition("bad", v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling)
	if got := h.metric("weir_policy_problems", ""); got != 0 {
		t.Errorf("weir_policy_problems = %v, want 0", got)
	}
}

func TestReporter_ChangesTransitionTimesWithTheStatusOnly(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	at := func(kind string) time.Time {
		return meta.FindStatusCondition(h.policy("daily").Status.Conditions, kind).LastTransitionTime.Time
	}
	h.reconcile() // NoReplicas
	accepted, programmed := at(v1alpha1.ConditionAccepted), at(v1alpha1.ConditionProgrammed)
	h.heartbeat("sha256:before", "a")
	h.reconcile() // Pending
	if now := at(v1alpha1.ConditionProgrammed); !now.Equal(programmed) {
		t.Errorf("Programmed stayed False, but its transition time changed from %v to %v", programmed, now)
	}
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile() // Programmed
	if now := at(v1alpha1.ConditionProgrammed); !now.Equal(h.now) {
		t.Errorf("Programmed became True at %v, its transition time is %v", h.now, now)
	}
	if now := at(v1alpha1.ConditionAccepted); !now.Equal(accepted) {
		t.Errorf("Accepted stayed True, but its transition time changed from %v to %v", accepted, now)
	}
}

func TestReporter_WritesOneStatusForOneEdit(t *testing.T) {
	h := newHarness(t)
	const policies = 50
	for i := range policies {
		h.createPolicy(fmt.Sprintf("p%02d", i), nil)
	}
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a", "b")
	h.reconcile()
	h.hasCondition("p00", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)

	h.now = h.now.Add(time.Minute) // the snapshot does not wait
	h.reconcile()
	steady := h.versions()
	for range 20 {
		h.heartbeat(h.activeRevision(), "a", "b")
		if result := h.reconcile(); result.RequeueAfter != h.reconciler.Resync {
			t.Fatalf("nothing is pending, and it is requeued after %v", result.RequeueAfter)
		}
	}
	if diff := cmp.Diff(steady, h.versions()); diff != "" {
		t.Errorf("statuses were written although nothing changed (-before +after):\n%s", diff)
	}

	before := h.activeRevision()
	h.editPolicy("p07", limit(7))
	h.reconcile()
	h.hasCondition("p07", v1alpha1.ConditionReady, no, v1alpha1.ReasonPending)
	h.heartbeat(before, "b") // this replica enforces all policies but one
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.restartOperator() // it reads the rule sets that it remembered from Redis
	h.reconcile()
	if got := h.message("p07", v1alpha1.ConditionReady); got != "1 of 2 replicas enforce generation 2" {
		t.Errorf("Ready has message %q", got)
	}
	h.heartbeat(h.activeRevision(), "b")
	h.reconcile()
	h.hasCondition("p07", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	after := h.versions()
	if after["p07"] == steady["p07"] {
		t.Error("the status of the edited policy was not written")
	}
	delete(steady, "p07")
	delete(after, "p07")
	if diff := cmp.Diff(steady, after); diff != "" {
		t.Errorf("an edit of one policy wrote statuses of others (-before +after):\n%s", diff)
	}
}

func TestReporter_WritesManyStatusesInRounds(t *testing.T) {
	h := newHarness(t)
	for i := range report.StatusesPerRound + 1 {
		h.createPolicy(fmt.Sprintf("p%03d", i), nil)
	}
	unwritten := func() (n int) {
		var list v1alpha1.RateLimitPolicyList
		h.must(h.kube.List(t.Context(), &list, client.InNamespace(h.namespace)))
		for _, p := range list.Items {
			if p.Status.ObservedGeneration == -1 {
				n++
			}
		}
		return n
	}
	_, err := h.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: limiterName})
	h.must(err)
	if again := h.report().RequeueAfter; again != report.NextRound {
		t.Errorf("one status is missing, and it is requeued after %v", again)
	}
	if n := unwritten(); n != 1 {
		t.Errorf("%d statuses are not written after the first round, want 1", n)
	}
	h.report()
	if n := unwritten(); n != 0 {
		t.Errorf("%d statuses are not written after the second round, want 0", n)
	}
}

func TestPublish_RestoresTheRulesInRedis(t *testing.T) {
	damages := map[string]func(t *testing.T, h *harness){
		"after FLUSHALL":  func(_ *testing.T, h *harness) { h.flushAll() },
		"after a restart": func(t *testing.T, h *harness) { h.must(h.redis.Restart(t.Context())) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.createPolicy("daily", nil)
			h.reconcile()
			revision := h.activeRevision()
			h.heartbeat(revision, "a")
			h.reconcile()
			version := h.policy("daily").ResourceVersion

			damage(t, h)
			h.heartbeat(revision, "a") // a limiter keeps the rules that it has
			h.reconcile()
			if got := h.activeRevision(); got != revision {
				t.Errorf("the active revision is %q, want %q", got, revision)
			}
			if diff := cmp.Diff(map[string]int64{"daily": 100}, h.activeLimits()); diff != "" {
				t.Errorf("the rule set (-want +got):\n%s", diff)
			}
			if h.policy("daily").ResourceVersion != version {
				t.Error("the repair wrote a status although nothing changed")
			}
		})
	}
}

// Redis evicts a shard, or has another content under its name. The next limiter that starts needs it.
func TestPublish_RestoresAShard(t *testing.T) {
	damages := map[string]func(h *harness, key string){
		"evicted": func(h *harness, key string) {
			_, err := h.redis.Do(h.Context(), "DEL", key)
			h.must(err)
		},
		"damaged": func(h *harness, key string) {
			_, err := h.redis.Do(h.Context(), "SET", key, "damaged")
			h.must(err)
			// What a limiter reports that starts, see [source.Redis].
			h.must(h.exchange.Heartbeat(h.Context(), controlplane.Replica{ID: "b", Mode: "redis", Rejected: "shard 3 is damaged", Format: rules.Format}))
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.createPolicy("daily", nil)
			h.reconcile()
			h.heartbeat(h.activeRevision(), "a")
			h.reconcile()
			keys, err := h.redis.Do(t.Context(), "KEYS", "weir:rules:"+limiterName.String()+":shard:*")
			h.must(err)
			list, ok := keys.([]any)
			if !ok || len(list) != 1 {
				t.Fatalf("shards: %v, want one", keys)
			}
			damage(h, fmt.Sprint(list[0]))
			began := time.Now()
			fixture.Await(h, "the rule set is whole again", func() bool {
				h.heartbeat(h.activeRevision(), "a")
				h.reconcile()
				data, _, err := h.exchange.Archive(t.Context(), h.activeRevision())
				h.must(err)
				_, _, err = rules.Decode(data)
				return err == nil
			})
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v, want at most 10 s", took)
			}
		})
	}
}

// Redis has another rule set under the revision that a replica enforces. The status must not report rules that the replica does
// not enforce, and must report those that it does.
func TestPublish_IgnoresARuleSetUnderAWrongRevision(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	first := h.activeRevision()
	h.editPolicy("daily", limit(50))
	h.reconcile()
	second, found, err := h.exchange.Load(t.Context(), h.activeRevision())
	if err != nil || !found {
		t.Fatalf("the active rule set: found %v, %v", found, err)
	}
	h.flushAll()
	if _, err := h.exchange.Publish(t.Context(), rules.Encoded{Revision: first, Data: second}, false); err != nil {
		t.Fatal(err)
	}
	h.restartOperator()
	h.heartbeat(first, "a")
	h.reconcile()
	if got := h.message("daily", v1alpha1.ConditionReady); got != "0 of 1 replicas enforce generation 2" {
		t.Errorf("Ready has message %q, and the replica enforces generation 1", got)
	}

	h.editPolicy("daily", limit(100)) // the limit from before
	h.reconcile()
	h.heartbeat(first, "a")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
}

func TestReconcile_ReportsAnOutageOfRedisAndTheRecovery(t *testing.T) {
	h := newHarness(t)
	h.redis.Kill()
	h.createPolicy("daily", nil)
	h.createPolicy("bad", badPath)
	if again := h.reconcile().RequeueAfter; again != minUnavailableWait {
		t.Errorf("requeued after %v, want %v", again, minUnavailableWait)
	}
	h.hasCondition("daily", v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonStoreUnreachable)
	h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)
	h.hasCondition("daily", v1alpha1.ConditionReconciling, yes, v1alpha1.ReasonStoreUnreachable)
	h.hasCondition("bad", v1alpha1.ConditionStalled, yes, v1alpha1.ReasonInvalid)
	if got := h.message("daily", v1alpha1.ConditionReady); !strings.Contains(got, h.redis.Addr()) {
		t.Errorf("Ready has message %q, want the address", got)
	}
	version := h.policy("daily").ResourceVersion
	for range 3 {
		if again := h.reconcile().RequeueAfter; again > maxUnavailableWait {
			t.Errorf("requeued after %v, want at most %v", again, maxUnavailableWait)
		}
	}
	if h.policy("daily").ResourceVersion != version {
		t.Error("the status was written again during one outage")
	}

	h.must(h.redis.Restart(t.Context()))
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNoReplicas)
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)

	h.redis.Kill()
	h.reconcile()
	h.hasNoCondition("daily", v1alpha1.ConditionDegraded)
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
}

func TestReconcile_ReportsNoPassword(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	for name, url := range map[string]string{
		"a server without this user":  "redis://user:hunter2@" + h.redis.Addr(),
		"an address without a server": "redis://user:hunter2@127.0.0.1:1",
	} {
		h.url = func(*v1alpha1.Limiter) string { return url }
		h.restartOperator()
		h.reconcile()
		h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)
		if got := h.message("daily", v1alpha1.ConditionReady); strings.Contains(got, "hunter2") {
			t.Errorf("%s: Ready has message %q", name, got)
		}
		if got := meta.FindStatusCondition(h.limiter("default").Status.Conditions, v1alpha1.ConditionDegraded); got == nil || strings.Contains(got.Message, "hunter2") {
			t.Errorf("%s: Degraded of the Limiter is %+v", name, got)
		}
	}
}

func TestReporter_RestoresAStatusThatAnotherClientChanged(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	p := h.policy("daily")
	p.Status.Conditions = nil
	p.Status.Effective = nil
	h.must(h.kube.Status().Update(t.Context(), p))
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
	if h.policy("daily").Status.Effective == nil {
		t.Error("effective is still missing")
	}
}

func TestMetrics_ObserveThePropagationOfAnEditOnce(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	if got := h.metric("weir_propagation_seconds", ""); got != 0 {
		t.Errorf("%v observations of policies that exist at the start, want 0", got)
	}
	h.editPolicy("daily", limit(1))
	h.reconcile()
	h.editPolicy("daily", limit(2)) // the first edit is superseded
	h.reconcile()
	h.reconcile()
	if got := h.metric("weir_propagation_seconds", ""); got != 0 {
		t.Errorf("%v observations before the replica has the edit, want 0", got)
	}
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.reconcile()
	if got := h.metric("weir_propagation_seconds", ""); got != 1 {
		t.Errorf("%v observations of one edit, want 1", got)
	}
}
