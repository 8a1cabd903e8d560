package ruleset

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/limiter/rules"
)

// BenchmarkReconcile measures the controller with 1 000 and 10 000 policies. The API server and Redis are fakes that take no time.
func BenchmarkReconcile(b *testing.B) {
	for _, bench := range []struct {
		name     string
		policies int
		edits    bool
	}{
		{"nothing changed with 1000", 1000, false},
		{"nothing changed with 10000", 10_000, false},
		{"one edit with 1000", 1000, true},
		{"one edit with 10000", 10_000, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			cache := newInstant(bench.policies, 2)
			r := cache.reconciler(b)
			b.Logf("%d rounds until all statuses were written", cache.settle(b, r))
			for b.Loop() {
				if bench.edits {
					cache.policies[7].Generation++
					cache.policies[7].Spec.Limit = new(*cache.policies[7].Spec.Limit + 1)
				}
				cache.reconcile(b, r)
			}
		})
	}
}

// An autoscaler adds three replicas to a Limiter, all of which enforce the policies as soon as they serve. The policies are so many that
// the reporter needs several rounds to write their statuses. make soak uses 10 000.
func TestReporter_WritesNoPolicyStatusWhileALimiterScales(t *testing.T) {
	policies := 300
	if os.Getenv("WEIR_SOAK") != "" {
		policies = 10_000
	}
	cache := newInstant(policies, 3)
	r := cache.reconciler(t)
	rounds := cache.settle(t, r)
	first := int(cache.policyWrites.Load())
	for _, step := range []struct{ heartbeats, ready int32 }{{4, 3}, {5, 3}, {5, 5}, {6, 5}, {6, 6}, {6, 4}, {5, 4}, {3, 3}} {
		cache.replicas, cache.ready = step.heartbeats, step.ready
		cache.settle(t, r)
	}
	if first != policies || rounds < 2 {
		t.Errorf("%d writes of policy statuses at the start, in %d rounds, want %d in several", first, rounds, policies)
	}
	if writes := int(cache.policyWrites.Load()) - first; writes != 0 {
		t.Errorf("%d writes of policy statuses while 3 replicas became 6 and 3 again, want 0", writes)
	}
}

// An edit of one policy costs what it changes: it writes one status, and allocates as much as with fewer policies, apart from lists and maps of all.
func TestReconcile_AnEditCostsWhatItChanges(t *testing.T) {
	allocations := map[int]float64{}
	for _, policies := range []int{100, 1000} {
		cache := newInstant(policies, 2)
		r := cache.reconciler(t)
		cache.settle(t, r)
		edit := func() {
			p := &cache.policies[7]
			p.Generation, p.ResourceVersion, p.Spec.Limit = p.Generation+1, p.ResourceVersion+"1", new(*p.Spec.Limit+1)
			cache.settle(t, r)
		}
		before := cache.policyWrites.Load()
		edit()
		if writes := cache.policyWrites.Load() - before; writes != 1 {
			t.Errorf("an edit with %d policies writes %d statuses of policies, want 1", policies, writes)
		}
		allocations[policies] = testing.AllocsPerRun(5, edit)
	}
	if few, many := allocations[100], allocations[1000]; many > few+200 {
		t.Errorf("an edit allocates %.0f times with 100 policies, and %.0f times with 1000", few, many)
	}
}

// instant fakes an API server, its cache, a Redis and replicas. All of them are always up to date.
type instant struct {
	client.Client
	policies     []v1alpha1.RateLimitPolicy
	revision     string
	replicas     int32        // with a heartbeat
	ready        int32        // pods
	policyWrites atomic.Int32 // several at a time
}

func newInstant(policies int, replicas int32) *instant {
	cache := &instant{replicas: replicas, ready: replicas}
	for i := range policies {
		cache.policies = append(cache.policies, v1alpha1.RateLimitPolicy{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("team-%d", i%100), Name: fmt.Sprintf("policy-%d", i),
				UID: types.UID(strconv.Itoa(i)), ResourceVersion: "1", Generation: 1,
			},
			Spec: v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(int64(100)), Window: "1d", Algorithm: v1alpha1.SlidingWindowCounter},
		})
	}
	return cache
}

