package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// manifest is written below the root of the module, where the story is told.
const manifest = "dist/e2e/install.yaml"

// installByManifest does what docs/how-to/install.md says, with server-side apply.
func installByManifest(ctx context.Context, s *story) error {
	if err := s.applyManifest(ctx, s.plan.image); err != nil {
		return err
	}
	if err := s.operatorIsThere(ctx); err != nil {
		return err
	}
	s.within(ctx, 30*time.Second, "the webhook refuses a bad policy, field by field,", s.refusesBadPolicy)
	return nil
}

// applyManifest installs that image, or upgrades to it.
func (s *story) applyManifest(ctx context.Context, image string) error {
	if err := os.MkdirAll(filepath.Dir(manifest), 0o755); err != nil {
		return err
	}
	if err := s.run(ctx, "hack/install.sh", "manifest", image, manifest); err != nil {
		return err
	}
	return s.run(ctx, "kubectl", "apply", "--server-side", "-f", manifest)
}

func (s *story) operatorIsThere(ctx context.Context) error {
	return inOrder(
		s.types("kubectl", "wait", "--for=condition=Established", "--timeout=30s",
			"crd/limiters.weir.dev", "crd/ratelimitpolicies.weir.dev", "crd/clusterratelimitpolicies.weir.dev"),
		s.types("kubectl", "-n", system, "rollout", "status", "deployment/weir-operator", "--timeout=2m"),
	)(ctx)
}

// badFields are what is wrong with badPolicy, and takes a compiler to see.
func badFields() []string {
	return []string{"spec.match.http.paths[0].value", "spec.match.http.expression"}
}

func badPolicy(namespace string) *v1alpha1.RateLimitPolicy {
	bad := policy(namespace, "bad", 1, "1m")
	bad.Spec.Match.HTTP.Paths = []v1alpha1.PathMatch{{Type: "RegularExpression", Value: "/v1/(?=x)"}}
	bad.Spec.Match.HTTP.Expression = new(v1alpha1.Expression("request.path.endsWith("))
	return bad
}

// refusesBadPolicy looks whether the webhook refuses it for all that is wrong with it. A dry run stores nothing if it does not.
func (s *story) refusesBadPolicy(ctx context.Context) error {
	err := s.Create(ctx, badPolicy(metav1.NamespaceDefault), client.DryRunAll)
	if err == nil {
		return errors.New("a bad policy is taken")
	}
	for _, field := range badFields() {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) {
			return fmt.Errorf("a bad policy is refused, but not for %s: %w", field, err)
		}
	}
	return nil
}

// checkEmpty refuses a cluster that somebody uses Weir in: the story removes all of it.
func (s *story) checkEmpty(ctx context.Context) error {
	left, err := s.leftovers(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("the cluster has something of Weir already: %s; the story wants a cluster without, for it uninstalls all of it", strings.Join(left, ", "))
	}
	return nil
}
