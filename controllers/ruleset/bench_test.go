package ruleset

import (
	"cmp"
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
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

// BenchmarkReconcile measures the controller with 1 000 and 10 000 policies. The API server and Redis are fakes that take no time.
func BenchmarkReconcile(b *testing.B) {
	for _, c := range append(changesOfOne(), changeOfOne{"nothing", 0, func(*instant) {}}) {
		for _, policies := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("%s with %d", c.name, policies), func(b *testing.B) {
				cache := newInstant(policies, 2)
				r := cache.reconciler(b)
				b.Logf("%d rounds until all statuses were written", cache.settle(b, r))
				for b.Loop() {
					c.change(cache)
					cache.now.Add(1000)
					cache.reconcile(b, r)
				}
			})
		}
	}
}

// BenchmarkEdit measures what the operator computes for an edit: its rules are published, the replicas enforce them, and the statuses report it.
func BenchmarkEdit(b *testing.B) {
	for _, policies := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(policies), func(b *testing.B) {
			cache := newInstant(policies, 3)
			r := cache.reconciler(b)
			cache.settle(b, r)
			edit := changesOfOne()[0]
			pass := func() { // as after an event about a policy, a state or a heartbeat
				cache.now.Add(10)
				if _, err := r.Reconcile(b.Context(), ctrl.Request{NamespacedName: limiterName}); err != nil {
					b.Fatal(err)
				}
			}
			report := func() {
				if _, err := r.Reporter.Reconcile(b.Context(), ctrl.Request{}); err != nil {
					b.Fatal(err)
				}
			}
			before, writes := "", cache.policyWrites.Load()
			for b.Loop() {
				before, cache.enforced = cache.revision, cache.revision
				edit.change(cache)
				cache.now.Add(1000)
				r.changes.Add(r.Clock())
				r.Reporter.Changed()
				report()
				pass()
				report()
				cache.enforced = ""
				pass()
				report()
			}
			if cache.revision == before || int(cache.policyWrites.Load()-writes) < b.N {
				b.Errorf("revision %s, %d writes for %d edits", cache.revision, cache.policyWrites.Load()-writes, b.N)
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
	if first != policies+1 || rounds < 2 {
		t.Errorf("%d writes of policy statuses at the start, in %d rounds, want %d in several", first, rounds, policies+1)
	}
	if writes := int(cache.policyWrites.Load()) - first; writes != 0 {
		t.Errorf("%d writes of policy statuses while 3 replicas became 6 and 3 again, want 0", writes)
	}
}

// changeOfOne changes one object, on which one policy depends, or one and the ClusterRateLimitPolicy that it replaces.
type changeOfOne struct {
	name   string
	writes int32 // of statuses of policies
	change func(*instant)
}

func changesOfOne() []changeOfOne {
	edit := func(s *instant, edit func(*v1alpha1.RateLimitPolicySpec)) {
		p := s.policies[7].DeepCopy() // an informer replaces the object
		p.Generation, p.ResourceVersion = p.Generation+1, p.ResourceVersion+"1"
		edit(&p.Spec)
		s.policies[7] = p
	}
	return []changeOfOne{
		{"a limit", 1, func(s *instant) {
			edit(s, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Limit = new(*spec.Limit + 1) })
		}},
		{"an override", 2, func(s *instant) {
			edit(s, func(spec *v1alpha1.RateLimitPolicySpec) {
				if spec.Replaces == nil {
					spec.Replaces = []v1alpha1.PolicyName{defaultName}
				} else {
					spec.Replaces = nil
				}
			})
		}},
		{"a label of a namespace", 1, func(s *instant) {
			n := &s.namespaces[0]
			n.ResourceVersion += "1"
			if n.Labels = map[string]string{"limited": "no"}; len(n.ResourceVersion)%2 == 1 {
				n.Labels["limited"] = yesLabel
			}
		}},
		{"a route", 1, func(s *instant) {
			routes := slices.Clone(s.gateways.Routes)
			if s.gateways.Version++; s.gateways.Version%2 == 0 {
				routes[0].Name = "renamed"
			} else {
				routes[0].Name = s.policies[1].Name
			}
			s.gateways.Routes = routes
		}},
	}
}

// A change of one object costs what it changes: it writes the statuses of the policies that depend on it, and allocates as much as with fewer policies, apart
// from lists and maps of all.
func TestReconcile_AChangeCostsWhatItChanges(t *testing.T) {
	for _, c := range changesOfOne() {
		t.Run(c.name, func(t *testing.T) {
			allocations := map[int]float64{}
			for _, policies := range []int{100, 1000} {
				cache := newInstant(policies, 2)
				r := cache.reconciler(t)
				cache.settle(t, r)
				change := func() {
					c.change(cache)
					cache.now.Add(1000)
					r.Reporter.Changed()
					r.changes.Add(r.Clock())
					cache.settle(t, r)
				}
				before, revision := cache.policyWrites.Load(), cache.revision
				change()
				if writes := cache.policyWrites.Load() - before; writes != c.writes {
					t.Errorf("with %d policies, it writes %d statuses of policies, want %d", policies, writes, c.writes)
				}
				if cache.revision == revision {
					t.Errorf("with %d policies, the rules are the same afterwards", policies)
				}
				allocations[policies] = testing.AllocsPerRun(6, change)
			}
			if few, many := allocations[100], allocations[1000]; many > few+200 {
				t.Errorf("it allocates %.0f times with 100 policies, and %.0f times with 1000", few, many)
			}
		})
	}
}

// instant fakes an API server, its cache, a Redis and replicas. All of them are always up to date.
type instant struct {
	client.Client
	policies     []*v1alpha1.RateLimitPolicy
	cluster      []*v1alpha1.ClusterRateLimitPolicy
	namespaces   []metav1.PartialObjectMetadata
	gateways     gateway.Objects
	now          atomic.Int64 // in milliseconds, so that nothing depends on the speed of the machine
	revision     string
	enforced     string       // by the replicas, empty for the revision
	replicas     int32        // with a heartbeat
	ready        int32        // pods
	policyWrites atomic.Int32 // several at a time
}

const (
	defaultName = "per-tenant" // the ClusterRateLimitPolicy
	yesLabel    = "yes"
)

// newInstant returns policies in 100 namespaces. One in ten has a route of its own. The first policy is alone in its namespace.
func newInstant(policies int, replicas int32) *instant {
	cache := &instant{replicas: replicas, ready: replicas, gateways: gateway.Objects{Version: 1}}
	cache.now.Store(1_800_000_000_000)
	spec := v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(int64(100)), Window: "1d", Algorithm: v1alpha1.SlidingWindowCounter}
	for i := range 101 {
		cache.namespaces = append(cache.namespaces, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("team-%d", i-1), UID: types.UID(fmt.Sprintf("namespace-%d", i)), ResourceVersion: "1", Labels: map[string]string{"limited": yesLabel},
		}})
	}
	cache.namespaces[0].Name = "apart"
	cache.cluster = []*v1alpha1.ClusterRateLimitPolicy{{
		ObjectMeta: metav1.ObjectMeta{Name: defaultName, UID: defaultName, ResourceVersion: "1", Generation: 1},
		Spec: v1alpha1.ClusterRateLimitPolicySpec{
			RateLimitPolicySpec: v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(int64(1000)), Window: "1d"},
			Precedence:          v1alpha1.PrecedenceDefault,
		},
	}}
	for i := range policies {
		p := &v1alpha1.RateLimitPolicy{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("team-%d", i%100), Name: fmt.Sprintf("policy-%d", i),
				UID: types.UID(strconv.Itoa(i)), ResourceVersion: "1", Generation: 1,
			},
			Spec: spec,
		}
		if i == 0 {
			p.Namespace = "apart"
		}
		if i%10 == 1 {
			p.Spec.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetHTTPRoute, Name: p.Name}}
			cache.gateways.Routes = append(cache.gateways.Routes, gateway.Route{
				Kind: v1alpha1.TargetHTTPRoute, Namespace: p.Namespace, Name: p.Name, Parents: []gateway.Parent{{Namespace: p.Namespace, Gateway: "own"}},
			})
		}
		cache.policies = append(cache.policies, p)
	}
	return cache
}

