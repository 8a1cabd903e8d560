package ruleset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/rules"
)

// snapshot returns the ConfigMap of the snapshot; nil if it does not exist.
func (h *harness) snapshot() *corev1.ConfigMap {
	h.Helper()
	var found corev1.ConfigMap
	err := h.kube.Get(h.Context(), client.ObjectKey{Namespace: limiterName.Namespace, Name: "weir-rules-default"}, &found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	h.must(err)
	return &found
}

// snapshotLimits returns the limits in the snapshot, by the name of the policy without its namespace.
func (h *harness) snapshotLimits() map[string]int64 {
	h.Helper()
	set, _, err := rules.Decode(h.snapshot().BinaryData["rules.json.gz"])
	h.must(err)
	units := map[string]int64{}
	for _, rule := range set.Rules {
		units[rule.Policy[len(h.namespace)+1:]] = rule.Units
	}
	return units
}

// saveInterval is the least time between two writes of the snapshot in a harness: its resync.
const saveInterval = 5 * time.Second

func TestSnapshot_HasThePublishedRuleSet(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	data, found, err := h.exchange.Archive(t.Context(), h.activeRevision())
	if err != nil || !found {
		t.Fatalf("the active rule set: found %v, %v", found, err)
	}
	first := h.snapshot()
	if diff := cmp.Diff(map[string][]byte{"rules.json.gz": data}, first.BinaryData); diff != "" {
		t.Errorf("the snapshot (-published +snapshot):\n%s", diff)
	}
	labels := map[string]string{
		"app.kubernetes.io/name": "weir", "app.kubernetes.io/component": "limiter",
		"app.kubernetes.io/instance": "default", "app.kubernetes.io/managed-by": "weir-operator",
	}
	if diff := cmp.Diff(labels, first.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got := first.Annotations["weir.dev/revision"]; got != h.activeRevision() {
		t.Errorf("annotation weir.dev/revision is %q, want %q", got, h.activeRevision())
	}
	if fields := first.ManagedFields; len(fields) != 1 || fields[0].Manager != "weir-operator-snapshot" || fields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managed fields %+v", fields)
	}

	h.editPolicy("daily", limit(7))
	if after := h.reconcile().RequeueAfter; after <= 0 || after > saveInterval {
		t.Errorf("the snapshot is written after %v, want at most %v", after, saveInterval)
	}
	h.now = h.now.Add(saveInterval)
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 7}, h.snapshotLimits()); diff != "" {
		t.Errorf("the snapshot after an edit (-want +got):\n%s", diff)
	}
	if fields := h.snapshot().ManagedFields; len(fields) != 1 {
		t.Errorf("managed fields %+v", fields)
	}
}

func TestSnapshot_IsWrittenWhenARuleChanges(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	version := h.snapshot().ResourceVersion
	h.now = h.now.Add(saveInterval)
	for range 12 {
		h.reconcile()
	}
	h.restartOperator()
	h.reconcile()
	if got := h.snapshot().ResourceVersion; got != version {
		t.Error("the snapshot was written again although nothing changed")
	}
	h.editPolicy("daily", func(s *v1alpha1.RateLimitPolicySpec) { s.Window = "24h" }) // another generation of the same rule
	for range 6 {
		h.reconcile()
	}
	if got := h.snapshot().ResourceVersion; got != version {
		t.Error("an edit that changes no rule wrote the snapshot")
	}
}

func TestSnapshot_IsRestoredWithinAResync(t *testing.T) {
	damages := map[string]func(h *harness, snapshot *corev1.ConfigMap){
		"deleted": func(h *harness, snapshot *corev1.ConfigMap) { h.must(h.kube.Delete(h.Context(), snapshot)) },
		"edited": func(h *harness, snapshot *corev1.ConfigMap) {
			snapshot.BinaryData["rules.json.gz"] = []byte("x")
			h.must(h.kube.Update(h.Context(), snapshot))
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.createPolicy("daily", nil)
			h.reconcile()
			want := h.snapshot().BinaryData
			damage(h, h.snapshot())
			for range int(h.reconciler.Resync / time.Second) { // one second each
				h.reconcile()
			}
			if h.snapshot() == nil {
				t.Fatal("there is no snapshot")
			}
			if diff := cmp.Diff(want, h.snapshot().BinaryData); diff != "" {
				t.Errorf("the snapshot (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSnapshot_IsWrittenWhileRedisIsUnavailable(t *testing.T) {
	h := newHarness(t)
	h.redis.Kill()
	h.createPolicy("daily", nil)
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 100}, h.snapshotLimits()); diff != "" {
		t.Errorf("the snapshot (-want +got):\n%s", diff)
	}
	h.editPolicy("daily", limit(7))
	if after := h.reconcile().RequeueAfter; after <= 0 || after > saveInterval {
		t.Errorf("the snapshot is written after %v, want at most %v", after, saveInterval)
	}
	h.now = h.now.Add(saveInterval)
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 7}, h.snapshotLimits()); diff != "" {
		t.Errorf("the snapshot after an edit (-want +got):\n%s", diff)
	}
}

