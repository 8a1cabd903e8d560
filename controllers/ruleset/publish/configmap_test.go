package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/rules"
)

// saving is a Snapshot and its cluster. controllers/ruleset tests it with a real API server.
type saving struct {
	*testing.T
	*Snapshot
	now             time.Time
	cluster         client.WithWatch
	failing         map[string]error // by "get" or "apply"
	reads, writes   int
	lines           []string
	limiter         *v1alpha1.Limiter
	withoutDeadline bool
	sizes           []int // of the parts that were written, in bytes
}

func newSaving(t *testing.T) *saving {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &saving{T: t, now: time.Unix(1_800_000_000, 0), failing: map[string]error{}}
	s.limiter = &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "edge", UID: "u1"}}
	s.cluster = fake.NewClientBuilder().WithScheme(scheme).Build()
	calls := interceptor.NewClient(s.cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			s.reads++
			if err := s.failing["get"]; err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			s.writes++
			deadline, ok := ctx.Deadline()
			s.withoutDeadline = !ok || time.Until(deadline) > 2*time.Second
			if err := errors.Join(ctx.Err(), s.failing["apply"]); err != nil {
				return err
			}
			s.shorten(o)
			return c.Apply(ctx, o, options...)
		},
	})
	s.Snapshot = &Snapshot{
		Client: calls, Uncached: calls, Limiter: types.NamespacedName{Namespace: "weir-system", Name: "edge"}, Resync: time.Minute,
		Clock: func() time.Time { return s.now }, Sequence: &Sequence{Clock: func() time.Time { return s.now }},
	}
	s.Sequence.Stamp(&selection.RuleSet{Encoded: rules.Encoded{Revision: "sha256:before", Whole: true}}) // as after a publication in Redis
	return s
}

// ordered returns the data of set with its sequence.
func (s *saving) ordered(set *selection.RuleSet) []byte {
	encoded, _ := s.Sequence.Stamp(set)
	data, err := encoded.Archive()
	if err != nil {
		s.Fatal(err)
	}
	return data
}

// shorten records the size of the data and cuts it off: with the race detector, the fake client needs seconds for a megabyte.
func (s *saving) shorten(o runtime.ApplyConfiguration) {
	const enough = 1 << 10
	configMap, ok := o.(*corev1ac.ConfigMapApplyConfiguration)
	if !ok {
		s.Fatalf("apply of %T", o)
	}
	for key, part := range configMap.BinaryData {
		s.sizes = append(s.sizes, len(part))
		configMap.BinaryData[key] = part[:min(len(part), enough)]
	}
}

func (s *saving) save(set *selection.RuleSet) {
	logger := funcr.New(func(_, line string) { s.lines = append(s.lines, line) }, funcr.Options{})
	s.Save(log.IntoContext(s.Context(), logger), s.limiter, set, false)
}

func (s *saving) stored() *corev1.ConfigMap {
	s.Helper()
	var found corev1.ConfigMap
	if err := s.cluster.Get(s.Context(), types.NamespacedName{Namespace: "weir-system", Name: "weir-rules-edge"}, &found); err != nil {
		s.Fatal(err)
	}
	return &found
}

// wantCalls checks how many calls there were since the last check, and how many log lines contain a text since the beginning.
func (s *saving) wantCalls(when string, reads, writes int, text string, lines int) {
	s.Helper()
	if s.reads != reads || s.writes != writes {
		s.Errorf("%s: %d reads and %d writes, want %d and %d", when, s.reads, s.writes, reads, writes)
	}
	if n := strings.Count(strings.Join(s.lines, "\n"), text); n != lines {
		s.Errorf("%s: %d log lines with %q, want %d: %q", when, n, text, lines, s.lines)
	}
	s.reads, s.writes = 0, 0
}

func TestSave_WritesEachRuleSetOnce(t *testing.T) {
	s, set := newSaving(t), setOf(1)
	s.save(set)
	s.wantCalls("the first rule set", 1, 1, "wrote the snapshot", 1)
	found := s.stored()
	owner := metav1.GetControllerOf(found)
	if owner == nil || owner.UID != "u1" || owner.Kind != "Limiter" || !*owner.BlockOwnerDeletion || s.withoutDeadline {
		t.Errorf("owner %+v", owner)
	}
	if !bytes.Equal(found.BinaryData["rules.json.gz"], s.ordered(set)) || found.Annotations["weir.dev/revision"] != set.Revision || found.Labels["app.kubernetes.io/instance"] != "edge" {
		t.Errorf("%+v", found)
	}
	s.now = s.now.Add(time.Minute - 1)
	s.save(set)
	s.wantCalls("before the resync", 0, 0, "wrote the snapshot", 1)
	s.now = s.now.Add(1)
	s.save(set)
	s.wantCalls("at the resync", 1, 0, "wrote the snapshot", 1)
	s.save(setOf(2))
	s.wantCalls("another rule set", 1, 1, "wrote the snapshot", 2)
}

