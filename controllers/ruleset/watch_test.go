package ruleset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestPredicates_AcceptReplacedObjectsAndReadyReplicas(t *testing.T) {
	one := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 1}}
	two := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{UID: "2", Generation: 1}}
	ready := func(n int32) *v1alpha1.Limiter {
		return &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 1}, Status: v1alpha1.LimiterStatus{ReadyReplicas: n}}
	}
	for name, c := range map[string]struct {
		predicate     predicate.Predicate
		before, after client.Object
		want          bool
	}{
		"the same policy":             {replaced(), one, one, false},
		"another policy":              {replaced(), one, two, true},
		"an unchanged Limiter":        {readyReplicasChanged(), ready(2), ready(2), false},
		"a Limiter with one pod less": {readyReplicasChanged(), ready(2), ready(1), true},
		"an object of another kind":   {readyReplicasChanged(), one, one, false},
	} {
		if got := c.predicate.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: accepted %v, want %v", name, got, c.want)
		}
	}
}

// interruptible is a connection to the API server. While it is interrupted, lists and watches of policies fail.
type interruptible struct {
	http.RoundTripper

	mu          sync.Mutex
	interrupted bool
	watches     []io.Closer
}

func (c *interruptible) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/ratelimitpolicies") {
		return c.RoundTripper.RoundTrip(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted {
		return nil, errors.New("interrupted")
	}
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		c.watches = append(c.watches, response.Body)
	}
	return response, err
}

func (c *interruptible) set(interrupted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = interrupted
	if interrupted {
		for _, w := range c.watches {
			_ = w.Close() // the error does not matter
		}
	}
}

func TestSetupWithManager_PublishesAPolicyThatWasReplacedDuringAWatchOutage(t *testing.T) {
	h := newHarness(t)
	connection := &interruptible{}
	h.manage(time.Hour, func(next http.RoundTripper) http.RoundTripper { // without resyncs, only watches report changes
		connection.RoundTripper = next
		return connection
	})
	fixture.Await(h, "a rule set is published", func() bool { return h.activeRevision() != "" })
	h.createPolicy("daily", nil)
	fixture.Await(h, "the policy is published", func() bool { return h.activeLimits()["daily"] == 100 })

	connection.set(true)
	h.must(h.kube.Delete(t.Context(), h.policy("daily")))
	h.createPolicy("daily", limit(7))
	connection.set(false)
	fixture.Await(h, "the new policy is published", func() bool { return h.activeLimits()["daily"] == 7 })
	fixture.Await(h, "the new policy is Ready", func() bool {
		h.heartbeat(h.activeRevision(), "a")
		c := h.policy("daily").Status.Conditions
		return len(c) == 4 && c[3].Type == v1alpha1.ConditionReady && c[3].Status == yes
	})

	h.setReadyPods(2) // no other event reports it
	fixture.Await(h, "the missing heartbeat is reported", func() bool {
		h.heartbeat(h.activeRevision(), "a")
		return h.message("daily", v1alpha1.ConditionReady) == "1 of 2 replicas enforce generation 1"
	})
}

