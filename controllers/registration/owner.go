package registration

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownerRole is the ClusterRole in config/rbac that lets the operator maintain the configuration. The role owns the configuration: Kubernetes
// deletes the configuration when the role is deleted, as every uninstallation does. Otherwise, a webhook with failurePolicy Fail would remain
// and reject writes when nothing renews its certificate.
const ownerRole = "weir-operator-throttle"

// gatherOwner reads the owner of the configuration. Without the role, or the permission to read it, the configuration has no owner.
func (r *Reconciler) gatherOwner(ctx context.Context, f *inputs) error {
	role := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}}
	switch err := r.Uncached.Get(ctx, types.NamespacedName{Name: ownerRole}, &role); {
	case err == nil:
		f.owners = []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name, UID: role.UID}}
	case client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err):
		return fmt.Errorf("read ClusterRole %s: %w", ownerRole, err)
	}
	return nil
}
