package ruleset

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
)

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
