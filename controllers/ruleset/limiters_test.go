package ruleset

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// labelPolicy sets a label of a policy.
func (h *harness) labelPolicy(name, key, value string) {
	h.Helper()
	p := h.policy(name)
	metav1.SetMetaDataLabel(&p.ObjectMeta, key, value)
	h.must(h.kube.Update(h.Context(), p))
}

func (h *harness) degraded() *metav1.Condition {
	h.Helper()
	return meta.FindStatusCondition(h.limiter(limiterName.Name).Status.Conditions, v1alpha1.ConditionDegraded)
}

func TestReconcile_PublishesToEachLimiterWhatItSelects(t *testing.T) {
	h := newHarness(t)
	h.createLimiter("edge", func(s *v1alpha1.LimiterSpec) {
		s.PolicySelector = &metav1.LabelSelector{MatchLabels: map[string]string{"at": "edge"}}
	})
	edge := h.open(h.redis.URL(), types.NamespacedName{Namespace: "weir-system", Name: "edge"}).Exchange
	h.createPolicy("daily", nil)
	h.createPolicy("hourly", func(s *v1alpha1.RateLimitPolicySpec) { s.Window = "1h" })
	h.labelPolicy("hourly", "at", "edge")
	reconcile := func() { h.reconcile("default", "edge") }
	reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 100, "hourly": 100}, h.activeLimits()); diff != "" {
		t.Errorf("limits of the Limiter default (-want +got):\n%s", diff)
	}
	revision, err := edge.Current(t.Context())
	h.must(err)
	if revision == h.activeRevision() {
		t.Error("both Limiters have the same revision")
	}
	if got := h.limiter("edge").Status; got.Policies == nil || got.Policies.Accepted != 1 || got.Revision != revision {
		t.Errorf("status of the Limiter edge: %+v", got)
	}

	h.heartbeat(h.activeRevision(), "a", "b")
	reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.hasCondition("hourly", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNoReplicas)
	h.hasCondition("hourly", v1alpha1.ConditionReady, yes, v1alpha1.ReasonPartiallyProgrammed)
	h.hasNoCondition("hourly", v1alpha1.ConditionReconciling)
	const missing = "weir-system/edge: no limiter replica is ready: check the pods of the Limiter"
	if got := h.message("hourly", v1alpha1.ConditionProgrammed); got != missing {
		t.Errorf("Programmed has message %q", got)
	}
	if got := h.message("hourly", v1alpha1.ConditionReady); got != "1 of 2 Limiters enforce generation 1; not "+missing {
		t.Errorf("Ready has message %q", got)
	}
	h.must(edge.Heartbeat(t.Context(), controlplane.Replica{ID: "e", Revision: revision, Format: rules.Format}))
	reconcile()
	h.hasCondition("hourly", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	if got := h.message("hourly", v1alpha1.ConditionReady); got != "all replicas of 2 Limiters enforce generation 1" {
		t.Errorf("Ready has message %q", got)
	}
	if l := h.policy("hourly").Status.Limiters; len(l) != 2 || l[0].Name != "default" || l[0].Acknowledged != nil || l[1].Name != "edge" || l[1].Acknowledged != nil {
		t.Errorf("limiters %+v", l)
	}

	h.labelPolicy("daily", "at", "edge") // labels do not change the generation
	reconcile()
	if l := h.policy("daily").Status.Limiters; len(l) != 2 {
		t.Errorf("limiters of a policy that both select: %+v", l)
	}
}

func TestReporter_ReportsAPolicyThatNoLimiterSelects(t *testing.T) {
	h := newHarness(t)
	h.must(h.kube.Delete(t.Context(), h.limiter("default")))
	h.createPolicy("daily", nil)
	h.createPolicy("bad", badPath)
	h.report()
	h.hasCondition("daily", v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNotSelected)
	h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonNotSelected)
	h.hasCondition("bad", v1alpha1.ConditionStalled, yes, v1alpha1.ReasonInvalid)
	h.editPolicy("bad", func(s *v1alpha1.RateLimitPolicySpec) { s.Match = nil })
	h.report()
	h.hasCondition("bad", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNotSelected)

	h.createLimiter("default", func(s *v1alpha1.LimiterSpec) {
		s.PolicyNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "elsewhere"}}
	})
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNotSelected)
	l := h.limiter("default")
	l.Spec.PolicyNamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] = h.namespace
	h.must(h.kube.Update(t.Context(), l))
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNoReplicas)
}

