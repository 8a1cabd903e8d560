// Package ownership decides which objects belong to a Limiter. Everything that a Limiter has is deleted by the garbage collector of
// Kubernetes: no Limiter waits for an operator.
package ownership

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// State is the relation of an object to a Limiter.
type State int

const (
	// Foreign means that the object belongs to another owner, or to a user. The operator does not change it.
	Foreign State = iota
	// Owned means that the Limiter controls the object.
	Owned
	// Orphaned means that the object has the labels of the Limiter and no controller: the Limiter was deleted with --cascade=orphan, or a
	// backup was restored without owner references. The operator adopts it.
	Orphaned
	// OfDeleted means that a deleted Limiter of the same name controls the object, which waits for its garbage collection.
	OfDeleted
)

// The labels by which the operator recognizes what it has created for a Limiter.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "weir-operator"
	instanceLabel  = "app.kubernetes.io/instance"
)

// Of returns the relation of the object to the Limiter.
func Of(found metav1.Object, limiter *v1alpha1.Limiter) State {
	owner := metav1.GetControllerOf(found)
	switch {
	case owner == nil && HasLabels(found, limiter):
		return Orphaned
	case owner == nil:
		return Foreign
	case owner.UID == limiter.UID:
		return Owned
	case owner.Kind == "Limiter" && owner.Name == limiter.Name:
		return OfDeleted
	}
	return Foreign
}

// Belongs reports whether the operator may change the object for the Limiter: it is owned or orphaned.
func Belongs(found metav1.Object, limiter *v1alpha1.Limiter) bool {
	state := Of(found, limiter)
	return state == Owned || state == Orphaned
}

// HasLabels reports whether the object has the labels that the operator gives to what it creates for the Limiter.
func HasLabels(found metav1.Object, limiter *v1alpha1.Limiter) bool {
	return found.GetLabels()[managedByLabel] == managedBy && found.GetLabels()[instanceLabel] == limiter.Name
}

// obsoleteFinalizers are those of older versions. A Limiter with one of them would wait for an operator when it is deleted.
var obsoleteFinalizers = []string{"weir.dev/redis", "weir.dev/throttle"} //nolint:gochecknoglobals // constant

// RemoveObsoleteFinalizers removes the finalizers that older versions have added. It fails with a conflict if the Limiter has changed since
// it was read: finalizers are one list, in which other controllers have entries of their own.
func RemoveObsoleteFinalizers(ctx context.Context, c client.Client, limiter *v1alpha1.Limiter, owner client.FieldOwner) error {
	after := limiter.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(name string) bool { return slices.Contains(obsoleteFinalizers, name) })
	if len(after.Finalizers) == len(limiter.Finalizers) {
		return nil
	}
	patch := client.MergeFromWithOptions(limiter.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, after, patch, owner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove obsolete finalizers of Limiter %s/%s: %w", limiter.Namespace, limiter.Name, err)
	}
	*limiter = *after
	return nil
}
