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

// Enforce has these policies in force, and no others: every limiter decides by them, and both API servers ask. What shows the
// latter are dry runs of like, by who, which count nothing.
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
			return fmt.Errorf("its conditions are %+v", now.Status.Conditions)
		}
		return nil
	}
}

// Asked waits until both API servers ask about writes like this one.
func (w *World) AwaitWebhook(ctx context.Context, who rest.ImpersonationConfig, like client.Object) error {
	for server := range 2 {
		c, err := w.As(server, who)
		if err != nil {
			return err
		}
		err = waitFor(ctx, fmt.Sprintf("API server %d to ask", server), func(ctx context.Context) error {
			before, err := w.WebhookCalls(ctx)
			if err != nil {
				return err
			}
			dry := like.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy of one
			if err := c.Create(ctx, dry, client.DryRunAll); err != nil && !IsDenied(err) {
				return err
			}
			after, err := w.WebhookCalls(ctx)
			if err == nil && after == before {
				err = errors.New("it has not")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Namespace makes a namespace of that tenant; its name begins with the tenant's.
func (w *World) Namespace(ctx context.Context, tenant string) (string, error) {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: tenant + "-", Labels: map[string]string{TenantLabel: tenant}}}
	if err := w.Admin.Create(ctx, n); err != nil {
		return "", fmt.Errorf("create a namespace of tenant %s: %w", tenant, err)
	}
	return n.Name, nil
}
