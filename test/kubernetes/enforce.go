package kubernetes

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Enforce replaces all policies by these. It waits until every limiter enforces them and both API servers call the webhook for writes like
// the given one. It checks that with dry runs by the user, which are not charged.
func (w *World) Enforce(ctx context.Context, who rest.ImpersonationConfig, like client.Object, policies ...*v1alpha1.ClusterRateLimitPolicy) error {
	if err := w.Admin.DeleteAllOf(ctx, &v1alpha1.ClusterRateLimitPolicy{}); err != nil {
		return err
	}
	for _, p := range policies {
		if err := w.Admin.Create(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range policies {
		if err := waitFor(ctx, "policy "+p.Name+" to be enforced", w.ready(p)); err != nil {
			return err
		}
	}
	if err := w.limitersReady(ctx); err != nil {
		return err
	}
	return w.AwaitWebhook(ctx, who, like)
}

func (w *World) ready(p *v1alpha1.ClusterRateLimitPolicy) func(context.Context) error {
	return func(ctx context.Context) error {
		now, err := read(ctx, w, "", p.Name, &v1alpha1.ClusterRateLimitPolicy{})
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("the conditions of the policy are %+v", now.Status.Conditions)
		}
		return nil
	}
}

// AwaitWebhook waits until both API servers call the webhook for writes like this one.
func (w *World) AwaitWebhook(ctx context.Context, who rest.ImpersonationConfig, like client.Object) error {
	for server := range 2 {
		c, err := w.As(server, who)
		if err != nil {
			return err
		}
		err = waitFor(ctx, fmt.Sprintf("a call of the webhook by API server %d", server), func(ctx context.Context) error {
			before, err := w.WebhookCalls(ctx)
			if err != nil {
				return err
			}
			dry := like.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy of a client.Object
			if err := c.Create(ctx, dry, client.DryRunAll); err != nil && !IsDenied(err) {
				return err
			}
			after, err := w.WebhookCalls(ctx)
			if err == nil && after == before {
				err = errors.New("the webhook has not been called")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Namespace creates a namespace of the tenant. Its name begins with the name of the tenant.
func (w *World) Namespace(ctx context.Context, tenant string) (string, error) {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: tenant + "-", Labels: map[string]string{TenantLabel: tenant}}}
	if err := w.Admin.Create(ctx, n); err != nil {
		return "", fmt.Errorf("create a namespace of tenant %s: %w", tenant, err)
	}
	return n.Name, nil
}