func TestSave_RepairsTheConfigMapAtTheResync(t *testing.T) {
	for name, change := range map[string]func(s *saving) error{
		"changed": func(s *saving) error {
			found := s.stored()
			found.BinaryData["rules.json.gz"] = []byte("x")
			return s.cluster.Update(s.Context(), found)
		},
		"deleted": func(s *saving) error { return s.cluster.Delete(s.Context(), s.stored()) },
	} {
		t.Run(name, func(t *testing.T) {
			s, set := newSaving(t), setOf(1)
			s.save(set)
			if err := change(s); err != nil {
				t.Fatal(err)
			}
			s.now = s.now.Add(time.Minute)
			s.save(set)
			s.wantCalls("at the resync", 2, 2, "cannot write", 0)
			if !bytes.Equal(s.stored().BinaryData["rules.json.gz"], s.ordered(set)) {
				t.Error("the ConfigMap was not repaired")
			}
		})
	}
}

func TestSave_RetriesAtTheResyncAndLogsAProblemOnce(t *testing.T) {
	const failed = "cannot write the snapshot"
	s, set := newSaving(t), setOf(1)
	again := func() { s.now = s.now.Add(time.Minute); s.save(set) }
	s.failing["apply"] = errors.New("connection refused")
	s.save(set)
	s.wantCalls("the first attempt", 1, 1, failed, 1)
	s.save(set)
	s.wantCalls("immediately after it", 0, 0, failed, 1)
	s.failing["apply"] = errors.New("connection reset")
	again()
	s.wantCalls("the next attempt", 1, 1, failed, 1)
	if !strings.HasSuffix(s.Problem(), "connection refused") { // a new message causes a write of the status
		t.Errorf("problem %q after the next attempt, want that of the first one", s.Problem())
	}
	s.failing["apply"] = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "weir-rules-edge", nil)
	again()
	s.wantCalls("another problem", 1, 1, failed, 2)
	if !strings.Contains(s.Problem(), "forbidden") {
		t.Errorf("problem %q, want the other one", s.Problem())
	}
	again()
	s.wantCalls("the same problem", 1, 1, failed, 2)
	s.failing = map[string]error{}
	again()
	s.wantCalls("the problem is solved", 1, 1, "wrote the snapshot", 1)
	s.failing["get"] = errors.New("connection refused")
	again()
	s.wantCalls("a read that fails", 1, 0, failed, 3)
	s.failing = map[string]error{}
	again()
	s.wantCalls("it is solved", 1, 1, "wrote the snapshot", 2)
}

// A ConfigMap holds a megabyte. The first one is written last: limiters read it first.
func TestSave_SplitsLargeRuleSets(t *testing.T) {
	const part, parts = 1<<20 - 16<<10, 8
	s := newSaving(t)
	set := func(revision string, size int) *selection.RuleSet {
		return &selection.RuleSet{Encoded: rules.Encoded{Revision: revision, Data: make([]byte, size), Whole: true}}
	}
	s.save(set("one", part))
	s.wantCalls("a ConfigMap", 1, 1, "wrote the snapshot", 1)
	s.save(set("all", parts*part))
	s.wantCalls("all ConfigMaps", parts, parts, "wrote the snapshot", 2)
	if want := slices.Repeat([]int{part}, 1+parts); !slices.Equal(s.sizes, want) {
		t.Errorf("parts of %d bytes, want %d", s.sizes, want)
	}
	if s.Problem() != "" {
		t.Errorf("problem %q", s.Problem())
	}
	s.now = s.now.Add(time.Minute)
	s.save(set("all", parts*part))
	s.wantCalls("all ConfigMaps at the resync", parts, 0, "wrote the snapshot", 2)
	for i := range 2 {
		s.save(set(fmt.Sprint("large", i), parts*part+1))
		s.wantCalls("a larger rule set", 0, 0, "cannot write the snapshot", 1)
		if !strings.Contains(s.Problem(), fmt.Sprintf("have %d bytes, and a snapshot holds at most %d", parts*part+1, parts*part)) {
			t.Errorf("problem %q", s.Problem())
		}
	}
	if got := s.stored().Annotations["weir.dev/revision"]; got != "all" {
		t.Errorf("the snapshot has %s", got)
	}
	s.save(set("one", part))
	s.wantCalls("a smaller rule set", 1, 1, "wrote the snapshot", 3)
	if s.Problem() != "" {
		t.Errorf("problem %q after it was solved", s.Problem())
	}
}

