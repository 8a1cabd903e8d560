package deployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ownership"
)

// apply applies the object as rendered, unless it is unchanged since it was last applied. It returns the resulting object.
func (r *Reconciler) apply(ctx context.Context, limiter *v1alpha1.Limiter, object client.Object) (client.Object, error) {
	live, err := r.readLive(ctx, object)
	if err != nil {
		return nil, err
	}
	return r.applyIfChanged(ctx, limiter, object, live)
}

// applyIfChanged is apply for an object that has been read already. live is nil if the object does not exist.
func (r *Reconciler) applyIfChanged(ctx context.Context, limiter *v1alpha1.Limiter, object, live client.Object) (client.Object, error) {
	want, err := fields(object)
	if err != nil {
		return nil, err
	}
	if live == nil { // or the cache, which holds only objects with the operator's label, misses it
		if err := r.checkOwnerUncached(ctx, limiter, object); err != nil {
			return nil, err
		}
	} else {
		if err := checkOwner(limiter, object, live); err != nil {
			return nil, err
		}
		if same, err := r.isApplied(limiter, object, live); same || err != nil {
			return live, err
		}
	}
	applied, err := r.serverSideApply(ctx, limiter, object, want)
	if err != nil {
		return nil, err
	}
	current, err := fields(applied)
	if err != nil {
		return nil, err
	}
	r.applied.store(client.ObjectKeyFromObject(limiter), object, fingerprint(want, current))
	return applied, nil
}

// isApplied reports whether the object was applied as it is rendered now, and has not changed since.
func (r *Reconciler) isApplied(limiter *v1alpha1.Limiter, object, live client.Object) (bool, error) {
	want, err := fields(object)
	if err != nil {
		return false, err
	}
	current, err := fields(live)
	if err != nil {
		return false, err
	}
	return r.applied.matches(client.ObjectKeyFromObject(limiter), object, fingerprint(want, current)), nil
}

// readLive reads the object. It returns nil if the object does not exist.
func (r *Reconciler) readLive(ctx context.Context, object client.Object) (client.Object, error) {
	var from client.Reader = r.Client
	if _, ok := object.(*corev1.ConfigMap); ok {
		from = r.Uncached
	}
	live, err := r.newObjectLike(object)
	if err != nil {
		return nil, err
	}
	err = from.Get(ctx, client.ObjectKeyFromObject(object), live)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nil means that the object does not exist
	}
	if err != nil {
		return nil, classifyAPIError("read "+describe(object), err)
	}
	return live, nil
}

// newObjectLike returns an empty object of the same Go type and kind.
func (r *Reconciler) newObjectLike(like client.Object) (client.Object, error) {
	kind := like.GetObjectKind().GroupVersionKind()
	if _, ok := like.(*unstructured.Unstructured); ok {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		return object, nil
	}
	made, err := r.Client.Scheme().New(kind)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", describe(like), err)
	}
	return made.(client.Object), nil //nolint:forcetypeassert // like is a client.Object of the same Go type
}

// serverSideApply applies the wanted fields. After a conflict it takes over fields of other owners, but only if the API server,
// not a cache, confirms that the object belongs to the Limiter.
func (r *Reconciler) serverSideApply(ctx context.Context, limiter *v1alpha1.Limiter, object client.Object, want map[string]any) (client.Object, error) {
	sent := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(want)}
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(sent), fieldOwner)
	if apierrors.IsConflict(err) {
		if err := r.checkOwnerUncached(ctx, limiter, object); err != nil {
			return nil, err
		}
		sent = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(want)}
		err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(sent), fieldOwner, client.ForceOwnership)
	}
	if err != nil {
		return nil, classifyAPIError("apply "+describe(object), err)
	}
	applied, err := r.newObjectLike(object) // the client decodes the response into what it sent
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sent.Object, applied); err != nil {
		return nil, fmt.Errorf("decode the applied %s: %w", describe(object), err)
	}
	return applied, nil
}

// checkOwnerUncached is checkOwner for the object as the API server has it, not a cache.
func (r *Reconciler) checkOwnerUncached(ctx context.Context, limiter *v1alpha1.Limiter, object client.Object) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(object), found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return classifyAPIError("read the owner of "+describe(object), err)
	}
	return checkOwner(limiter, object, found)
}

// checkOwner returns an error if the found object does not belong to the Limiter. The controller must not change it then.
func checkOwner(limiter *v1alpha1.Limiter, object, found client.Object) error {
	switch ownership.Of(found, limiter) {
	case ownership.Owned, ownership.Orphaned:
		return nil
	case ownership.OfDeleted:
		return pending("%s still belongs to a deleted Limiter with this name, waiting for its garbage collection", describe(object))
	default:
		return refused("%s already exists and does not belong to this Limiter: delete it, or rename the Limiter", describe(object))
	}
}

// prune deletes objects that the Limiter owns and no longer needs.
func (r *Reconciler) prune(ctx context.Context, limiter *v1alpha1.Limiter, needed []client.Object) error {
	for _, optional := range optionalObjects(limiter) {
		if containsObject(needed, optional) {
			continue
		}
		live, err := r.readLive(ctx, optional)
		if err != nil {
			return err
		}
		if live == nil || ownership.Of(live, limiter) != ownership.Owned || !live.GetDeletionTimestamp().IsZero() {
			continue
		}
		err = r.Client.Delete(ctx, live, client.Preconditions{UID: new(live.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", describe(optional), err)
		}
		r.applied.forget(client.ObjectKeyFromObject(limiter), optional)
	}
	return nil
}

func containsObject(objects []client.Object, like client.Object) bool {
	for _, object := range objects {
		if describe(object) == describe(like) {
			return true
		}
	}
	return false
}

func describe(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
}