func (s *instant) reconciler(tb testing.TB) *Reconciler {
	tb.Helper()
	r, err := New(Config{
		Client: s, Uncached: s, Open: func(*v1alpha1.Limiter) (publish.Store, error) { return s, nil }, KeyPrefix: "weir:",
		Resync: time.Minute, Clock: func() time.Time { return time.UnixMilli(s.now.Load()) }, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	r.Gateways, r.Reporter.Gateways = s, s
	return r
}

// Read implements [selection.GatewayReader].
func (s *instant) Read(context.Context) (*gateway.Objects, uint64, error) {
	objects := s.gateways
	return &objects, objects.Version, nil
}

// Changed returns nil, because no watch uses it.
func (s *instant) Changed() <-chan struct{} { return nil }

func (s *instant) reconcile(tb testing.TB, r *Reconciler) ctrl.Result {
	tb.Helper()
	s.now.Add(10)
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
	case *v1alpha1.LimiterList:
		policies.Items = []v1alpha1.Limiter{s.limiter()}
	case *metav1.PartialObjectMetadataList:
		policies.Items = slices.Clone(s.namespaces)
	default:
		return fmt.Errorf("list of %T", list)
	}
	return nil
}

// ListPolicies implements [selection.PolicyLister].
func (s *instant) ListPolicies(context.Context) (stored.Policies, error) {
	return stored.Policies{Namespaced: slices.Clone(s.policies), Cluster: slices.Clone(s.cluster)}, nil
}

func (s *instant) limiter() v1alpha1.Limiter {
	return v1alpha1.Limiter{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: limiterName.Namespace, Name: limiterName.Name, UID: "limiter", Generation: 1, ResourceVersion: "1",
		},
		Spec:   v1alpha1.LimiterSpec{PolicyNamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"limited": yesLabel}}},
		Status: v1alpha1.LimiterStatus{ReadyReplicas: s.ready},
	}
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
	revision := cmp.Or(s.enforced, s.revision)
	return slices.Repeat([]publish.Replica{{Revision: revision, Format: rules.Format}}, int(s.replicas)), nil
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
	case *v1alpha1ac.ClusterRateLimitPolicyApplyConfiguration:
		s.policyWrites.Add(1)
		a.WithResourceVersion("2")
	case *v1alpha1ac.LimiterApplyConfiguration:
		a.WithResourceVersion("2")
	default:
		return fmt.Errorf("apply of %T", apply)
	}
	return nil
}
