package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// read reads an object of an attachment. It returns nil if the object does not exist, and fails if another user created it.
func read(ctx context.Context, c client.Reader, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	key, kind := client.ObjectKeyFromObject(object), object.GetKind()
	existing := emptyObject(object.GroupVersionKind(), key)
	err := c.Get(ctx, key, existing)
	switch {
	case meta.IsNoMatchError(err):
		return nil, missingKind(kind)
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", kind, key, err)
	}
	if _, managed := limiterOf(existing); !managed {
		return existing, fmt.Errorf("%s %s %w", kind, key, errForeign)
	}
	return existing, nil
}

var errForeign = errors.New("exists and was not created by this command: rename or delete it")

// readExisting reads the objects of the attachment that exist, before any of them is written.
func (f *Found) readExisting(ctx context.Context, c client.Reader, a *Attachment) error {
	for _, object := range a.Objects() {
		existing, err := read(ctx, c, object)
		if err != nil {
			return err
		}
		f.existing = append(f.existing, existing)
	}
	return nil
}

// Apply writes the objects of the attachment and returns them. An object in the namespace of the Limiter is deleted with the Limiter. A
// SecurityPolicy in another namespace is deleted with the Gateway, because an owner must be in the same namespace. An object that another
// user has created or changed since [Check] is an error.
func Apply(ctx context.Context, c client.Client, a *Attachment, found *Found) ([]*unstructured.Unstructured, error) {
	objects := a.Objects()
	for i, object := range objects {
		if object.GetNamespace() == a.Limiter.Namespace {
			ownedBy(object, v1alpha1.GroupVersion.WithKind("Limiter"), a.Limiter.Name, found.limiter.UID)
		} else {
			ownedBy(object, gatewayKind(), a.Gateway.Name, found.gateway.GetUID())
		}
		var err error
		if found.existing[i] == nil {
			err = c.Create(ctx, object, client.FieldOwner(manager))
		} else {
			objects[i], err = update(ctx, c, found.existing[i], object)
		}
		if err != nil {
			return nil, fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	// The Gateway was attached to a Limiter of another namespace.
	if previous := found.existing[len(objects)-1]; previous != nil {
		if oldLimiter, _ := limiterOf(previous); oldLimiter.Namespace != a.Limiter.Namespace && oldLimiter.Namespace != a.Gateway.Namespace {
			if _, err := deleteOwn(ctx, c, emptyObject(grantKind(), grantKey(a.Gateway, oldLimiter.Namespace))); err != nil {
				return objects, err
			}
		}
	}
	return objects, nil
}

// update changes the fields of an existing object that wanted has, keeps the others, and returns the object.
func update(ctx context.Context, c client.Client, existing, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object := existing.DeepCopy()
	labels := object.GetLabels()
	maps.Copy(labels, wanted.GetLabels())
	object.SetLabels(labels)
	object.SetOwnerReferences(wanted.GetOwnerReferences())
	merge(object.Object, map[string]any{"spec": wanted.Object["spec"]})
	return object, patch(ctx, c, object, existing)
}

// merge copies the fields of source into a JSON object. It replaces lists.
func merge(target, source map[string]any) {
	for name, value := range source {
		inner, ok := target[name].(map[string]any)
		if fields, both := value.(map[string]any); ok && both {
			merge(inner, fields)
			continue
		}
		target[name] = value
	}
}

// patch fails if another user has changed the object since it was read.
func patch(ctx context.Context, c client.Client, object, existing *unstructured.Unstructured) error {
	return c.Patch(ctx, object, client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{}), client.FieldOwner(manager))
}

// Detach deletes the objects of the attachment of a Gateway, and returns them. limiterNamespace is where a ReferenceGrant is looked for if the
// SecurityPolicy does not exist. A SecurityPolicy to which users have added settings is kept without those of the attachment: [IsKept] is true
// for it. It returns [ErrNotAttached] if there are no objects.
func Detach(ctx context.Context, c client.Client, gateway types.NamespacedName, limiterNamespace string) ([]*unstructured.Unstructured, error) {
	policy := emptyObject(policyKind(), policyKey(gateway))
	err := c.Get(ctx, policyKey(gateway), policy)
	if meta.IsNoMatchError(err) {
		return nil, missingKind(policyKind().Kind)
	}
	if limiter, managed := limiterOf(policy); err == nil && managed {
		limiterNamespace = limiter.Namespace
	}
	var deleted []*unstructured.Unstructured
	// The SecurityPolicy first: without the grant it would be invalid, and Envoy Gateway could deny requests.
	for _, object := range []*unstructured.Unstructured{policy, emptyObject(grantKind(), grantKey(gateway, limiterNamespace))} {
		was, err := deleteOwn(ctx, c, object)
		if err != nil {
			return deleted, err
		}
		if was {
			deleted = append(deleted, object)
		}
	}
	if len(deleted) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotAttached, gateway)
	}
	return deleted, nil
}

// deleteOwn deletes or releases an object of an attachment. It reports false if it does not exist, and fails if the object is another user's.
func deleteOwn(ctx context.Context, c client.Client, object *unstructured.Unstructured) (bool, error) {
	key, kind := client.ObjectKeyFromObject(object), object.GetKind()
	existing, err := read(ctx, c, object)
	if errors.Is(err, errForeign) {
		return false, fmt.Errorf("%s %s was not created by this command: it is not deleted", kind, key)
	}
	if err != nil || existing == nil {
		return false, err
	}
	if hasOtherSettings(existing) {
		existing.DeepCopyInto(object)
		release(object)
		if err := patch(ctx, c, object, existing); err != nil {
			return false, fmt.Errorf("remove spec.extAuth of %s %s: %w", kind, key, err)
		}
		return true, nil
	}
	version := existing.GetResourceVersion()
	err = c.Delete(ctx, object, client.Preconditions{ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete %s %s: %w", kind, key, err)
	}
	return true, nil
}

// hasOtherSettings reports whether users have added settings to the SecurityPolicy of an attachment, for example authentication.
func hasOtherSettings(object *unstructured.Unstructured) bool {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec") // the schema has checked it
	for name := range spec {
		if object.GetKind() == policyKind().Kind && name != "extAuth" && name != "targetRefs" {
			return true
		}
	}
	return false
}

// release removes what makes a SecurityPolicy that of an attachment. Otherwise it would be deleted with its owner.
func release(object *unstructured.Unstructured) {
	unstructured.RemoveNestedField(object.Object, "spec", "extAuth")
	labels := object.GetLabels()
	for _, name := range []string{managedByLabel, limiterLabel, limiterNamespaceLabel} {
		delete(labels, name)
	}
	object.SetLabels(labels)
	object.SetOwnerReferences(nil)
}

// IsKept reports whether [Detach] has kept an object, because users have added settings to it.
func IsKept(object *unstructured.Unstructured) bool { return hasOtherSettings(object) }