// failingWrites is a client whose writes of ConfigMaps fail.
type failingWrites struct {
	client.Client
	errs  []error // one for each attempt; the last one repeats
	tried int
}

func (c *failingWrites) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	err := c.errs[min(c.tried, len(c.errs)-1)]
	c.tried++
	return err
}

// transcript collects the lines of a log.
type transcript []string

func (l *transcript) into(ctx context.Context) context.Context {
	return log.IntoContext(ctx, funcr.New(func(_, args string) { *l = append(*l, args) }, funcr.Options{}))
}

func (l *transcript) count(text string) (n int) {
	for _, line := range *l {
		n += strings.Count(line, text)
	}
	return n
}

func TestSnapshot_LogsAProblemOnceAndPublishesNevertheless(t *testing.T) {
	h := newHarness(t)
	resource := schema.GroupResource{Resource: "configmaps"}
	forbidden := apierrors.NewForbidden(resource, "weir-rules-default", errors.New("no role"))
	c := &failingWrites{Client: h.kube, errs: []error{forbidden, forbidden, forbidden, context.DeadlineExceeded}}
	h.state().snapshot.Client = c
	h.createPolicy("daily", nil)
	var logged transcript
	round := func() {
		t.Helper()
		h.now = h.now.Add(h.reconciler.Resync)
		if _, err := h.reconciler.Reconcile(logged.into(t.Context()), ctrl.Request{NamespacedName: limiterName}); err != nil {
			t.Fatal(err)
		}
	}
	round()
	h.heartbeat(h.activeRevision(), "a")
	for range 5 {
		round()
	}
	h.report()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	if h.snapshot() != nil || c.tried != 6 {
		t.Fatalf("snapshot %v after %d attempts, want none after 6", h.snapshot(), c.tried)
	}
	if n := logged.count("cannot write the snapshot"); n != 2 {
		t.Errorf("%d log lines about two problems, want 2:\n%s", n, strings.Join(logged, "\n"))
	}
	h.state().snapshot.Client = h.kube
	round()
	if h.snapshot() == nil || logged.count("wrote the snapshot") != 1 {
		t.Errorf("after the problem: snapshot %v, log:\n%s", h.snapshot(), strings.Join(logged, "\n"))
	}
}

func TestSnapshot_IsNotWrittenIfTheRuleSetIsTooLarge(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	before := h.snapshot()
	var logged transcript
	ctx := logged.into(t.Context())
	save := func(revision string, size int) {
		h.now = h.now.Add(h.reconciler.Resync)
		set := &selection.RuleSet{Encoded: rules.Encoded{Revision: revision, Data: make([]byte, size), Whole: true}}
		h.state().snapshot.Save(ctx, h.limiter(limiterName.Name), set, false)
	}
	for i := range 3 {
		save(fmt.Sprintf("sha256:%d", i), publish.MaxSnapshot+1)
	}
	if diff := cmp.Diff(before, h.snapshot()); diff != "" {
		t.Errorf("the snapshot (-before +after):\n%s", diff)
	}
	if n := logged.count("cannot write the snapshot"); n != 1 {
		t.Errorf("%d log lines, want 1:\n%s", n, strings.Join(logged, "\n"))
	}
	save("sha256:largest", publish.MaxSnapshot)
	if parts := h.parts(); len(parts) != 8 || len(parts[7]) != 1<<20-16<<10 {
		t.Errorf("the snapshot has %d parts, want 8; log:\n%s", len(parts), strings.Join(logged, "\n"))
	}
}

// slowWrites is a client whose writes of ConfigMaps last until their context ends.
type slowWrites struct{ client.Client }

func (slowWrites) Apply(ctx context.Context, _ runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestSnapshot_DelaysARoundBySaveTimeoutAtMost(t *testing.T) {
	h := newHarness(t)
	h.state().snapshot.Client = slowWrites{h.kube}
	begin := time.Now()
	h.reconcile()
	if took := time.Since(begin); took < publish.SaveTimeout || took > publish.SaveTimeout+time.Second {
		t.Errorf("a round took %v, want %v", took, publish.SaveTimeout)
	}
	begin = time.Now()
	h.reconcile()
	if took := time.Since(begin); took > publish.SaveTimeout/2 {
		t.Errorf("the next round took %v: it tried again before the resync", took)
	}
}
