package ruleset

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns if no logger is set
	kubetest.Main(m)
}

var limiterName = types.NamespacedName{Namespace: "weir-system", Name: "default"}

// harness has a Reconciler with a real API server and a real Redis. The tests call the Reconciler directly.
type harness struct {
	*testing.T
	kube       client.Client
	redis      *fixture.RedisProcess
	exchange   *controlplane.Exchange
	url        func(*v1alpha1.Limiter) string // of the Redis that is opened for it
	registry   *prometheus.Registry
	reconciler *Reconciler
	namespace  string
	now        time.Time
}

// store implements publish.Store with Redis, as cmd/weir does.
type store struct {
	client *redisclient.Client
	*controlplane.Exchange
}

func (s store) LoadScripts(ctx context.Context) ([]publish.Script, error) {
	var scripts []publish.Script
	loaded, err := s.client.LoadScripts(ctx, slices.Concat(redisstore.Scripts(), controlplane.Scripts()))
	for _, l := range loaded {
		scripts = append(scripts, publish.Script{Name: l.Name, SHA: l.SHA, LoadedOn: l.LoadedOn})
	}
	return scripts, err
}

func (s store) Inspect(ctx context.Context) (publish.Redis, error) {
	found, err := s.client.Inspect(ctx)
	return publish.Redis{Primaries: found.Primaries, Version: found.Version, Warnings: found.Warnings}, err
}

func (s store) Close() error { return s.client.Close() }

func (s store) Replicas(ctx context.Context) ([]publish.Replica, error) {
	var replicas []publish.Replica
	live, err := s.Exchange.Replicas(ctx)
	for _, r := range live {
		replicas = append(replicas, publish.Replica(r))
	}
	return replicas, err
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	kube := kubetest.Kube(t)
	h := &harness{T: t, redis: fixture.Redis(t), namespace: kubetest.Namespace(t, kube), now: time.Unix(1_800_000_000, 0)}
	scheme := runtime.NewScheme()
	h.must(v1alpha1.AddToScheme(scheme))
	h.must(corev1.AddToScheme(scheme))
	var err error
	h.kube, err = client.New(kube.Config(), client.Options{Scheme: scheme})
	h.must(err)
	h.prepareLimiterNamespace()
	// A Limiter selects all policies of the cluster: the next test must find no policies or Limiters of this one.
	t.Cleanup(func() {
		h.must(h.kube.DeleteAllOf(context.Background(), &v1alpha1.Limiter{}, client.InNamespace(limiterName.Namespace)))
		h.must(h.kube.DeleteAllOf(context.Background(), &v1alpha1.RateLimitPolicy{}, client.InNamespace(h.namespace)))
		h.must(h.kube.DeleteAllOf(context.Background(), &v1alpha1.ClusterRateLimitPolicy{}))
	})
	h.exchange = h.open(h.redis.URL(), limiterName).Exchange
	h.url = func(*v1alpha1.Limiter) string { return h.redis.URL() }
	h.createLimiter(limiterName.Name, nil)
	h.restartOperator()
	return h
}

// open returns the store of a Limiter in the Redis with that URL.
func (h *harness) open(url string, limiter types.NamespacedName) store {
	h.Helper()
	redis, err := redisclient.Open(url, time.Second)
	h.must(err)
	h.Cleanup(func() { _ = redis.Close() })
	return store{redis, controlplane.NewExchange(redis, "weir:", limiter.String())}
}

// createLimiter creates a Limiter that selects all policies. A non-nil change is applied to the spec.
func (h *harness) createLimiter(name string, change func(*v1alpha1.LimiterSpec)) {
	h.Helper()
	l := &v1alpha1.Limiter{
		ObjectMeta: metav1.ObjectMeta{Namespace: limiterName.Namespace, Name: name},
		Spec:       v1alpha1.LimiterSpec{Redis: v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{v1alpha1.RedisAddress(h.redis.Addr())}}},
	}
	if change != nil {
		change(&l.Spec)
	}
	h.must(h.kube.Create(h.Context(), l))
}

func (h *harness) limiter(name string) *v1alpha1.Limiter {
	h.Helper()
	var l v1alpha1.Limiter
	h.must(h.kube.Get(h.Context(), client.ObjectKey{Namespace: limiterName.Namespace, Name: name}, &l))
	return &l
}