// A GitOps tool applies 100 policies at the same time: they need a handful of publications, five a second, and the last one has all, however fast the
// replicas enforce each of them.
func TestSetupWithManager_PublishesEditsThatFollowEachOtherTogether(t *testing.T) {
	for name, hasReplica := range map[string]bool{"no replicas": false, "a replica that is fast": true} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.manage(time.Hour, nil) // without resyncs, only watches report changes
			fixture.Await(h, "a rule set is published", func() bool { return h.activeRevision() != "" })
			if hasReplica {
				stop := h.enforcing(t)
				defer stop()
			}
			published := func() int { // each publication is listed
				reply, err := h.redis.Do(t.Context(), "LLEN", "weir:rules:"+limiterName.String()+":superseded")
				h.must(err)
				n, ok := reply.(int64)
				if !ok {
					t.Fatalf("LLEN returned %v", reply)
				}
				return int(n)
			}
			before, began := published(), time.Now()
			const policies, together = 100, 8
			var group sync.WaitGroup
			for i := range together {
				group.Go(func() {
					for n := i; n < policies; n += together {
						p := h.newPolicy(fmt.Sprintf("p%03d", n), nil)
						if err := h.kube.Create(t.Context(), p); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			took := time.Since(began)
			fixture.Await(h, "all policies are published", func() bool { return len(h.activeLimits()) == policies })
			if n := published() - before; n > 2+int(took/(200*time.Millisecond)) {
				t.Errorf("%d publications for %d policies in %v", n, policies, took)
			}
		})
	}
}

// An edit is one change. If it counted as several, it would look like those of a GitOps tool, and wait for others.
func TestSetupWithManager_CountsEachChangeOnce(t *testing.T) {
	h := newHarness(t)
	h.manage(time.Hour, nil)
	fixture.Await(h, "a rule set is published", func() bool { return h.activeRevision() != "" })
	for _, step := range []struct {
		name   string
		change func()
		limit  int64 // that is published then
	}{
		{"created", func() { h.createPolicy("daily", nil) }, 100},
		{"edited", func() { h.editPolicy("daily", limit(7)) }, 7},
		{"deleted", func() { h.must(h.kube.Delete(t.Context(), h.policy("daily"))) }, 0},
	} {
		before, _ := h.reconciler.changes.Since(0)
		step.change()
		fixture.Await(h, "the policy is "+step.name, func() bool { return h.activeLimits()["daily"] == step.limit })
		if after, _ := h.reconciler.changes.Since(0); after != before+1 {
			t.Errorf("a policy that is %s counts as %d changes, want 1", step.name, after-before)
		}
	}
}

// enforcing sends heartbeats of a replica that enforces each rule set immediately, until stop is called.
func (h *harness) enforcing(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for revision := range h.exchange.Subscribe(ctx) {
			if revision == "" { // at the beginning
				revision, _ = h.exchange.Current(ctx)
			}
			err := h.exchange.Heartbeat(ctx, controlplane.Replica{ID: "a", Revision: revision, Mode: "redis", Format: rules.Format})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// The watch reports one change, and no later ones.
func TestReconcile_ReadsUnwatchedChangesWithinAMinute(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconciler.changes.Add(h.now)
	h.reconcile()
	h.editPolicy("daily", limit(7))
	h.reconcile()
	if got := h.activeLimits()["daily"]; got != 100 {
		t.Fatalf("limit %d: the policies were read although no watch reported a change", got)
	}
	h.now = h.now.Add(gatherInterval)
	h.reconcile()
	if got := h.activeLimits()["daily"]; got != 7 {
		t.Errorf("limit %d is published after a minute, want 7", got)
	}
}

// The controller runs as in the operator: with caches, watches and leader election, and with the permissions in config/.
func TestSetupWithManager_RunsWithThePermissionsOfTheManifests(t *testing.T) {
	h := newHarness(t)
	kube := kubetest.Kube(t)
	root, err := fixture.ModuleRoot()
	h.must(err)
	_, err = kube.Kubectl(t.Context(), "apply", "-k", filepath.Join(root, "config", "default"))
	h.must(err)
	config := kube.Config()
	config.Impersonate.UserName = "system:serviceaccount:weir-system:weir-operator"
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        h.kube.Scheme(),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		Cache:                         cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true},
		Controller:                    controllerconfig.Controller{SkipNameValidation: new(true)}, // for -count
		LeaderElection:                true,
		LeaderElectionID:              "weir-operator",
		LeaderElectionNamespace:       "weir-system",
		LeaderElectionReleaseOnCancel: true,
	})
	h.must(err)
	h.reconciler.Client = mgr.GetClient()
	h.reconciler.Uncached = mgr.GetAPIReader()
	h.reconciler.Clock = time.Now
	h.reconciler.Resync = time.Second
	h.must(h.reconciler.SetupWithManager(mgr))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		h.must(<-ended)
	}()

	fixture.Await(h, "a rule set is published without any policy", func() bool { return h.activeRevision() != "" })
	fixture.Await(h, "the snapshot is written", func() bool { return h.snapshot() != nil })
	h.createPolicy("daily", nil)
	fixture.Await(h, "the policy is published", func() bool { return h.activeLimits()["daily"] == 100 })
	ready := func() bool {
		h.heartbeat(h.activeRevision(), "a")
		c := h.policy("daily").Status.Conditions
		return len(c) == 4 && c[3].Type == v1alpha1.ConditionReady && c[3].Status == yes
	}
	fixture.Await(h, "the policy is Ready", ready)
	h.editPolicy("daily", limit(7))
	fixture.Await(h, "the edit is published", func() bool { return h.activeLimits()["daily"] == 7 })
	fixture.Await(h, "the edit is in the snapshot", func() bool { return h.snapshotLimits()["daily"] == 7 })
	fixture.Await(h, "the policy is Ready again", func() bool { return ready() && h.policy("daily").Status.ObservedGeneration == 2 })

	h.must(h.kube.Delete(t.Context(), h.snapshot()))
	fixture.Await(h, "the snapshot is restored", func() bool { return h.snapshot() != nil && h.snapshotLimits()["daily"] == 7 })
	h.flushAll()
	fixture.Await(h, "the rule set is restored", func() bool { return h.activeRevision() != "" && h.activeLimits()["daily"] == 7 })
	h.must(h.kube.Delete(t.Context(), h.policy("daily")))
	fixture.Await(h, "the policy is not published any more", func() bool { return len(h.activeLimits()) == 0 })
}
