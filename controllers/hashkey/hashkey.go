// Package hashkey manages the keys with which limiters hash API keys: one master key of the installation, and a key of each counter group
// that is derived from it.
package hashkey

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
)

const (
	// MasterSecret is the name of the Secret in the namespace of the operator.
	MasterSecret = "weir-hash-key"
	// DataKey is the key of the text in MasterSecret and in the Secrets of Limiters.
	DataKey = "key"
)

// Master returns the master key in the Secret MasterSecret of the namespace. It creates the Secret if it does not exist, and never changes it:
// users can create it before the operator starts, for example to restore it.
func Master(ctx context.Context, c client.Client, namespace string) (*limiter.HashKey, error) {
	name := types.NamespacedName{Namespace: namespace, Name: MasterSecret}
	key, err := read(ctx, c, name)
	if !apierrors.IsNotFound(err) {
		return key, err
	}
	key = limiter.RandomHashKey()
	err = c.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: MasterSecret,
			Labels: map[string]string{"app.kubernetes.io/name": "weir", "app.kubernetes.io/part-of": "weir"},
		},
		Data: map[string][]byte{DataKey: key.Text()},
	})
	if apierrors.IsAlreadyExists(err) { // another replica of the operator was faster
		return read(ctx, c, name)
	}
	if err != nil {
		return nil, fmt.Errorf("create Secret %s for the hash key: %w", name, err)
	}
	return key, nil
}

func read(ctx context.Context, c client.Reader, name types.NamespacedName) (*limiter.HashKey, error) {
	var secret corev1.Secret
	if err := c.Get(ctx, name, &secret); err != nil {
		return nil, fmt.Errorf("read the hash key: %w", err)
	}
	key, err := limiter.NewHashKey(secret.Data[DataKey])
	if err != nil {
		return nil, fmt.Errorf("read the hash key: key %q of Secret %s: %w", DataKey, name, err)
	}
	return key, nil
}

// Of returns the key of the counter group of the Limiter. Limiters that share counters have the same key.
func Of(master *limiter.HashKey, l *v1alpha1.Limiter) *limiter.HashKey {
	if group := l.Spec.CounterGroup; group != "" {
		return master.Derive("@" + group)
	}
	return master.Derive(l.Namespace + "/" + l.Name)
}