// prepareLimiterNamespace creates the namespace of the limiter, and deletes what an operator has written there.
func (h *harness) prepareLimiterNamespace() {
	h.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: limiterName.Namespace}}
	if err := h.kube.Create(h.Context(), namespace); !apierrors.IsAlreadyExists(err) {
		h.must(err)
	}
	h.must(h.kube.DeleteAllOf(h.Context(), &corev1.ConfigMap{}, client.InNamespace(limiterName.Namespace)))
}

// restartOperator replaces the Reconciler with one that remembers nothing.
func (h *harness) restartOperator() {
	h.Helper()
	h.registry = prometheus.NewRegistry()
	var err error
	h.reconciler, err = New(Config{
		Client:   h.kube,
		Uncached: h.kube,
		Open: func(l *v1alpha1.Limiter) (publish.Store, error) {
			return h.open(h.url(l), client.ObjectKeyFromObject(l)), nil
		},
		KeyPrefix: "weir:",
		Resync:    5 * time.Second,
		Clock:     func() time.Time { return h.now },
		Metrics:   h.registry,
	})
	h.must(err)
	h.reconciler.publishWait = time.Minute // a slow machine must not change what the tests observe
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// reconcile lets a second pass, reconciles the Limiters, by default the one named default, and reports the policies. It returns
// the result for the first Limiter.
func (h *harness) reconcile(limiters ...string) ctrl.Result {
	h.Helper()
	h.now = h.now.Add(time.Second)
	if len(limiters) == 0 {
		limiters = []string{limiterName.Name}
	}
	var first ctrl.Result
	for i, name := range limiters {
		result, err := h.reconciler.Reconcile(h.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: limiterName.Namespace, Name: name}})
		h.must(err)
		if i == 0 {
			first = result
		}
	}
	if first.RequeueAfter <= 0 {
		h.Error("it is not requeued: Redis is not verified again")
	}
	h.report()
	return first
}

// report reports the policies.
func (h *harness) report() ctrl.Result {
	h.Helper()
	result, err := h.reconciler.Reporter.Reconcile(h.Context(), ctrl.Request{})
	h.must(err)
	return result
}

// state returns the reconciler of the Limiter named default.
func (h *harness) state() *limiterReconciler { return h.reconciler.limiter(limiterName) }

// createPolicy creates a policy of 100 units a day for each tenant. A non-nil change is applied to the spec.
func (h *harness) createPolicy(name string, change func(*v1alpha1.RateLimitPolicySpec)) {
	h.Helper()
	h.must(h.kube.Create(h.Context(), h.newPolicy(name, change)))
}

// newPolicy returns the policy that createPolicy creates. Unlike createPolicy, other goroutines than that of the test can call it.
func (h *harness) newPolicy(name string, change func(*v1alpha1.RateLimitPolicySpec)) *v1alpha1.RateLimitPolicy {
	p := &v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name},
		Spec: v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisTenant, Limit: new(int64(100)), Window: "1d", Algorithm: v1alpha1.SlidingWindowCounter,
		},
	}
	if change != nil {
		change(&p.Spec)
	}
	return p
}

func (h *harness) editPolicy(name string, change func(*v1alpha1.RateLimitPolicySpec)) {
	h.Helper()
	h.update(func() error {
		p := h.policy(name)
		change(&p.Spec)
		return h.kube.Update(h.Context(), p)
	})
}

// update repeats a change of an object that the operator changes at the same time.
func (h *harness) update(change func() error) {
	h.Helper()
	h.must(retry.RetryOnConflict(retry.DefaultBackoff, change))
}

func (h *harness) policy(name string) *v1alpha1.RateLimitPolicy {
	h.Helper()
	var p v1alpha1.RateLimitPolicy
	h.must(h.kube.Get(h.Context(), client.ObjectKey{Namespace: h.namespace, Name: name}, &p))
	return &p
}

// heartbeat writes heartbeats of replicas that enforce the revision.
func (h *harness) heartbeat(revision string, ids ...string) {
	h.Helper()
	for _, id := range ids {
		h.must(h.exchange.Heartbeat(h.Context(), controlplane.Replica{ID: id, Revision: revision, Mode: "redis", Format: rules.Format}))
	}
}

// localHeartbeat writes heartbeats of replicas that enforce the revision, in local mode since then.
func (h *harness) localHeartbeat(revision string, since time.Time, ids ...string) {
	h.Helper()
	for _, id := range ids {
		h.must(h.exchange.Heartbeat(h.Context(), controlplane.Replica{ID: id, Revision: revision, Mode: publish.ModeLocal, Since: since, Format: rules.Format}))
	}
}

// activeRevision returns the revision of the active rule set.
func (h *harness) activeRevision() string {
	h.Helper()
	revision, err := h.exchange.Current(h.Context())
	h.must(err)
	return revision
}