func (s *instant) reconciler(tb testing.TB) *Reconciler {
	tb.Helper()
	r, err := New(Config{
		Client: s, Uncached: s, Open: func(*v1alpha1.Limiter) (publish.Store, error) { return s, nil }, KeyPrefix: "weir:",
		Resync: time.Second, Clock: time.Now, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (s *instant) reconcile(tb testing.TB, r *Reconciler) ctrl.Result {
	tb.Helper()
	if _, err := r.Reconcile(tb.Context(), ctrl.Request{NamespacedName: limiterName}); err != nil {
		tb.Fatal(err)
	}
	result, err := r.Reporter.Reconcile(tb.Context(), ctrl.Request{})
	if err != nil {
		tb.Fatal(err)
	}
	return result
}

// settle reconciles until all statuses are written, and returns the number of rounds.
func (s *instant) settle(tb testing.TB, r *Reconciler) (rounds int) {
	tb.Helper()
	for {
		rounds++
		if s.reconcile(tb, r).RequeueAfter != report.NextRound {
			return rounds
		}
	}
}

func (s *instant) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch policies := list.(type) {
	case *v1alpha1.RateLimitPolicyList:
		policies.Items = slices.Clone(s.policies)
	case *v1alpha1.LimiterList:
		policies.Items = []v1alpha1.Limiter{s.limiter()}
	case *v1alpha1.ClusterRateLimitPolicyList, *metav1.PartialObjectMetadataList:
	default:
		return fmt.Errorf("list of %T", list)
	}
	return nil
}

func (s *instant) limiter() v1alpha1.Limiter {
	return v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{
		Namespace: limiterName.Namespace, Name: limiterName.Name, UID: "limiter", Generation: 1, ResourceVersion: "1",
	}, Status: v1alpha1.LimiterStatus{ReadyReplicas: s.ready}}
}

func (s *instant) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if l, is := object.(*v1alpha1.Limiter); is {
		*l = s.limiter()
		return nil
	}
	object.SetResourceVersion("1")
	l := s.limiter()
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(&l, v1alpha1.GroupVersion.WithKind("Limiter"))})
	return nil
}

func (s *instant) Apply(_ context.Context, apply runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	configMap, ok := apply.(*corev1ac.ConfigMapApplyConfiguration)
	if !ok {
		return fmt.Errorf("apply of %T", apply)
	}
	configMap.WithResourceVersion("1")
	return nil
}

func (s *instant) Status() client.SubResourceWriter {
	return instantStatus{policyWrites: &s.policyWrites}
}

func (s *instant) LoadScripts(context.Context) ([]publish.Script, error) { return nil, nil }

func (s *instant) Inspect(context.Context) (publish.Redis, error) {
	return publish.Redis{Primaries: 1}, nil
}

func (s *instant) Leave(context.Context) error { return nil }
func (s *instant) Clear(context.Context) error { return nil }

func (s *instant) Close() error { return nil }

func (s *instant) Publish(_ context.Context, set rules.Encoded, _ bool) (bool, error) {
	s.revision = set.Revision
	return true, nil
}

func (s *instant) Active(context.Context) (revision string, sequence int64, err error) {
	return s.revision, 0, nil
}

func (s *instant) Archive(context.Context, string) (data []byte, found bool, err error) {
	return nil, false, nil
}

func (s *instant) Replicas(context.Context) ([]publish.Replica, error) {
	return slices.Repeat([]publish.Replica{{Revision: s.revision, Format: rules.Format}}, int(s.replicas)), nil
}

type instantStatus struct {
	client.SubResourceWriter
	policyWrites *atomic.Int32
}

func (s instantStatus) Apply(_ context.Context, apply runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	switch a := apply.(type) {
	case *v1alpha1ac.RateLimitPolicyApplyConfiguration:
		s.policyWrites.Add(1)
		a.WithResourceVersion("2")
	case *v1alpha1ac.LimiterApplyConfiguration:
		a.WithResourceVersion("2")
	default:
		return fmt.Errorf("apply of %T", apply)
	}
	return nil
}
