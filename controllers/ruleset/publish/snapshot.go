package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ownership"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// snapshotOwner owns the fields of the ConfigMaps.
	snapshotOwner = client.FieldOwner("weir-operator-snapshot")
	// maxPart is the largest part of a rule set in one ConfigMap, in bytes. A ConfigMap holds 1 MiB. The rest is for names and labels.
	maxPart = 1<<20 - 16<<10
	// MaxSnapshot is the largest rule set that a snapshot holds, in bytes.
	MaxSnapshot = v1alpha1.SnapshotParts * maxPart
	// revisionAnnotation is the revision of the rule set in a ConfigMap.
	revisionAnnotation = "weir.dev/revision"
	// sequenceAnnotation is its sequence. Limiters read the sequence from the data.
	sequenceAnnotation = "weir.dev/sequence"
	// SaveTimeout bounds an attempt to write one ConfigMap: a slow API server must not delay an edit for long.
	SaveTimeout = 2 * time.Second
)

// Snapshot is the rule set of a Limiter in ConfigMaps: as many as its size requires. Limiter pods that start while Redis is
// unavailable read them, and limiters that run while Redis is unavailable.
type Snapshot struct {
	// Client writes the ConfigMaps.
	Client client.Client
	// Uncached reads the ConfigMaps: a cache would hold all ConfigMaps of the cluster.
	Uncached client.Reader
	// Limiter that the snapshot belongs to.
	Limiter types.NamespacedName
	// Resync is how often the ConfigMaps are verified, and the least time between two writes that can wait.
	Resync time.Duration
	// Clock returns the current time.
	Clock func() time.Time
	// Sequence orders the rule sets, here and in Redis.
	Sequence *Sequence
	// Confirm returns an error if this operator must not replace another rule set, because it is not the leader any more. It may be nil.
	Confirm func(context.Context) error

	last attempt
}

// attempt is an attempt to save a rule set.
type attempt struct {
	revision string
	sequence int64
	at       time.Time
	versions []string // resource versions of the ConfigMaps after it; nil if the attempt failed
	problem  string   // identifies what was wrong; empty if it succeeded
	message  string   // describes the problem
}

// Problem describes why the rule set is not saved; empty if it is.
func (s *Snapshot) Problem() string { return s.last.message }

// Save writes the rule set into the ConfigMaps, and verifies once every resync that it is still there. An error is logged and
// the attempt repeated. The whole rule set is written, so that edits within a resync are written together if canWait is true: Save then
// returns how long to wait for the next call, and 0 if nothing waits.
func (s *Snapshot) Save(ctx context.Context, limiter *v1alpha1.Limiter, set *selection.RuleSet, canWait bool) (wait time.Duration) {
	now := s.Clock()
	if s.last.revision == "" && !s.Sequence.assigned() {
		s.find(ctx)
	}
	encoded, sequence := s.Sequence.Stamp(set)
	if s.last.revision == set.Revision && s.last.sequence == sequence && now.Sub(s.last.at) < s.Resync {
		return 0
	}
	if wait := s.last.at.Add(s.Resync).Sub(now); canWait && s.last.versions != nil && wait > 0 {
		return wait
	}
	before := s.last
	s.last = attempt{revision: set.Revision, sequence: sequence, at: now}
	versions, err := s.writeArchive(ctx, limiter, encoded, before)
	if errors.Is(err, errOlder) { // another operator, or a restored backup
		encoded, s.last.sequence = s.Sequence.Stamp(set)
		versions, err = s.writeArchive(ctx, limiter, encoded, before)
	}
	if err == nil {
		s.last.versions = versions
		if before.problem != "" || !slices.Equal(before.versions, versions) {
			log.FromContext(ctx).Info("wrote the snapshot", "configMap", s.name(0).String(), "revision", set.Revision)
		}
		return 0
	}
	s.last.problem, s.last.message = problemOf(err), err.Error()
	if before.problem == s.last.problem {
		s.last.message = before.message // later errors differ in times and addresses
		return 0
	}
	log.FromContext(ctx).Error(err, "cannot write the snapshot, retrying: limiters do not have these rules while Redis is unavailable")
	return 0
}

// find records the sequence of the snapshot that exists when the operator starts while Redis is unavailable. If it cannot be read, it cannot be written either.
func (s *Snapshot) find(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, SaveTimeout)
	defer cancel()
	found := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	if s.Uncached.Get(ctx, s.name(0), &found) == nil {
		s.Sequence.Found(found.Annotations[revisionAnnotation], sequenceOf(&found))
	}
}

// errOlder is the error for a rule set that is older than another one in the ConfigMap.
var errOlder = errors.New("the ConfigMap has a rule set with a higher sequence")

// sequenceOf returns the sequence of the rule set in a ConfigMap, or 0 if that is missing.
func sequenceOf(found *metav1.PartialObjectMetadata) int64 {
	sequence, err := strconv.ParseInt(found.Annotations[sequenceAnnotation], 10, 64)
	if err != nil || sequence > rules.MaxSequence {
		return 0
	}
	return max(sequence, 0)
}

// writeArchive is write for an encoded rule set.
func (s *Snapshot) writeArchive(ctx context.Context, limiter *v1alpha1.Limiter, set rules.Encoded, before attempt) (versions []string, err error) {
	data, err := set.Archive()
	if err != nil {
		return nil, snapshotError{"no archive", err.Error()}
	}
	return s.write(ctx, limiter, data, before)
}

