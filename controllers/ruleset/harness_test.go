package ruleset

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // which complains if nobody sets one
	fixture.Main(m)
}

var limiterName = types.NamespacedName{Namespace: "weir-system", Name: "default"}

// decider stands for the script that decides.
var decider = Script{Name: "spend", SHA: "0123456789012345678901234567890123456789"}

// harness is a Reconciler on a real API server and a real Redis, called by hand.
type harness struct {
	*testing.T
	kube       client.Client
	redis      *fixture.RedisProcess
	exchange   *redisstore.Exchange
	store      store
	registry   *prometheus.Registry
	reconciler *Reconciler
	namespace  string
	now        time.Time
}

// store is what cmd/weir fills the controller's interface with.
type store struct {
	client *redisstore.Client
	*redisstore.Exchange
}

func (s store) LoadScripts(ctx context.Context) error {
	_, err := s.client.LoadScripts(ctx)
	return err
}

func (s store) Replicas(ctx context.Context) ([]Replica, error) {
	var replicas []Replica
	live, err := s.Exchange.Replicas(ctx)
	for _, r := range live {
		replicas = append(replicas, Replica{ID: r.ID, Revision: r.Revision, Mode: r.Mode, Since: r.Since})
	}
	return replicas, err
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	kube := fixture.Kube(t)
	h := &harness{T: t, redis: fixture.Redis(t), namespace: fixture.Namespace(t, kube), now: time.Unix(1_800_000_000, 0)}
	scheme := runtime.NewScheme()
	h.must(v1alpha1.AddToScheme(scheme))
	h.must(corev1.AddToScheme(scheme))
	var err error
	h.kube, err = client.New(kube.Config(), client.Options{Scheme: scheme})
	h.must(err)
	h.prepareLimiterNamespace()
	// All policies of the cluster are one rule set: the next test must not see those of this one.
	t.Cleanup(func() {
		h.must(h.kube.DeleteAllOf(context.Background(), &v1alpha1.RateLimitPolicy{}, client.InNamespace(h.namespace)))
		h.must(h.kube.DeleteAllOf(context.Background(), &v1alpha1.ClusterRateLimitPolicy{}))
	})
	redis, err := redisstore.Open(h.redis.URL(), time.Second)
	h.must(err)
	t.Cleanup(func() { _ = redis.Close() })
	h.exchange = redisstore.NewExchange(redis, "weir:", limiterName.String())
	h.store = store{redis, h.exchange}
	h.restart()
	return h
}

// prepareLimiterNamespace makes the limiter's namespace one in which no operator has run yet.
func (h *harness) prepareLimiterNamespace() {
	h.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: limiterName.Namespace}}
	if err := h.kube.Create(h.Context(), namespace); !apierrors.IsAlreadyExists(err) {
		h.must(err)
	}
	h.must(h.kube.DeleteAllOf(h.Context(), &corev1.ConfigMap{}, client.InNamespace(limiterName.Namespace)))
}

// restart begins anew with a Reconciler that remembers nothing.
func (h *harness) restart() {
	h.Helper()
	h.registry = prometheus.NewRegistry()
	var err error
	h.reconciler, err = New(Config{
		Limiter:   limiterName,
		Client:    h.kube,
		Uncached:  h.kube,
		Store:     h.store,
		Identity:  compile.DefaultIdentity(),
		KeyPrefix: "weir:",
		Decider:   decider,
		Resync:    5 * time.Second,
		Clock:     func() time.Time { return h.now },
		Metrics:   h.registry,
	})
	h.must(err)
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// reconcile lets a second pass and calls Reconcile.
func (h *harness) reconcile() ctrl.Result {
	h.Helper()
	h.now = h.now.Add(time.Second)
	result, err := h.reconciler.Reconcile(h.Context(), ctrl.Request{NamespacedName: limiterName})
	h.must(err)
	if result.RequeueAfter <= 0 {
		h.Error("nothing will look after Redis again")
	}
	return result
}

// create creates a policy of 100 units a day for each tenant, changed by change if given.
func (h *harness) create(name string, change func(*v1alpha1.RateLimitPolicySpec)) {
	h.Helper()
	p := v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name},
		Spec: v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisTenant, Limit: 100, Window: "1d", Algorithm: v1alpha1.SlidingWindowCounter,
		},
	}
	if change != nil {
		change(&p.Spec)
	}
	h.must(h.kube.Create(h.Context(), &p))
}

func (h *harness) edit(name string, change func(*v1alpha1.RateLimitPolicySpec)) {
	h.Helper()
	p := h.policy(name)
	change(&p.Spec)
	h.must(h.kube.Update(h.Context(), p))
}

func (h *harness) policy(name string) *v1alpha1.RateLimitPolicy {
	h.Helper()
	var p v1alpha1.RateLimitPolicy
	h.must(h.kube.Get(h.Context(), client.ObjectKey{Namespace: h.namespace, Name: name}, &p))
	return &p
}

// beat lets replicas say that they enforce revision.
func (h *harness) beat(revision string, ids ...string) {
	h.Helper()
	for _, id := range ids {
		h.must(h.exchange.Beat(h.Context(), redisstore.Replica{ID: id, Revision: revision, Mode: "redis"}))
	}
}

// beatLocal lets replicas say that they enforce revision, and decide without Redis since then.
func (h *harness) beatLocal(revision string, since time.Time, ids ...string) {
	h.Helper()
	for _, id := range ids {
		h.must(h.exchange.Beat(h.Context(), redisstore.Replica{ID: id, Revision: revision, Mode: ModeLocal, Since: since}))
	}
}

// current is the revision in force.
func (h *harness) current() string {
	h.Helper()
	revision, err := h.exchange.Current(h.Context())
	h.must(err)
	return revision
}

// published is the rule set in force, by policy without namespace.
func (h *harness) published() map[string]int64 {
	h.Helper()
	data, found, err := h.exchange.Load(h.Context(), h.current())
	h.must(err)
	if !found {
		h.Fatal("the rule set in force is not there")
	}
	set, _, err := rules.Decode(data)
	h.must(err)
	units := map[string]int64{}
	for _, rule := range set.Rules {
		units[rule.Policy[len(h.namespace)+1:]] = rule.Units
	}
	return units
}

// flushAll takes everything from Redis. The inline form of the protocol needs no client.
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

// says fails unless the policy's condition has that status and reason, and speaks of the latest generation.
func (h *harness) says(name, kind string, status metav1.ConditionStatus, reason string) {
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

// silent fails if the policy has one of the conditions.
func (h *harness) silent(name string, kinds ...string) {
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

// versions are the resource versions of all policies.
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

// metric is the value of a gauge, or the number of observations of a histogram, with that label value if one is given.
func (h *harness) metric(name, label string) float64 {
	h.Helper()
	families, err := h.registry.Gather()
	h.must(err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label != "" && m.GetLabel()[0].GetValue() != label {
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
