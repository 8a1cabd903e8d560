// Package finalizers writes the finalizers of Limiters.
package finalizers

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Patch writes the finalizers of after, a changed copy of before. It fails with a conflict if the Limiter has changed since
// before was read: finalizers are one list, in which other controllers have entries of their own.
func Patch(ctx context.Context, c client.Client, before, after *v1alpha1.Limiter, owner client.FieldOwner) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, after, patch, owner); err != nil {
		return fmt.Errorf("write finalizers of Limiter %s/%s: %w", before.Namespace, before.Name, err)
	}
	return nil
}