func TestReporter_WaitsForTheStateOfEveryLimiter(t *testing.T) {
	h := newHarness(t)
	h.createLimiter("second", nil)
	h.createPolicy("daily", nil)
	h.reconcile("default")
	if got := h.policy("daily").Status.ObservedGeneration; got != -1 {
		t.Errorf("generation %d was reported before the second Limiter was reconciled", got)
	}
	h.reconcile("second")
	if l := h.policy("daily").Status.Limiters; len(l) != 2 {
		t.Errorf("limiters %+v", l)
	}
}

func TestReconcile_ReportsRevisionRedisAndScriptsOfALimiter(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.createPolicy("bad", badPath)
	h.reconcile()
	status := h.limiter("default").Status
	if p := status.Policies; p == nil || p.Accepted != 1 || p.Rejected != 1 || status.Revision != h.activeRevision() {
		t.Errorf("policies %+v, revision %s", p, status.Revision)
	}
	if r := status.Redis; r == nil || !r.Reachable || r.Primaries != 1 || !strings.HasPrefix(r.Version, "7.") && !strings.HasPrefix(r.Version, "8.") {
		t.Errorf("redis %+v", r)
	}
	if len(status.Scripts) < 4 || status.Scripts[0].LoadedOn != 1 {
		t.Errorf("scripts %+v", status.Scripts)
	}
	version := h.limiter("default").ResourceVersion
	h.restartOperator()
	for range 12 {
		h.reconcile()
	}
	if h.limiter("default").ResourceVersion != version {
		t.Error("the status was written although nothing changed")
	}
}

func TestReconcile_ReportsDegradedWhileRedisHasAProblem(t *testing.T) {
	h := newHarness(t)
	h.redis.Kill()
	h.reconcile()
	began := h.now
	c := h.degraded()
	if c == nil || c.Reason != v1alpha1.ReasonStoreUnreachable || !strings.Contains(c.Message, h.redis.Addr()) {
		t.Fatalf("Degraded: %+v", c)
	}
	version := h.limiter("default").ResourceVersion
	h.reconcile()
	h.reconcile()
	if h.limiter("default").ResourceVersion != version {
		t.Error("the status was written again during one outage")
	}
	if c := h.degraded(); !c.LastTransitionTime.Time.Equal(began) {
		t.Errorf("Degraded since %v, want %v", c.LastTransitionTime, began)
	}
	h.must(h.redis.Restart(t.Context()))
	h.reconcile()
	if c := h.degraded(); c != nil {
		t.Errorf("Degraded: %+v", c)
	}
	_, err := h.redis.Do(t.Context(), "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	h.must(err)
	for range 6 { // a resync
		h.reconcile()
	}
	if c := h.degraded(); c == nil || c.Reason != v1alpha1.ReasonStoreEvicts || !strings.Contains(c.Message, "allkeys-lru") {
		t.Errorf("Degraded of a Redis that evicts counters: %+v", c)
	}
}

func TestKeepPrevious_SelectsNothingForANewLimiterWithAnInvalidSelector(t *testing.T) {
	h := newHarness(t)
	h.storedLimiters().selector = invalidSelector()
	h.createPolicy("daily", nil)
	for range 3 {
		h.reconcile()
		c := h.degraded()
		if c == nil || c.Reason != v1alpha1.ReasonInvalidSelector || !strings.HasPrefix(c.Message, "no policies are selected until the selector is valid: spec.policySelector: ") {
			t.Errorf("Degraded: %+v", c)
		}
		h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNotSelected)
	}
}

func TestPublish_MovesToTheNewRedisOfALimiter(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	other := fixture.Redis(t)
	h.url = func(l *v1alpha1.Limiter) string { return "redis://" + string(l.Spec.Redis.Addresses[0]) }
	l := h.limiter("default")
	l.Spec.Redis.Addresses[0] = v1alpha1.RedisAddress(other.Addr())
	h.must(h.kube.Update(t.Context(), l))
	h.reconcile()
	if got, err := h.open(other.URL(), limiterName).Current(t.Context()); err != nil || got != h.activeRevision() {
		t.Errorf("the new Redis has %q, %v; want %q", got, err, h.activeRevision())
	}
	for _, key := range []string{":current", ":set:" + h.activeRevision()} { // for pods that still use it
		reply, err := h.redis.Do(t.Context(), "PTTL", h.exchange.Channel()+key)
		if ttl, is := reply.(int64); !is || ttl <= 0 || ttl > 2*time.Hour.Milliseconds() {
			t.Errorf("in the old Redis %s has TTL %v, %v", key, reply, err)
		}
	}
}