// write writes the ConfigMaps, unless they are unchanged since the attempt before, and returns their resource versions. The first
// ConfigMap is the last one that is written: it alone is a complete rule set if it was one before.
func (s *Snapshot) write(ctx context.Context, limiter *v1alpha1.Limiter, data []byte, before attempt) (versions []string, err error) {
	if size := len(data); size > MaxSnapshot {
		return nil, snapshotError{"too large", fmt.Sprintf("the compressed rules have %d bytes, and a snapshot holds at most %d: "+
			"lower spec.policyBudget.total.bytes, or delete policies", size, MaxSnapshot)}
	}
	parts := slices.Collect(slices.Chunk(data, maxPart))
	versions = make([]string, len(parts))
	for i, part := range slices.Backward(parts) {
		known := ""
		if before.revision == s.last.revision && before.sequence == s.last.sequence && i < len(before.versions) {
			known = before.versions[i]
		}
		if versions[i], err = s.writePart(ctx, limiter, s.configMap(limiter, i, part), known); err != nil {
			return nil, err
		}
	}
	return versions, nil
}

// writePart writes one ConfigMap, unless it has the known resource version, and returns its resource version.
func (s *Snapshot) writePart(
	ctx context.Context, limiter *v1alpha1.Limiter, apply *corev1ac.ConfigMapApplyConfiguration, known string,
) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, SaveTimeout)
	defer cancel()
	found := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	err = s.Uncached.Get(ctx, types.NamespacedName{Namespace: s.Limiter.Namespace, Name: *apply.Name}, &found)
	switch {
	case apierrors.IsNotFound(err):
		err = s.Client.Apply(ctx, apply, snapshotOwner)
	case err != nil:
		return "", fmt.Errorf("read ConfigMap %s: %w", *apply.Name, err)
	case !ownership.Belongs(&found, limiter):
		return "", foreign(&found, limiter)
	case known != "" && found.ResourceVersion == known:
		return known, nil
	case sequenceOf(&found) >= s.last.sequence && found.Annotations[revisionAnnotation] != s.last.revision:
		s.Sequence.Found(found.Annotations[revisionAnnotation], sequenceOf(&found))
		return "", fmt.Errorf("replace rule set %s in ConfigMap %s: %w", found.Annotations[revisionAnnotation], *apply.Name, errOlder)
	default: // to apply the same content again changes nothing: the resource version stays
		if replaced := found.Annotations[revisionAnnotation]; replaced != apply.Annotations[revisionAnnotation] && s.Confirm != nil {
			if err := s.Confirm(ctx); err != nil {
				return "", fmt.Errorf("replace rule set %s in ConfigMap %s: %w", replaced, *apply.Name, err)
			}
		}
		err = s.Client.Apply(ctx, apply.WithResourceVersion(found.ResourceVersion), snapshotOwner, client.ForceOwnership)
	}
	if err != nil {
		return "", fmt.Errorf("write ConfigMap %s: %w", *apply.Name, err)
	}
	return *apply.ResourceVersion, nil // the client decodes the response into apply
}

// Load returns the rule set in the ConfigMaps; nil if it is missing, damaged, or not of that revision.
func (s *Snapshot) Load(ctx context.Context, revision string) ([]byte, error) {
	var data []byte
	for i := range v1alpha1.SnapshotParts {
		var found corev1.ConfigMap
		if err := s.Uncached.Get(ctx, s.name(i), &found); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read ConfigMap %s: %w", s.name(i), err)
		}
		part := found.BinaryData[v1alpha1.SnapshotKey(i)]
		if part == nil {
			return nil, nil
		}
		data = append(data, part...)
		if _, err := rules.DecodeAs(data, revision); err == nil {
			return data, nil
		}
	}
	return nil, nil
}

func (s *Snapshot) name(part int) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Limiter.Namespace, Name: v1alpha1.SnapshotName(s.Limiter.Name, part)}
}

func (s *Snapshot) configMap(limiter *v1alpha1.Limiter, part int, data []byte) *corev1ac.ConfigMapApplyConfiguration {
	owner := metav1.NewControllerRef(limiter, v1alpha1.GroupVersion.WithKind("Limiter"))
	return corev1ac.ConfigMap(s.name(part).Name, s.name(part).Namespace).
		WithOwnerReferences(metav1ac.OwnerReference(). // it is deleted with the Limiter
								WithAPIVersion(owner.APIVersion).
								WithKind(owner.Kind).
								WithName(owner.Name).
								WithUID(owner.UID).
								WithController(true).
								WithBlockOwnerDeletion(true)).
		WithLabels(map[string]string{
			"app.kubernetes.io/name":       "weir",
			"app.kubernetes.io/component":  "limiter",
			"app.kubernetes.io/instance":   s.Limiter.Name,
			"app.kubernetes.io/managed-by": "weir-operator",
		}).
		WithAnnotations(map[string]string{revisionAnnotation: s.last.revision, sequenceAnnotation: strconv.FormatInt(s.last.sequence, 10)}).
		WithBinaryData(map[string][]byte{v1alpha1.SnapshotKey(part): data})
}

// snapshotError is a problem that no retry solves.
type snapshotError struct{ problem, message string }

func (e snapshotError) Error() string { return e.message }

// foreign returns the error for a ConfigMap that does not belong to the Limiter. The operator does not change it.
func foreign(found *metav1.PartialObjectMetadata, limiter *v1alpha1.Limiter) error {
	if ownership.Of(found, limiter) == ownership.OfDeleted {
		return snapshotError{"belongs to a deleted Limiter " + found.Name, "ConfigMap " + found.Name +
			" still belongs to a deleted Limiter with this name, waiting for its garbage collection"}
	}
	return snapshotError{"foreign " + found.Name, "ConfigMap " + found.Name +
		" already exists and does not belong to this Limiter: delete it, or rename the Limiter"}
}

// problemOf identifies the problem behind an error, so that one that stays the same is logged once.
func problemOf(err error) string {
	if e, ok := errors.AsType[snapshotError](err); ok {
		return e.problem
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "unreachable"
}
