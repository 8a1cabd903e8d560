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
)

// apply makes the object as it is rendered, unless it is so since it was last applied, and returns it as it is then.
func (r *Reconciler) apply(ctx context.Context, limiter *v1alpha1.Limiter, object client.Object) (client.Object, error) {
	live, err := r.live(ctx, object)
	if err != nil {
		return nil, err
	}
	return r.applyOver(ctx, limiter, object, live)
}

// applyOver is apply where it is known what there is; live is nil if there is nothing.
func (r *Reconciler) applyOver(ctx context.Context, limiter *v1alpha1.Limiter, object, live client.Object) (client.Object, error) {
	want, err := fields(object)
	if err != nil {
		return nil, err
	}
	if live == nil { // or a cache does not show it that holds what has the operator's label
		if err := r.checkUnseen(ctx, limiter, object); err != nil {
			return nil, err
		}
	} else {
		if err := mine(limiter, object, live); err != nil {
			return nil, err
		}
		if same, err := r.same(limiter, object, live); same || err != nil {
			return live, err
		}
	}
	now, err := r.write(ctx, limiter, object, want)
	if err != nil {
		return nil, err
	}
	shown, err := fields(now)
	if err != nil {
		return nil, err
	}
	r.memory.keep(limiter.UID, object, mark(want, shown))
	return now, nil
}

// same says whether the object is as it was when it was last applied, as it is rendered now.
func (r *Reconciler) same(limiter *v1alpha1.Limiter, object, live client.Object) (bool, error) {
	want, err := fields(object)
	if err != nil {
		return false, err
	}
	shown, err := fields(live)
	if err != nil {
		return false, err
	}
	return r.memory.has(limiter.UID, object, mark(want, shown)), nil
}

// live reads the object as it is; nil for none.
func (r *Reconciler) live(ctx context.Context, object client.Object) (client.Object, error) {
	var from client.Reader = r.Client
	if _, is := object.(*corev1.ConfigMap); is {
		from = r.Uncached
	}
	live, err := r.empty(object)
	if err != nil {
		return nil, err
	}
	err = from.Get(ctx, client.ObjectKeyFromObject(object), live)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // that there is none is what was asked
	}
	if err != nil {
		return nil, refusal("read "+described(object), err)
	}
	return live, nil
}

// empty is an object of the same Go type.
func (r *Reconciler) empty(like client.Object) (client.Object, error) {
	kind := like.GetObjectKind().GroupVersionKind()
	if _, is := like.(*unstructured.Unstructured); is {
		none := &unstructured.Unstructured{}
		none.SetGroupVersionKind(kind)
		return none, nil
	}
	made, err := r.Client.Scheme().New(kind)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", described(like), err)
	}
	return made.(client.Object), nil //nolint:forcetypeassert // like is one, and of the same type
}

// write applies what is wanted. Fields that others have changed are taken back if the object is the Limiter's: whether
// it is may be newer than what a cache shows.
func (r *Reconciler) write(ctx context.Context, limiter *v1alpha1.Limiter, object client.Object, want map[string]any) (client.Object, error) {
	sent := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(want)}
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(sent), fieldOwner)
	if apierrors.IsConflict(err) {
		if err := r.checkUnseen(ctx, limiter, object); err != nil {
			return nil, err
		}
		sent = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(want)}
		err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(sent), fieldOwner, client.ForceOwnership)
	}
	if err != nil {
		return nil, refusal("apply "+described(object), err)
	}
	now, err := r.empty(object) // the client reads the answer into what it sent
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sent.Object, now); err != nil {
		return nil, fmt.Errorf("read the answer to apply %s: %w", described(object), err)
	}
	return now, nil
}

// checkUnseen is mine of the object as the API server has it, whatever caches show.
func (r *Reconciler) checkUnseen(ctx context.Context, limiter *v1alpha1.Limiter, object client.Object) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(object), found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return refusal("read whose "+described(object)+" is", err)
	}
	return mine(limiter, object, found)
}

// mine says why the object that is there must be left alone, if it must.
func mine(limiter *v1alpha1.Limiter, object, found client.Object) error {
	if metav1.IsControlledBy(found, limiter) {
		return nil
	}
	if owner := metav1.GetControllerOf(found); owner != nil && owner.Kind == "Limiter" && owner.Name == limiter.Name {
		return pending("%s is still there of a Limiter of this name that was deleted", described(object))
	}
	return refused("%s is there already and not of this Limiter: delete it, or give the Limiter another name", described(object))
}

// prune removes what the Limiter owns and does not need any more.
func (r *Reconciler) prune(ctx context.Context, limiter *v1alpha1.Limiter, needed []client.Object) error {
	for _, optional := range optionalObjects(limiter) {
		if has(needed, optional) {
			continue
		}
		live, err := r.live(ctx, optional)
		if err != nil {
			return err
		}
		if live == nil || !metav1.IsControlledBy(live, limiter) || !live.GetDeletionTimestamp().IsZero() {
			continue
		}
		err = r.Client.Delete(ctx, live, client.Preconditions{UID: new(live.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", described(optional), err)
		}
		r.memory.drop(limiter.UID, optional)
	}
	return nil
}

func has(objects []client.Object, like client.Object) bool {
	for _, object := range objects {
		if described(object) == described(like) {
			return true
		}
	}
	return false
}

func described(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
}
