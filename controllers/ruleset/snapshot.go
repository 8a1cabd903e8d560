package ruleset

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
func (r *Reconciler) keep(ctx context.Context) {
	now := r.Clock()
	if r.snapshot.tried == r.compiled.revision && now.Sub(r.snapshot.looked) < r.Resync {
		return
	}
	before := r.snapshot
	r.snapshot = snapshot{tried: r.compiled.revision, looked: now}
	if size := len(r.compiled.data); size > maxSnapshot {
		r.snapshot.trouble = "too large"
		if before.trouble != r.snapshot.trouble {
			log.FromContext(ctx).Info("the rule set is too large for a ConfigMap: limiters that start while Redis is away begin with an older one, if any",
				"configMap", r.snapshotName().String(), "bytes", size, "most", maxSnapshot)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	version, err := r.kept(ctx, before)
	if err != nil {
		r.snapshot.trouble = kindOf(err)
		if before.trouble != r.snapshot.trouble {
			log.FromContext(ctx).Error(err, "limiters that start while Redis is away will not begin with these rules; trying again until they do")
		}
		return
	}
	r.snapshot.version = version
	if before.trouble != "" || before.version != version {
		log.FromContext(ctx).Info("snapshot kept", "configMap", r.snapshotName().String(), "revision", r.compiled.revision)
	}
}

// kept writes the ConfigMap unless it is as it was left, and returns its resource version.
func (r *Reconciler) kept(ctx context.Context, before snapshot) (version string, err error) {
	name := r.snapshotName()
	if before.version != "" && before.tried == r.compiled.revision {
		found := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		err := r.Uncached.Get(ctx, name, &found)
		if err == nil && found.ResourceVersion == before.version {
			return before.version, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("look at ConfigMap %s: %w", name, err)
		}
	}
	// The same content again changes nothing, and its resource version stays.
	apply := r.snapshotConfigMap()
	if err := r.Client.Apply(ctx, apply, snapshotOwner, client.ForceOwnership); err != nil {
		return "", fmt.Errorf("write ConfigMap %s: %w", name, err)
	}
	return *apply.ResourceVersion, nil // the client reads the answer into what it sent
}

func (r *Reconciler) snapshotName() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Limiter.Namespace, Name: "weir-rules-" + r.Limiter.Name}
}

func (r *Reconciler) snapshotConfigMap() *corev1ac.ConfigMapApplyConfiguration {
	name := r.snapshotName()
	return corev1ac.ConfigMap(name.Name, name.Namespace).
		WithLabels(map[string]string{
			"app.kubernetes.io/name":       "weir",
			"app.kubernetes.io/component":  "limiter",
			"app.kubernetes.io/instance":   r.Limiter.Name,
			"app.kubernetes.io/managed-by": "weir-operator",
		}).
		WithAnnotations(map[string]string{"weir.dev/revision": r.compiled.revision}).
		WithBinaryData(map[string][]byte{snapshotKey: r.compiled.data})
}

// kindOf is the part of an error that stays the same while the same is wrong.
func kindOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "unreachable"
}
