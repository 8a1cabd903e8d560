package ruleset

import (
	"context"
	"errors"
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
	"github.com/weir-dev/weir/test/fixture"
)

func TestAnotherObjectOfTheSameNameIsNews(t *testing.T) {
	one := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 1}}
	two := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{UID: "2", Generation: 1}}
	ready := func(n int32) *v1alpha1.Limiter {
		return &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 1}, Status: v1alpha1.LimiterStatus{ReadyReplicas: n}}
	}
	for name, c := range map[string]struct {
		pass          predicate.Predicate
		before, after client.Object
		want          bool
	}{
		"the policy as it was":          {replaced(), one, one, false},
		"another policy":                {replaced(), one, two, true},
		"a Limiter as it was":           {readyReplicasChanged(), ready(2), ready(2), false},
		"a Limiter with one pod fewer":  {readyReplicasChanged(), ready(2), ready(1), true},
		"what is no Limiter, as it was": {readyReplicasChanged(), one, one, false},
	} {
		if got := c.pass.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: passes %v, want %v", name, got, c.want)
		}
	}
}

// cuttable is the way to the API server; watches of policies can be cut, and neither they nor lists begin again until it is mended.
type cuttable struct {
	http.RoundTripper

	mu      sync.Mutex
	cut     bool
	watches []io.Closer
}

func (c *cuttable) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/ratelimitpolicies") {
		return c.RoundTripper.RoundTrip(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("cut")
	}
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		c.watches = append(c.watches, response.Body)
	}
	return response, err
}

func (c *cuttable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for _, w := range c.watches {
			_ = w.Close() // which is all there is to it
		}
	}
}

func TestAPolicyThatWasReplacedWhileTheWatchWasDownIsEnforcedAtOnce(t *testing.T) {
	h := newHarness(t)
	way := &cuttable{}
	h.manage(time.Hour, func(next http.RoundTripper) http.RoundTripper { // only what is told of is seen
		way.RoundTripper = next
		return way
	})
	fixture.Await(h, "a rule set is published", func() bool { return h.current() != "" })
	h.create("daily", nil)
	fixture.Await(h, "the policy is published", func() bool { return h.published()["daily"] == 100 })

	way.set(true)
	h.must(h.kube.Delete(t.Context(), h.policy("daily")))
	h.create("daily", limit(7))
	way.set(false)
	fixture.Await(h, "the other policy is published", func() bool { return h.published()["daily"] == 7 })
	fixture.Await(h, "the other policy is Ready", func() bool {
		h.beat(h.current(), "a")
		c := h.policy("daily").Status.Conditions
		return len(c) == 3 && c[2].Type == v1alpha1.ConditionReady && c[2].Status == yes
	})

	h.pods(2) // which no other event tells of
	fixture.Await(h, "it is told that a replica is not heard of", func() bool {
		h.beat(h.current(), "a")
		return h.message("daily", v1alpha1.ConditionReady) == "1 of 2 replicas enforce generation 1"
	})
}

// TestWhatNoWatchToldOfIsSeenWithinAMinute has the watch tell of something, and then of nothing more.
func TestWhatNoWatchToldOfIsSeenWithinAMinute(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.reconciler.changes.add()
	h.reconcile()
	h.edit("daily", limit(7))
	h.reconcile()
	if got := h.published()["daily"]; got != 100 {
		t.Fatalf("limit %d: the policies were gathered though no watch told of anything", got)
	}
	h.now = h.now.Add(gatherInterval)
	h.reconcile()
	if got := h.published()["daily"]; got != 7 {
		t.Errorf("limit %d is published after a minute, want 7", got)
	}
}

// TestManager runs the controller as the operator does: on caches and watches, elected, and with no more rights than
// config/ gives it.
func TestManager(t *testing.T) {
	h := newHarness(t)
	kube := fixture.Kube(t)
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

	fixture.Await(h, "a rule set is published without any policy", func() bool { return h.current() != "" })
	fixture.Await(h, "the snapshot is kept", func() bool { return h.kept() != nil })
	h.create("daily", nil)
	fixture.Await(h, "the policy is published", func() bool { return h.published()["daily"] == 100 })
	ready := func() bool {
		h.beat(h.current(), "a")
		c := h.policy("daily").Status.Conditions
		return len(c) == 3 && c[2].Type == v1alpha1.ConditionReady && c[2].Status == yes
	}
	fixture.Await(h, "the policy is Ready", ready)
	h.edit("daily", limit(7))
	fixture.Await(h, "the edit is published", func() bool { return h.published()["daily"] == 7 })
	fixture.Await(h, "the edit is kept", func() bool { return h.keptPolicies()["daily"] == 7 })
	fixture.Await(h, "the policy is Ready again", func() bool { return ready() && h.policy("daily").Status.ObservedGeneration == 2 })

	h.must(h.kube.Delete(t.Context(), h.kept()))
	fixture.Await(h, "the snapshot is back", func() bool { return h.kept() != nil && h.keptPolicies()["daily"] == 7 })
	h.flushAll()
	fixture.Await(h, "the rule set is back", func() bool { return h.current() != "" && h.published()["daily"] == 7 })
	h.must(h.kube.Delete(t.Context(), h.policy("daily")))
	fixture.Await(h, "the policy is out of force", func() bool { return len(h.published()) == 0 })
}
