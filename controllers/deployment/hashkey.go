package deployment

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/hashkey"
	"github.com/weir-dev/weir/limiter"
)

// hashKeySecret returns the name of the Secret with the hash key of the Limiter. Another key has another Secret: the pods are then replaced,
// and the operator needs no permission to change Secrets.
func hashKeySecret(l *v1alpha1.Limiter, key *limiter.HashKey) string {
	return Name(l.Name) + "-hash-key-" + key.ID()
}

// createdHashKey is a Secret with a hash key that was created or found.
type createdHashKey struct {
	name string
	at   time.Time
}

// createHashKey creates the Secret with the hash key of the Limiter, unless it exists. It needs only the permission to create Secrets: the
// permission to patch one, also by applying it, includes reading it. A limiter rejects rules that were compiled with another key than
// that in its Secret.
func (r *Reconciler) createHashKey(ctx context.Context, l *v1alpha1.Limiter) error {
	if r.Options.HashKey == nil {
		return nil
	}
	key := hashkey.Of(r.Options.HashKey, l)
	secret := &corev1.Secret{
		TypeMeta: kindOf("", "v1", "Secret"), ObjectMeta: objectMeta(l), Immutable: new(true), Data: map[string][]byte{hashkey.DataKey: key.Text()},
	}
	secret.Name = hashKeySecret(l, key)
	if created, _ := r.hashKeys.Load(client.ObjectKeyFromObject(l)); created != nil {
		if c := created.(createdHashKey); c.name == secret.Name && r.Clock().Sub(c.at) < resyncInterval { //nolint:forcetypeassert // no other type is stored
			return nil
		}
	}
	if err := r.Client.Create(ctx, secret, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		return classifyAPIError("create Secret "+secret.Name, err)
	}
	r.hashKeys.Store(client.ObjectKeyFromObject(l), createdHashKey{secret.Name, r.Clock()})
	return nil
}
