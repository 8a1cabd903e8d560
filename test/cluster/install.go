package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// manifest is a path relative to the root of the module, which is the working directory.
const manifest = "dist/e2e/install.yaml"

// installByManifest runs the commands of docs/how-to/install.md, with server-side apply.
func installByManifest(ctx context.Context, s *scenario) error {
	if err := s.applyManifest(ctx, s.options.image); err != nil {
		return err
	}
	if err := s.waitForOperator(ctx); err != nil {
		return err
	}
	s.within(ctx, 30*time.Second, "the webhook rejects an invalid policy and names each field", s.rejectsInvalidPolicy)
	return nil
}

// applyManifest installs Weir with the image, or upgrades it to the image.
func (s *scenario) applyManifest(ctx context.Context, image string) error {
	if err := os.MkdirAll(filepath.Dir(manifest), 0o755); err != nil {
		return err
	}
	if err := s.run(ctx, "hack/install.sh", "manifest", image, manifest); err != nil {
		return err
	}
	if err := shortenGrace(); err != nil {
		return err
	}
	return s.run(ctx, "kubectl", "apply", "--server-side", "-f", manifest)
}

// shortenGrace shortens the grace period in the manifest. An operator ends within 7 s. But while a namespace has pods, Kubernetes tries to delete
// it again only after half of their longest grace period.
func shortenGrace() error {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`terminationGracePeriodSeconds: \d+`).ReplaceAll(text, []byte("terminationGracePeriodSeconds: 10"))
	return os.WriteFile(manifest, text, 0o644) //nolint:gosec // a constant path
}

func (s *scenario) waitForOperator(ctx context.Context) error {
	return sequence(
		s.waitForCRDs,
		s.command("kubectl", "-n", system, "rollout", "status", "deployment/weir-operator", "--timeout=2m"),
	)(ctx)
}

// waitForCRDs retries: kubectl wait fails on a CRD without any condition, which a CRD has for a moment.
func (s *scenario) waitForCRDs(ctx context.Context) error {
	return waitUntil(s.command("kubectl", "wait", "--for=condition=Established", "--timeout=30s",
		"crd/limiters.weir.dev", "crd/ratelimitpolicies.weir.dev", "crd/clusterratelimitpolicies.weir.dev"))(ctx)
}

// invalidFields are the invalid fields of invalidPolicy. Only the webhook can find them.
func invalidFields() []string {
	return []string{"spec.match.http.paths[0].value", "spec.match.http.expression"}
}

func invalidPolicy(namespace string) *v1alpha1.RateLimitPolicy {
	bad := policy(namespace, "bad", 1, "1m")
	bad.Spec.Match.HTTP.Paths = []v1alpha1.PathMatch{{Type: "RegularExpression", Value: "/v1/(?=x)"}}
	bad.Spec.Match.HTTP.Expression = new(v1alpha1.Expression("request.path.endsWith("))
	return bad
}

// rejectsInvalidPolicy checks that the webhook rejects invalidPolicy and names all invalid fields. It is a dry run, so that nothing is stored.
func (s *scenario) rejectsInvalidPolicy(ctx context.Context) error {
	err := s.Create(ctx, invalidPolicy(metav1.NamespaceDefault), client.DryRunAll)
	if err == nil {
		return errors.New("an invalid policy is accepted")
	}
	for _, field := range invalidFields() {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) {
			return fmt.Errorf("an invalid policy is rejected, but not for %s: %w", field, err)
		}
	}
	return nil
}

// checkNoWeir fails if the cluster already has Weir, because the test removes all of Weir.
func (s *scenario) checkNoWeir(ctx context.Context) error {
	left, err := s.leftovers(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("the cluster already has objects of Weir: %s; use a cluster without Weir, because the test uninstalls it", strings.Join(left, ", "))
	}
	return nil
}