func TestSave_LeavesForeignConfigMaps(t *testing.T) {
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"of a user":            {nil, "already exists and does not belong to this Limiter"},
		"of a deleted Limiter": {[]metav1.OwnerReference{{Kind: "Limiter", Name: "edge", UID: "u0", Controller: new(true)}}, "still belongs to a deleted Limiter with this name"},
		"of another Limiter":   {[]metav1.OwnerReference{{Kind: "Limiter", Name: "zone", UID: "u0", Controller: new(true)}}, "does not belong to this Limiter"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSaving(t)
			foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "weir-rules-edge", OwnerReferences: test.owners}}
			if err := s.cluster.Create(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s.save(setOf(1))
				s.now = s.now.Add(time.Minute)
			}
			s.wantCalls("two attempts", 2, 0, "cannot write the snapshot", 1)
			if !strings.Contains(s.Problem(), test.want) || len(s.stored().BinaryData) > 0 {
				t.Errorf("problem %q, want %q", s.Problem(), test.want)
			}
		})
	}
}

func TestLoad_ReturnsOnlyTheRevision(t *testing.T) {
	s, set := newSaving(t), setOf(1)
	load := func(when, revision string, want []byte) {
		t.Helper()
		if data, err := s.Load(t.Context(), revision); err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s: %d bytes, %v; want %d", when, len(data), err, len(want))
		}
	}
	load("without a ConfigMap", set.Revision, nil)
	s.save(set)
	load("the revision", set.Revision, s.ordered(set))
	load("another revision", setOf(2).Revision, nil)
	found := s.stored()
	found.BinaryData["rules.json.gz"] = set.Data[:9]
	if err := s.cluster.Update(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	load("damaged data", set.Revision, nil)
	found.BinaryData = nil
	if err := s.cluster.Update(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	load("no data", set.Revision, nil)
	s.failing["get"] = errors.New("refused")
	if _, err := s.Load(t.Context(), set.Revision); !errors.Is(err, s.failing["get"]) {
		t.Errorf("%v, want the error of the API server", err)
	}
}

// A paused operator continues after another one has been elected and has saved newer rules.
func TestSave_KeepsTheSnapshotOfASuccessor(t *testing.T) {
	s := newSaving(t)
	confirmations, lost := 0, error(nil)
	s.Confirm = func(context.Context) error {
		confirmations++
		return lost
	}
	set := func(revision string) *selection.RuleSet {
		return &selection.RuleSet{Encoded: rules.Encoded{Revision: revision, Data: []byte(revision), Whole: true}}
	}
	s.save(set("sha256:a"))
	s.now = s.now.Add(time.Hour)
	s.save(set("sha256:a"))
	if confirmations != 0 {
		t.Errorf("%d confirmations, though nothing was replaced", confirmations)
	}
	s.save(set("sha256:b"))
	if got := s.stored().Annotations[revisionAnnotation]; got != "sha256:b" || confirmations != 1 {
		t.Errorf("revision %s after %d confirmations", got, confirmations)
	}
	lost = errors.New("another operator is the leader")
	s.save(set("sha256:old"))
	if got := s.stored().Annotations[revisionAnnotation]; got != "sha256:b" || !strings.Contains(s.Problem(), lost.Error()) {
		t.Errorf("revision %s, problem %q", got, s.Problem())
	}
}

// A backup is restored without owner references. What another controller owns is not changed.
func TestSave_AdoptsASnapshotWithoutAController(t *testing.T) {
	s := newSaving(t)
	set := &selection.RuleSet{Encoded: rules.Encoded{Revision: "sha256:a", Data: []byte("a"), Whole: true}}
	s.save(set)
	restored := s.stored()
	restored.OwnerReferences = nil
	if err := s.cluster.Update(s.Context(), restored); err != nil {
		t.Fatal(err)
	}
	s.limiter.UID = "u2"
	s.now = s.now.Add(time.Hour)
	s.save(set)
	if owner := metav1.GetControllerOf(s.stored()); owner == nil || owner.UID != "u2" || s.Problem() != "" {
		t.Errorf("owner %v, problem %q", owner, s.Problem())
	}
	for name, change := range map[string]func(c *corev1.ConfigMap){
		"another controller": func(c *corev1.ConfigMap) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "x", UID: "x", Controller: new(true)}}
		},
		"another Limiter": func(c *corev1.ConfigMap) { c.OwnerReferences, c.Labels["app.kubernetes.io/instance"] = nil, "other" },
		"a user":          func(c *corev1.ConfigMap) { c.OwnerReferences, c.Labels = nil, nil },
	} {
		foreign := s.stored()
		change(foreign)
		if err := s.cluster.Update(s.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(time.Hour)
		if s.save(set); !strings.Contains(s.Problem(), "does not belong to this Limiter") {
			t.Errorf("%s: problem %q", name, s.Problem())
		}
		if err := s.cluster.Update(s.Context(), func() *corev1.ConfigMap {
			c := s.stored()
			c.Labels, c.OwnerReferences = restored.Labels, nil
			return c
		}()); err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(time.Hour)
		s.save(set)
	}
}
