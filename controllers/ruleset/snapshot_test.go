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

// kept is the snapshot, nil if there is none.
func (h *harness) kept() *corev1.ConfigMap {
	h.Helper()
	var found corev1.ConfigMap
	err := h.kube.Get(h.Context(), client.ObjectKey{Namespace: limiterName.Namespace, Name: "weir-rules-default"}, &found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	h.must(err)
	return &found
}

// keptPolicies are the policies in the snapshot, by name.
func (h *harness) keptPolicies() map[string]int64 {
	h.Helper()
	set, _, err := rules.DecodeNamed(h.kept().BinaryData["rules.json.gz"])
	h.must(err)
	units := map[string]int64{}
	for _, rule := range set.Rules {
		units[rule.Policy[len(h.namespace)+1:]] = rule.Units
	}
	return units
}

func TestTheSnapshotIsWhatIsPublished(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.reconcile()
	data, found, err := h.exchange.Load(t.Context(), h.current())
	if err != nil || !found {
		t.Fatalf("the rule set in force: found %v, %v", found, err)
	}
	first := h.kept()
	if diff := cmp.Diff(map[string][]byte{"rules.json.gz": data}, first.BinaryData); diff != "" {
		t.Errorf("the snapshot (-published +kept):\n%s", diff)
	}
	labels := map[string]string{
		"app.kubernetes.io/name": "weir", "app.kubernetes.io/component": "limiter",
		"app.kubernetes.io/instance": "default", "app.kubernetes.io/managed-by": "weir-operator",
	}
	if diff := cmp.Diff(labels, first.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got := first.Annotations["weir.dev/revision"]; got != h.current() {
		t.Errorf("annotated with revision %q, want %q", got, h.current())
	}
	if fields := first.ManagedFields; len(fields) != 1 || fields[0].Manager != "weir-operator-snapshot" || fields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managed fields %+v", fields)
	}

	h.edit("daily", limit(7))
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 7}, h.keptPolicies()); diff != "" {
		t.Errorf("the snapshot after an edit (-want +got):\n%s", diff)
	}
	if fields := h.kept().ManagedFields; len(fields) != 1 {
		t.Errorf("managed fields %+v", fields)
	}
}

func TestTheSnapshotIsWrittenWhenThereIsNews(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.reconcile()
	h.beat(h.current(), "a")
	version := h.kept().ResourceVersion
	for range 12 {
		h.reconcile()
	}
	h.restart()
	h.reconcile()
	if got := h.kept().ResourceVersion; got != version {
		t.Error("the snapshot was written again though nothing changed")
	}
	h.edit("daily", func(s *v1alpha1.RateLimitPolicySpec) { s.Window = "24h" }) // another generation of the same rule
	for range 6 {
		h.reconcile()
	}
	if got := h.kept().ResourceVersion; got != version {
		t.Error("an edit that changes no rule wrote the snapshot")
	}
}

func TestTheSnapshotIsRestoredWithinAResync(t *testing.T) {
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
			h.create("daily", nil)
			h.reconcile()
			want := h.kept().BinaryData
			damage(h, h.kept())
			for range int(h.reconciler.Resync / time.Second) { // one second each
				h.reconcile()
			}
			if h.kept() == nil {
				t.Fatal("there is no snapshot")
			}
			if diff := cmp.Diff(want, h.kept().BinaryData); diff != "" {
				t.Errorf("the snapshot (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSnapshotIsKeptWhileRedisIsAway(t *testing.T) {
	h := newHarness(t)
	h.redis.Kill()
	h.create("daily", nil)
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 100}, h.keptPolicies()); diff != "" {
		t.Errorf("the snapshot (-want +got):\n%s", diff)
	}
	h.edit("daily", limit(7))
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 7}, h.keptPolicies()); diff != "" {
		t.Errorf("the snapshot after an edit (-want +got):\n%s", diff)
	}
}

// noConfigMaps is a client whose writes of ConfigMaps fail.
type noConfigMaps struct {
	client.Client
	errs  []error // one for each attempt; the last one stays
	tried int
}

func (c *noConfigMaps) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
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

func TestTroubleWithTheSnapshotIsToldOnceAndDisturbsNothing(t *testing.T) {
	h := newHarness(t)
	resource := schema.GroupResource{Resource: "configmaps"}
	forbidden := apierrors.NewForbidden(resource, "weir-rules-default", errors.New("no role"))
	c := &noConfigMaps{Client: h.kube, errs: []error{forbidden, forbidden, forbidden, context.DeadlineExceeded}}
	h.one().snapshot.Client = c
	h.create("daily", nil)
	var told transcript
	round := func() {
		t.Helper()
		h.now = h.now.Add(h.reconciler.Resync)
		if _, err := h.reconciler.Reconcile(told.into(t.Context()), ctrl.Request{NamespacedName: limiterName}); err != nil {
			t.Fatal(err)
		}
	}
	round()
	h.beat(h.current(), "a")
	for range 5 {
		round()
	}
	h.report()
	h.says("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	if h.kept() != nil || c.tried != 6 {
		t.Fatalf("kept %v after %d attempts, want none after 6", h.kept(), c.tried)
	}
	if n := told.count("cannot write the snapshot"); n != 2 {
		t.Errorf("told %d times of two kinds of trouble:\n%s", n, strings.Join(told, "\n"))
	}
	h.one().snapshot.Client = h.kube
	round()
	if h.kept() == nil || told.count("wrote the snapshot") != 1 {
		t.Errorf("when it is over: kept %v, told:\n%s", h.kept(), strings.Join(told, "\n"))
	}
}

func TestASnapshotThatIsTooLargeIsNotKept(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.reconcile()
	before := h.kept()
	var told transcript
	ctx := told.into(t.Context())
	keep := func(revision string, size int) {
		h.now = h.now.Add(h.reconciler.Resync)
		set := &selection.RuleSet{Revision: revision, Data: make([]byte, size)}
		h.one().snapshot.Save(ctx, h.limiter(limiterName.Name), set)
	}
	for i := range 3 {
		keep(fmt.Sprintf("sha256:%d", i), publish.MaxSnapshot+1)
	}
	if diff := cmp.Diff(before, h.kept()); diff != "" {
		t.Errorf("the snapshot (-before +after):\n%s", diff)
	}
	if n := told.count("too large"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, strings.Join(told, "\n"))
	}
	keep("sha256:largest", publish.MaxSnapshot)
	if got := len(h.kept().BinaryData["rules.json.gz"]); got != publish.MaxSnapshot {
		t.Errorf("%d bytes are kept of %d; told:\n%s", got, publish.MaxSnapshot, strings.Join(told, "\n"))
	}
}

// slow is a client whose writes of ConfigMaps take until they are given up.
type slow struct{ client.Client }

func (slow) Apply(ctx context.Context, _ runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestASlowAPIServerHoldsUpAnEditForKeepTimeoutAtMost(t *testing.T) {
	h := newHarness(t)
	h.one().snapshot.Client = slow{h.kube}
	begin := time.Now()
	h.reconcile()
	if took := time.Since(begin); took < publish.SaveTimeout || took > publish.SaveTimeout+time.Second {
		t.Errorf("a round took %v, want %v", took, publish.SaveTimeout)
	}
	begin = time.Now()
	h.reconcile()
	if took := time.Since(begin); took > publish.SaveTimeout/2 {
		t.Errorf("the round after took %v: it did not wait a resync before it tried again", took)
	}
}
