package ruleset

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const (
	// snapshotKey is where in the ConfigMap the rule set lies, as rules.Encode wrote it.
	snapshotKey = "rules.json.gz"
	// snapshotOwner owns the ConfigMap's fields.
	snapshotOwner = client.FieldOwner("weir-operator-snapshot")
	// maxSnapshot bounds what is kept, in bytes: a ConfigMap holds 1 MiB, of which the rest is for names and labels.
	maxSnapshot = 1<<20 - 16<<10
	// keepTimeout bounds an attempt: an API server that is slow with ConfigMaps must not hold up an edit for long.
	keepTimeout = 2 * time.Second
)

// snapshot remembers what is kept of the rule set for limiters that start while Redis is away.
type snapshot struct {
	tried   string    // revision of the last attempt
	looked  time.Time // when that was
	version string    // resource version of the ConfigMap that holds it, empty if the attempt failed
	trouble string    // kind of what was wrong, empty if nothing was
}

// keep makes the ConfigMap hold the rule set, and looks once a resync whether it still does. What goes wrong is told in
// the log and tried again: it is about the next start of a limiter, not about those that run.
func (e *enforcer) keep(ctx context.Context, limiter *v1alpha1.Limiter) {
	now := e.Clock()
	if e.snapshot.tried == e.compiled.revision && now.Sub(e.snapshot.looked) < e.Resync {
		return
	}
	before := e.snapshot
	e.snapshot = snapshot{tried: e.compiled.revision, looked: now}
	if size := len(e.compiled.data); size > maxSnapshot {
		e.snapshot.trouble = "too large"
		if before.trouble != e.snapshot.trouble {
			log.FromContext(ctx).Info("the rule set is too large for a ConfigMap: limiters that start while Redis is away begin with an older one, if any",
				"configMap", e.snapshotName().String(), "bytes", size, "most", maxSnapshot)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	version, err := e.kept(ctx, limiter, before)
	if err != nil {
		e.snapshot.trouble = kindOf(err)
		if before.trouble != e.snapshot.trouble {
			log.FromContext(ctx).Error(err, "limiters that start while Redis is away will not begin with these rules; trying again until they do")
		}
		return
	}
	e.snapshot.version = version
	if before.trouble != "" || before.version != version {
		log.FromContext(ctx).Info("snapshot kept", "configMap", e.snapshotName().String(), "revision", e.compiled.revision)
	}
}

// kept writes the ConfigMap unless it is as it was left, and returns its resource version.
func (e *enforcer) kept(ctx context.Context, limiter *v1alpha1.Limiter, before snapshot) (version string, err error) {
	name := e.snapshotName()
	if before.version != "" && before.tried == e.compiled.revision {
		found := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		err := e.Uncached.Get(ctx, name, &found)
		if err == nil && found.ResourceVersion == before.version {
			return before.version, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("look at ConfigMap %s: %w", name, err)
		}
	}
	// The same content again changes nothing, and its resource version stays.
	apply := e.snapshotConfigMap(limiter)
	if err := e.Client.Apply(ctx, apply, snapshotOwner, client.ForceOwnership); err != nil {
		return "", fmt.Errorf("write ConfigMap %s: %w", name, err)
	}
	return *apply.ResourceVersion, nil // the client reads the answer into what it sent
}

func (e *enforcer) snapshotName() types.NamespacedName {
	return types.NamespacedName{Namespace: e.name.Namespace, Name: "weir-rules-" + e.name.Name}
}

func (e *enforcer) snapshotConfigMap(limiter *v1alpha1.Limiter) *corev1ac.ConfigMapApplyConfiguration {
	name := e.snapshotName()
	owner := metav1.NewControllerRef(limiter, v1alpha1.GroupVersion.WithKind("Limiter"))
	return corev1ac.ConfigMap(name.Name, name.Namespace).
		WithOwnerReferences(metav1ac.OwnerReference(). // it goes when the Limiter goes
								WithAPIVersion(owner.APIVersion).
								WithKind(owner.Kind).
								WithName(owner.Name).
								WithUID(owner.UID).
								WithController(true).
								WithBlockOwnerDeletion(true)).
		WithLabels(map[string]string{
			"app.kubernetes.io/name":       "weir",
			"app.kubernetes.io/component":  "limiter",
			"app.kubernetes.io/instance":   e.name.Name,
			"app.kubernetes.io/managed-by": "weir-operator",
		}).
		WithAnnotations(map[string]string{"weir.dev/revision": e.compiled.revision}).
		WithBinaryData(map[string][]byte{snapshotKey: e.compiled.data})
}

// kindOf is the part of an error that stays the same while the same is wrong.
func kindOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "unreachable"
}
