// Package status summarizes an installation of Weir from the objects in a cluster: Limiters, policies, Deployments and webhooks.
package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// pageSize is the number of objects per request, as with kubectl.
const pageSize = 500

// ErrNotInstalled means that the cluster does not have the CRDs of Weir.
var ErrNotInstalled = errors.New("the cluster does not have the CRDs of Weir: Weir is not installed")

// Scope selects the objects that [Read] reads.
type Scope struct {
	// Namespace limits it to the Limiters, policies and Deployments of a namespace. Empty is the whole installation.
	Namespace string
	// OperatorNamespace is the namespace of the operator.
	OperatorNamespace string
}

// where describes the namespaces in text.
func (s Scope) where() string {
	if s.Namespace == "" {
		return "all namespaces"
	}
	return "namespace " + s.Namespace
}

// Objects are what [New] summarizes.
type Objects struct {
	Scope

	// Now is when the objects were read.
	Now time.Time

	Limiters        []v1alpha1.Limiter
	Policies        []v1alpha1.RateLimitPolicy
	ClusterPolicies []v1alpha1.ClusterRateLimitPolicy
	// Deployments are those of the Limiters and of the operator.
	Deployments []appsv1.Deployment
	Webhooks    []admissionv1.ValidatingWebhookConfiguration
	// Unread are the resources that the user cannot read.
	Unread []Unread
}

// Unread is a resource that the user cannot read.
type Unread struct {
	Resource string `json:"resource"` // PLURAL.GROUP
	// Permission is the missing permission. For example: list deployments.apps in namespace shop.
	Permission string `json:"permission"`
}

// Read reads the objects. Missing permissions are in Objects.Unread. The error of a cluster without Weir is ErrNotInstalled.
func Read(ctx context.Context, c client.Reader, scope Scope) (*Objects, error) {
	o := &Objects{Scope: scope, Now: time.Now()}
	where := client.InNamespace(scope.Namespace)
	err := o.permitted(limiterResource, "list "+limiterResource+" in "+scope.where(), list(ctx, c, func(l *v1alpha1.LimiterList) {
		o.Limiters = append(o.Limiters, l.Items...)
	}, where))
	if err != nil {
		return nil, err
	}
	err = o.permitted(policyResource, "list "+policyResource+" in "+scope.where(), list(ctx, c, func(l *v1alpha1.RateLimitPolicyList) {
		o.Policies = append(o.Policies, l.Items...)
	}, where))
	if err != nil {
		return nil, err
	}
	err = o.permitted(deploymentResource, "list "+deploymentResource+" in "+scope.where(), list(ctx, c, func(l *appsv1.DeploymentList) {
		o.Deployments = append(o.Deployments, l.Items...)
	}, where, client.MatchingLabels{nameLabel: "weir"}))
	if err != nil || scope.Namespace != "" {
		return o, err
	}
	err = o.permitted(clusterPolicyResource, "list "+clusterPolicyResource, list(ctx, c, func(l *v1alpha1.ClusterRateLimitPolicyList) {
		o.ClusterPolicies = append(o.ClusterPolicies, l.Items...)
	}))
	for _, name := range webhookConfigurations() {
		if err != nil {
			return nil, err
		}
		var one admissionv1.ValidatingWebhookConfiguration
		switch failed := c.Get(ctx, client.ObjectKey{Name: name}, &one); {
		case failed == nil:
			o.Webhooks = append(o.Webhooks, one)
		case !apierrors.IsNotFound(failed):
			err = o.permitted(webhookResource, fmt.Sprintf("get %s %s", webhookResource, name), failed)
		}
	}
	return o, err
}

// list passes the objects to add in pages.
func list[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, c client.Reader, add func(L), options ...client.ListOption) error {
	for token := ""; ; {
		page := L(new(T)) // a decoder reuses the memory of the previous page
		if err := c.List(ctx, page, append(options, client.Limit(pageSize), client.Continue(token))...); err != nil {
			return err
		}
		add(page)
		if token = page.GetContinue(); token == "" {
			return nil
		}
	}
}

// permitted records a missing permission, and returns other errors.
func (o *Objects) permitted(resource, permission string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		o.Unread = append(o.Unread, Unread{Resource: resource, Permission: permission})
		return nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return ErrNotInstalled
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server rejects the credentials of the kubeconfig: %w", err)
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return fmt.Errorf("the API server does not answer: %w", err)
	default:
		return fmt.Errorf("read %s: %w", resource, err)
	}
}
