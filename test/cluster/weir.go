package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// takeOver is the time limit for another operator to become the leader.
const takeOver = 30 * time.Second

// manifest is a path relative to the root of the module, which is the working directory.
const manifest = "dist/e2e/install.yaml"

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

// startLimiter runs step 3 of docs/how-to/install.md.
func (s *scenario) startLimiter(ctx context.Context) error {
	return sequence(
		s.startRedis,
		s.command("kubectl", "apply", "-f", "config/samples/limiter/default.yaml"),
		s.command("kubectl", "-n", system, "rollout", "status", "deployment/redis", "--timeout=2m"),
		s.command("kubectl", "-n", system, "wait", "--for=condition=Ready", "limiter/default", "--timeout=2m"),
	)(ctx)
}

// startRedis installs Redis with the image of the test, and with a short grace period, as in shortenGrace.
func (s *scenario) startRedis(ctx context.Context) error {
	redis, err := s.quietly(ctx, "", "kubectl", "kustomize", "config/redis")
	if err != nil {
		return err
	}
	redis = strings.NewReplacer(
		"image: redis:7", "image: "+s.options.redis,
		"enableServiceLinks: false", "enableServiceLinks: false\n      terminationGracePeriodSeconds: 5",
	).Replace(redis)
	_, err = s.pipe(ctx, redis, "kubectl", "apply", "-f", "-")
	return err
}

// policiesForRequests returns the number of policies that a Limiter without kubernetesThrottle enforces. All RateLimitPolicies are of that kind.
func (s *scenario) policiesForRequests(ctx context.Context) (int32, error) {
	var namespaced v1alpha1.RateLimitPolicyList
	var cluster v1alpha1.ClusterRateLimitPolicyList
	if err := errors.Join(s.List(ctx, &namespaced), s.List(ctx, &cluster)); err != nil {
		return 0, err
	}
	total := len(namespaced.Items)
	for i := range cluster.Items {
		if m := cluster.Items[i].Spec.Match; m == nil || m.Kubernetes == nil {
			total++
		}
	}
	return int32(total), nil
}

// countsPolicies checks that the Limiter is Ready with two replicas, a reachable Redis and this number of policies.
func (s *scenario) countsPolicies(policies int32) action {
	limiter := limiterNamed(system, "default")
	return func(ctx context.Context) error {
		if err := s.hasCondition(limiter, ready("Deployed"))(ctx); err != nil {
			return err
		}
		is := limiter.Status
		if is.Policies == nil || is.Policies.Accepted != policies || is.Redis == nil || !is.Redis.Reachable || is.ReadyReplicas != 2 {
			return fmt.Errorf("the status of the Limiter is %+v", is)
		}
		return nil
	}
}

// runsImage checks that the Deployment of the limiters has the image.
func (s *scenario) runsImage(image string) action {
	return func(ctx context.Context) error {
		d, err := s.limiterDeployment(ctx)
		if err == nil && d.Spec.Template.Spec.Containers[0].Image != image {
			err = fmt.Errorf("limiters run %s, want %s", d.Spec.Template.Spec.Containers[0].Image, image)
		}
		return err
	}
}

func (s *scenario) limiterDeployment(ctx context.Context) (d appsv1.Deployment, err error) {
	err = s.Get(ctx, types.NamespacedName{Namespace: system, Name: limiterPods}, &d)
	return d, err
}

// scaleTo scales the Limiter and waits until all replicas enforce a policy.
func (s *scenario) scaleTo(replicas int) action {
	want := ready("Programmed")
	want.text = "all replicas enforce"
	enforced := sequence(s.hasCondition(limiterNamed(system, "default"), ready("Deployed")), s.hasCondition(policyNamed(traffic, steadyPolicy), want))
	return sequence(
		s.command("kubectl", "-n", system, "scale", "limiter/default", fmt.Sprintf("--replicas=%d", replicas)),
		func(ctx context.Context) error {
			s.within(ctx, 60*time.Second, fmt.Sprintf("%d replicas are ready and enforce the policy", replicas), enforced)
			return nil
		},
		waitUntil(s.rolledOut(system, limiterPods)),
	)
}

func (s *scenario) restart(deployment string) action {
	return sequence(
		s.command("kubectl", "-n", system, "rollout", "restart", "deployment/"+deployment),
		waitUntil(s.rolledOut(system, deployment)))
}

// resetCounters restarts Redis, which does not persist data, and waits until Weir is healthy.
func (s *scenario) resetCounters(ctx context.Context) error {
	return sequence(s.restart(redisPods), waitUntil(s.healthy()))(ctx)
}

// healthy checks that the Limiter and the policies of the load are Ready and not Degraded.
func (s *scenario) healthy() action {
	limiter, p := limiterNamed(system, "default"), policyNamed(traffic, steadyPolicy)
	return sequence(s.hasCondition(limiter, ready("Deployed")), s.hasCondition(p, ready("Programmed")),
		s.lacksCondition(limiter, v1alpha1.ConditionDegraded), s.lacksCondition(p, v1alpha1.ConditionDegraded))
}

// backdate sets the time since which each CA is in the bundles.
func backdate(cas []byte, since time.Time) ([]byte, error) {
	var all []map[string]any
	if err := json.Unmarshal(cas, &all); err != nil {
		return nil, fmt.Errorf("read authorities.json: %w", err)
	}
	for _, a := range all {
		a["carried"] = since.UTC().Format(time.RFC3339)
	}
	return json.Marshal(all)
}
