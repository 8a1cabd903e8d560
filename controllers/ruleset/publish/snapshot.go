package publish

import (
	"context"
	"fmt"
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
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// snapshotKey is the key of the rule set in the ConfigMap. The value is written by rules.Encode.
	snapshotKey = "rules.json.gz"
	// snapshotOwner owns the fields of the ConfigMap.
	snapshotOwner = client.FieldOwner("weir-operator-snapshot")
	// MaxSnapshot is the largest rule set that a snapshot holds, in bytes. A ConfigMap holds 1 MiB. The rest is for names and
	// labels.
	MaxSnapshot = 1<<20 - 16<<10
	// SaveTimeout bounds an attempt to write the ConfigMap: a slow API server must not delay an edit for long.
	SaveTimeout = 2 * time.Second
)

// Snapshot is the ConfigMap with the rule set of a Limiter. Limiter pods that start while Redis is unavailable read it.
type Snapshot struct {
	// Client writes the ConfigMap.
	Client client.Client
	// Uncached reads the ConfigMap: a cache would hold all ConfigMaps of the cluster.
	Uncached client.Reader
	// Limiter that the snapshot belongs to.
	Limiter types.NamespacedName
	// Resync is how often the ConfigMap is verified.
	Resync time.Duration
	// Clock returns the current time.
	Clock func() time.Time

	last attempt
}

// attempt is an attempt to save a rule set.
type attempt struct {
	revision string
	at       time.Time
	version  string // resource version of the ConfigMap after it; empty if the attempt failed
	problem  string // identifies what was wrong; empty if it succeeded
}

// Save writes the rule set into the ConfigMap, and verifies once every resync that it is still there. An error is logged and
// the attempt repeated: the snapshot matters when a limiter starts, not for those that run.
func (s *Snapshot) Save(ctx context.Context, limiter *v1alpha1.Limiter, set *selection.RuleSet) {
	now := s.Clock()
	if s.last.revision == set.Revision && now.Sub(s.last.at) < s.Resync {
		return
	}
	before := s.last
	s.last = attempt{revision: set.Revision, at: now}
	if size := len(set.Data); size > MaxSnapshot {
		s.last.problem = "too large"
		if before.problem != s.last.problem {
			log.FromContext(ctx).Info("the rule set is too large for the snapshot: limiters that start while Redis is unavailable use the previous snapshot",
				"configMap", s.name().String(), "bytes", size, "maxBytes", MaxSnapshot)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, SaveTimeout)
	defer cancel()
	version, err := s.write(ctx, limiter, set, before)
	if err != nil {
		s.last.problem = problemOf(err)
		if before.problem != s.last.problem {
			log.FromContext(ctx).Error(err, "cannot write the snapshot, retrying: limiters that start while Redis is unavailable do not have these rules")
		}
		return
	}
	s.last.version = version
	if before.problem != "" || before.version != version {
		log.FromContext(ctx).Info("wrote the snapshot", "configMap", s.name().String(), "revision", set.Revision)
	}
}

// write writes the ConfigMap, unless it is unchanged since the attempt before, and returns its resource version.
func (s *Snapshot) write(ctx context.Context, limiter *v1alpha1.Limiter, set *selection.RuleSet, before attempt) (version string, err error) {
	if before.version != "" && before.revision == set.Revision {
		found := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		err := s.Uncached.Get(ctx, s.name(), &found)
		if err == nil && found.ResourceVersion == before.version {
			return before.version, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read ConfigMap %s: %w", s.name(), err)
		}
	}
	// To apply the same content again changes nothing: the resource version stays.
	apply := s.configMap(limiter, set)
	if err := s.Client.Apply(ctx, apply, snapshotOwner, client.ForceOwnership); err != nil {
		return "", fmt.Errorf("write ConfigMap %s: %w", s.name(), err)
	}
	return *apply.ResourceVersion, nil // the client decodes the response into apply
}

// Load returns the rule set in the ConfigMap; nil if it is missing, damaged, or not of that revision.
func (s *Snapshot) Load(ctx context.Context, revision string) ([]byte, error) {
	var found corev1.ConfigMap
	if err := s.Uncached.Get(ctx, s.name(), &found); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", s.name(), err)
	}
	data := found.BinaryData[snapshotKey]
	if data == nil {
		return nil, nil
	}
	if _, err := rules.DecodeAs(data, revision); err != nil {
		return nil, nil //nolint:nilerr // such a snapshot is of no use
	}
	return data, nil
}

func (s *Snapshot) name() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Limiter.Namespace, Name: "weir-rules-" + s.Limiter.Name}
}

func (s *Snapshot) configMap(limiter *v1alpha1.Limiter, set *selection.RuleSet) *corev1ac.ConfigMapApplyConfiguration {
	owner := metav1.NewControllerRef(limiter, v1alpha1.GroupVersion.WithKind("Limiter"))
	return corev1ac.ConfigMap(s.name().Name, s.name().Namespace).
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
		WithAnnotations(map[string]string{"weir.dev/revision": set.Revision}).
		WithBinaryData(map[string][]byte{snapshotKey: set.Data})
}

// problemOf identifies the problem behind an error, so that one that stays the same is logged once.
func problemOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "unreachable"
}