// activeLimits returns the limits in the active rule set, by the name of the policy without its namespace.
func (h *harness) activeLimits() map[string]int64 {
	h.Helper()
	data, found, err := h.exchange.Archive(h.Context(), h.activeRevision())
	h.must(err)
	if !found {
		h.Fatal("the active rule set is missing")
	}
	set, _, err := rules.Decode(data)
	h.must(err)
	units := map[string]int64{}
	for _, rule := range set.Rules {
		units[rule.Policy[len(h.namespace)+1:]] = rule.Units
	}
	return units
}

// flushAll deletes all keys in Redis. The inline form of the protocol needs no client.
func (h *harness) flushAll() {
	h.Helper()
	conn, err := net.Dial("tcp", h.redis.Addr())
	h.must(err)
	defer conn.Close()
	_, err = conn.Write([]byte("FLUSHALL\r\n"))
	h.must(err)
	reply := make([]byte, len("+OK\r\n"))
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+OK\r\n" {
		h.Fatalf("FLUSHALL: %q, %v", reply, err)
	}
}

// hasCondition fails the test unless the policy has the condition with that status and reason, for its current generation.
func (h *harness) hasCondition(name, kind string, status metav1.ConditionStatus, reason string) {
	h.Helper()
	p := h.policy(name)
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil {
		h.Errorf("%s has no condition %s", name, kind)
		return
	}
	if c.Status != status || c.Reason != reason || c.ObservedGeneration != p.Generation {
		h.Errorf("%s: %s=%s %s (generation %d, message %q), want %s %s (generation %d)",
			name, kind, c.Status, c.Reason, c.ObservedGeneration, c.Message, status, reason, p.Generation)
	}
}

// hasNoCondition fails the test if the policy has one of the conditions.
func (h *harness) hasNoCondition(name string, kinds ...string) {
	h.Helper()
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(h.policy(name).Status.Conditions, kind); c != nil {
			h.Errorf("%s: %s=%s %s, want no such condition", name, kind, c.Status, c.Reason)
		}
	}
}

func (h *harness) message(name, kind string) string {
	h.Helper()
	c := meta.FindStatusCondition(h.policy(name).Status.Conditions, kind)
	if c == nil {
		h.Fatalf("%s has no condition %s", name, kind)
	}
	return c.Message
}

// versions returns the resource versions of all policies.
func (h *harness) versions() map[string]string {
	h.Helper()
	var list v1alpha1.RateLimitPolicyList
	h.must(h.kube.List(h.Context(), &list, client.InNamespace(h.namespace)))
	versions := map[string]string{}
	for _, p := range list.Items {
		versions[p.Name] = p.ResourceVersion
	}
	return versions
}

// metric returns the value of a gauge, or the number of observations of a histogram. A label value that is not empty selects the
// series.
func (h *harness) metric(name, label string) float64 {
	h.Helper()
	families, err := h.registry.Gather()
	h.must(err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label != "" && !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == label }) {
				continue
			}
			if m.GetHistogram() != nil {
				return float64(m.GetHistogram().GetSampleCount())
			}
			return m.GetGauge().GetValue()
		}
	}
	return 0
}

// manage runs the controllers with a manager until the test ends. The requests to the API server go through wrap.
func (h *harness) manage(resync time.Duration, wrap func(next http.RoundTripper) http.RoundTripper) {
	h.Helper()
	h.withManager(resync, wrap, func(ctrl.Manager) {})
}

// withManager is manage, and prepares the manager before the controllers are added to it.
func (h *harness) withManager(resync time.Duration, wrap func(next http.RoundTripper) http.RoundTripper, prepare func(ctrl.Manager)) {
	h.Helper()
	config := kubetest.Kube(h.T).Config()
	config.Wrap(wrap)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:     h.kube.Scheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ReaderFailOnMissingInformer: true},
		Controller: controllerconfig.Controller{SkipNameValidation: new(true)},
	})
	h.must(err)
	h.reconciler.Config.Client, h.reconciler.Config.Uncached = selection.WithInformers(mgr.GetClient(), mgr.GetCache()), mgr.GetAPIReader()
	h.reconciler.Config.Clock, h.reconciler.Config.Resync = time.Now, resync
	h.reconciler.Reporter.Client, h.reconciler.Reporter.Clock = h.reconciler.Client, h.reconciler.Clock
	prepare(mgr)
	h.must(h.reconciler.SetupWithManager(mgr))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	h.Cleanup(func() {
		stop()
		h.must(<-ended)
	})
}