func TestPublish_LeavesAnUnavailableRedis(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	other := fixture.Redis(t)
	h.url = func(l *v1alpha1.Limiter) string { return "redis://" + string(l.Spec.Redis.Addresses[0]) }
	h.redis.Kill()
	l := h.limiter("default")
	l.Spec.Redis.Addresses[0] = v1alpha1.RedisAddress(other.Addr())
	h.must(h.kube.Update(t.Context(), l))
	h.reconcile()
	if got, err := h.open(other.URL(), limiterName).Current(t.Context()); err != nil || got == "" {
		t.Errorf("the new Redis has %q, %v", got, err)
	}
	if c := h.degraded(); c != nil {
		t.Errorf("Degraded: %+v", c)
	}
}

func TestPublish_KeepsTheRulesWhenOnlyTheTimeoutChanges(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	l := h.limiter("default")
	l.Spec.Redis.Timeout = "100ms"
	h.must(h.kube.Update(t.Context(), l))
	h.reconcile()
	for _, key := range []string{":current", ":set:" + h.activeRevision()} {
		if ttl, err := h.redis.Do(t.Context(), "PTTL", h.exchange.Channel()+key); err != nil || ttl != int64(-1) {
			t.Errorf("%s has TTL %v, %v", key, ttl, err)
		}
	}
}

// No finalizer holds the Limiter: the operator cleans up after it is gone.
func TestRemove_ClearsRedisAndStopsPublishing(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.must(h.kube.Delete(t.Context(), h.limiter("default")))
	request := ctrl.Request{NamespacedName: limiterName}
	if result, err := h.reconciler.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != 0 {
		t.Errorf("next after %v, %v", result.RequeueAfter, err)
	}
	if keys, err := h.redis.Do(t.Context(), "DBSIZE"); err != nil || fmt.Sprint(keys) != "0" {
		t.Errorf("Redis still has %v keys, %v", keys, err)
	}
	h.report()
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonNotSelected)
	if got := h.metric("weir_rules_policies", "weir-system/default"); got != 0 {
		t.Errorf("weir_rules_policies of a deleted Limiter = %v", got)
	}
	h.createLimiter("default", nil) // another Limiter with the same name
	h.reconcile()
	if h.activeRevision() == "" {
		t.Error("nothing is published for another Limiter with the same name")
	}
}

// Another controller holds the Limiter with a finalizer.
func TestRemove_PublishesNothingForALimiterThatIsBeingDeleted(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	l := h.limiter("default")
	l.Finalizers = []string{"example.com/hold"}
	h.must(h.kube.Update(t.Context(), l))
	h.reconcile()
	stale := h.limiter("default")
	h.must(h.kube.Delete(t.Context(), stale))
	request := ctrl.Request{NamespacedName: limiterName}
	for range 2 {
		if _, err := h.reconciler.Reconcile(t.Context(), request); err != nil || h.activeRevision() != "" {
			t.Errorf("published again: %q, %v", h.activeRevision(), err)
		}
	}
	watching, err := client.NewWithWatch(kubetest.Kube(t).Config(), client.Options{Scheme: h.kube.Scheme()})
	h.must(err)
	h.reconciler.Client = interceptor.NewClient(watching, interceptor.Funcs{ // the cache does not have the deletion yet
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if l, is := into.(*v1alpha1.Limiter); is {
				stale.DeepCopyInto(l)
				return nil
			}
			return c.Get(ctx, key, into, options...)
		},
	})
	if _, err := h.reconciler.Reconcile(t.Context(), request); err != nil || h.activeRevision() != "" {
		t.Errorf("published again from an old cache: %q, %v", h.activeRevision(), err)
	}
	l = h.limiter("default")
	l.Finalizers = nil
	h.must(h.kube.Update(t.Context(), l))
}

func TestRemove_TriesForHalfAMinuteWhileRedisIsUnavailable(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	h.must(h.kube.Delete(t.Context(), h.limiter("default")))
	h.redis.Kill()
	request := ctrl.Request{NamespacedName: limiterName}
	for _, after := range []time.Duration{0, clearTimeout - time.Second} {
		h.now = h.now.Add(after)
		if result, err := h.reconciler.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != clearRetry {
			t.Fatalf("next after %v, %v, want clearRetry", result.RequeueAfter, err)
		}
	}
	h.now = h.now.Add(time.Second)
	if result, err := h.reconciler.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != 0 {
		t.Errorf("next after %v, %v, want the end", result.RequeueAfter, err)
	}
	if len(h.reconciler.limiters) > 0 {
		t.Error("the operator still remembers the Limiter")
	}
}
