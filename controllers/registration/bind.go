package registration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/ownership"
)

// deployedRole is the Role in config/rbac whose permission shows that a Limiter is deployed. The permission has no other use: the
// subresource does not exist.
const deployedRole = "weir-limiter-throttle"

// whileDeployed is a match condition that is true while the RoleBinding of the Limiter exists. The Deployment of the Limiter owns the
// RoleBinding. So when the Limiter, its Deployment, its namespace or the Role is deleted, in whatever order and with or without an
// operator, API servers stop calling the webhook, even if its failure policy is Fail. Match conditions cannot read other objects, but
// they can ask what a ServiceAccount is allowed to do.
func whileDeployed(limiter *v1alpha1.Limiter) admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "deployed", Expression: fmt.Sprintf(
		`authorizer.serviceAccount(%s, %s).group("weir.dev").resource("limiters").subresource("throttle").namespace(%s).name(%s).check("get").allowed()`,
		strconv.Quote(limiter.Namespace), strconv.Quote(deployment.Name(limiter.Name)), strconv.Quote(limiter.Namespace), strconv.Quote(limiter.Name))}
}

// bind gives every Limiter that should be registered its RoleBinding. A Limiter without one gets no webhook. Without the Role, no
// Limiter has a webhook. It returns an error if the webhooks of a registered Limiter must not change, because they would not match without the
// RoleBinding.
func (r *Reconciler) bind(ctx context.Context, f inputs, states []limiterState) error {
	if !slices.ContainsFunc(states, func(s limiterState) bool { return s.wantsWebhook() }) {
		return nil
	}
	key := client.ObjectKey{Namespace: r.Namespace, Name: deployedRole}
	missing := r.Uncached.Get(ctx, key, &rbacv1.Role{})
	if client.IgnoreNotFound(missing) != nil {
		return fmt.Errorf("read Role %s: %w", key, missing)
	}
	var failed error
	for i := range states {
		s := &states[i]
		if !s.wantsWebhook() {
			continue
		}
		if missing != nil {
			s.reason, s.message = v1alpha1.ReasonNotWritten, fmt.Sprintf(
				"Role %s does not exist, so API servers would not call the webhook: apply the manifest or the chart of this version again", key)
			continue
		}
		d := f.deployments[deployment.Name(s.limiter.Name)]
		if err := r.bindLimiter(ctx, s.limiter, &d); err != nil {
			if s.hasWebhook {
				failed = errors.Join(failed, err)
				continue
			}
			s.reason, s.message = v1alpha1.ReasonNotWritten, err.Error()
		}
	}
	return failed
}

// bindLimiter creates or corrects the RoleBinding of the Limiter.
func (r *Reconciler) bindLimiter(ctx context.Context, limiter *v1alpha1.Limiter, owner *appsv1.Deployment) error {
	name := deployment.Name(limiter.Name)
	if owner.UID == "" {
		return fmt.Errorf("Deployment %s does not exist", name) //nolint:staticcheck // a kind
	}
	wanted := roleBinding(limiter, owner)
	var found rbacv1.RoleBinding
	err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(wanted), &found)
	switch {
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, wanted, fieldOwner)
	case err != nil:
		return fmt.Errorf("read RoleBinding %s: %w", name, err)
	case !ownership.HasLabels(&found, limiter):
		return fmt.Errorf("RoleBinding %s already exists and does not belong to this Limiter: delete it, or rename the Limiter", name)
	case equality.Semantic.DeepEqual(found.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(found.Subjects, wanted.Subjects) && found.RoleRef == wanted.RoleRef:
		return nil
	default:
		wanted.ResourceVersion = found.ResourceVersion
		err = r.Client.Update(ctx, wanted, fieldOwner)
	}
	if err != nil {
		return fmt.Errorf("write RoleBinding %s: %w", name, err)
	}
	return nil
}

func roleBinding(limiter *v1alpha1.Limiter, owner *appsv1.Deployment) *rbacv1.RoleBinding {
	name := deployment.Name(limiter.Name)
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: limiter.Namespace, Name: name, Labels: deployment.Labels(limiter),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: owner.Name, UID: owner.UID, Controller: new(true),
			}},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: deployedRole},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: limiter.Namespace, Name: name}},
	}
}
