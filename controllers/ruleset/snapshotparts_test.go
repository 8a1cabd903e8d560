package ruleset

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/rules"
)

// incompressible returns a rule set that hardly compresses: it has at least this many random characters.
func incompressible(size int) (set rules.Set) {
	random := rand.New(rand.NewChaCha8([32]byte{}))
	text := func() string {
		var b strings.Builder
		for range 16 {
			fmt.Fprintf(&b, "%x", random.Uint64())
		}
		return b.String()
	}
	for i := 0; size > 0; i++ {
		r := rules.Rule{Policy: fmt.Sprintf("shop/p%d", i), Domain: "shop", Units: 1, WindowSeconds: 1}
		for range 100 {
			value := text()
			size -= len(value)
			r.Match.Hosts = append(r.Match.Hosts, value)
		}
		set.Rules = append(set.Rules, r)
	}
	return set
}

// parts returns the content of the ConfigMaps of the snapshot, in order.
func (h *harness) parts() (parts [][]byte) {
	h.Helper()
	for i := 0; ; i++ {
		name, key := "weir-rules-default", "rules.json.gz"
		if i > 0 {
			name, key = fmt.Sprintf("%s.%d", name, i), fmt.Sprintf("%s.%d", key, i)
		}
		var found corev1.ConfigMap
		err := h.kube.Get(h.Context(), client.ObjectKey{Namespace: limiterName.Namespace, Name: name}, &found)
		if client.IgnoreNotFound(err) != nil {
			h.Fatal(err)
		}
		if err != nil {
			return parts
		}
		parts = append(parts, found.BinaryData[key])
	}
}

func TestSnapshot_SplitsARuleSetThatExceedsAConfigMap(t *testing.T) {
	h := newHarness(t)
	limiter := h.limiter(limiterName.Name)
	save := func(set rules.Set) {
		t.Helper()
		h.now = h.now.Add(h.reconciler.Resync)
		data, revision := rules.Encode(set)
		h.state().snapshot.Save(t.Context(), limiter, &selection.RuleSet{Encoded: rules.Encoded{Revision: revision, Data: data, Whole: true}}, false)
	}
	large := incompressible(4 << 20)
	save(large)
	parts := h.parts()
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	got, _, err := rules.Decode(all)
	if err != nil || len(parts) != 3 {
		t.Fatalf("%d ConfigMaps, %v; want a rule set in 3", len(parts), err)
	}
	if len(got.Rules) != len(large.Rules) {
		t.Errorf("%d rules, want %d", len(got.Rules), len(large.Rules))
	}
	var maps corev1.ConfigMapList
	h.must(h.kube.List(t.Context(), &maps, client.InNamespace(limiterName.Namespace), client.MatchingLabels{"app.kubernetes.io/component": "limiter"}))
	for i := range maps.Items {
		if !metav1.IsControlledBy(&maps.Items[i], limiter) {
			t.Errorf("%s is not deleted with the Limiter", maps.Items[i].Name)
		}
	}

	save(incompressible(1))
	if set, _, err := rules.Decode(h.parts()[0]); err != nil || len(set.Rules) != 1 {
		t.Errorf("the first ConfigMap after the rule set has shrunk: %d rules, %v", len(set.Rules), err)
	}
}

func TestSnapshot_ReportsARuleSetThatDoesNotFit(t *testing.T) {
	h := newHarness(t)
	h.reconcile()
	before := h.parts()
	tooLarge := *h.state().ruleSet
	tooLarge.Encoded = rules.Encoded{Revision: "sha256:x", Data: make([]byte, 9<<20), Whole: true}
	h.state().compiler.Whole = true
	h.must(h.exchange.Heartbeat(t.Context(), controlplane.Replica{ID: "old", Mode: "redis"})) // it reads no shards
	h.state().ruleSet = &tooLarge
	h.reconciler.changes.Add(h.now) // and no change later: the rule set stays
	h.state().selected.changes = 1
	h.now = h.now.Add(saveInterval)
	h.reconcile()
	if diff := cmp.Diff(before, h.parts()); diff != "" {
		t.Errorf("the snapshot (-before +after):\n%s", diff)
	}
	const want = "the snapshot of the rules is not written, so limiters that start while Redis is unavailable do not have these rules: " +
		"the compressed rules have 9437184 bytes, and a snapshot holds at most 8257536: lower spec.policyBudget.total.bytes, or delete policies"
	if c := h.degraded(); c == nil || c.Reason != "SnapshotNotWritten" || c.Message != want {
		t.Errorf("Degraded: %+v", c)
	}
}

// A ConfigMap of another owner has the name of the snapshot.
func TestSnapshot_LeavesAForeignConfigMap(t *testing.T) {
	h := newHarness(t)
	foreign := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: limiterName.Namespace, Name: "weir-rules-default"},
		Data:       map[string]string{"theirs": "x"}, BinaryData: map[string][]byte{"rules.json.gz": []byte("theirs")},
	}
	h.must(h.kube.Create(t.Context(), foreign))
	h.createPolicy("daily", nil)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	if diff := cmp.Diff(foreign, h.snapshot()); diff != "" {
		t.Errorf("the foreign ConfigMap (-before +after):\n%s", diff)
	}
	const want = "the snapshot of the rules is not written, so limiters that start while Redis is unavailable do not have these rules: " +
		"ConfigMap weir-rules-default already exists and does not belong to this Limiter: delete it, or rename the Limiter"
	if c := h.degraded(); c == nil || c.Reason != "SnapshotNotWritten" || c.Message != want {
		t.Errorf("Degraded: %+v", c)
	}

	h.must(h.kube.Delete(t.Context(), foreign))
	for range 6 { // a resync
		h.reconcile()
	}
	if diff := cmp.Diff(map[string]int64{"daily": 100}, h.snapshotLimits()); diff != "" {
		t.Errorf("the snapshot after the foreign ConfigMap was deleted (-want +got):\n%s", diff)
	}
	if c := h.degraded(); c != nil {
		t.Errorf("Degraded: %+v", c)
	}
}
