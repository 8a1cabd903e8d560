package scenario

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

// TakeOver is the time limit for another operator to become the leader.
const TakeOver = 30 * time.Second

// Manifest is a path relative to the root of the module, which is the working directory.
const Manifest = "dist/e2e/install.yaml"

// ApplyManifest installs Weir with the image, or upgrades it to the image. The operator gets a short grace period, because Kubernetes tries to
// delete a namespace that has pods again only after half of their longest grace period.
func (s *Scenario) ApplyManifest(ctx context.Context, image string) error {
	if err := os.MkdirAll(filepath.Dir(Manifest), 0o755); err != nil {
		return err
	}
	if err := s.Run(ctx, "hack/install.sh", "manifest", image, Manifest); err != nil {
		return err
	}
	if err := shortenGrace(); err != nil {
		return err
	}
	return s.Run(ctx, "kubectl", "apply", "--server-side", "-f", Manifest)
}

// shortenGrace shortens the grace period in the manifest. An operator ends within 7 s.
func shortenGrace() error {
	text, err := os.ReadFile(Manifest)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`terminationGracePeriodSeconds: \d+`).ReplaceAll(text, []byte("terminationGracePeriodSeconds: 10"))
	return os.WriteFile(Manifest, text, 0o644) //nolint:gosec // a constant path
}

// WaitForOperator waits for the CRDs and for all pods of the operator.
func (s *Scenario) WaitForOperator(ctx context.Context) error {
	return Sequence(
		s.WaitForCRDs,
		s.Command("kubectl", "-n", System, "rollout", "status", "deployment/weir-operator", "--timeout=2m"),
	)(ctx)
}

// WaitForCRDs retries: kubectl wait fails on a CRD without any condition, which a CRD has for a moment.
func (s *Scenario) WaitForCRDs(ctx context.Context) error {
	return WaitUntil(s.Command("kubectl", "wait", "--for=condition=Established", "--timeout=30s",
		"crd/limiters.weir.dev", "crd/ratelimitpolicies.weir.dev", "crd/clusterratelimitpolicies.weir.dev"))(ctx)
}

// invalidFields are the invalid fields of invalidPolicy. Only the webhook can find them.
func invalidFields() []string {
	return []string{"spec.match.http.paths[0].value", "spec.match.http.expression"}
}

func invalidPolicy(namespace string) *v1alpha1.RateLimitPolicy {
	bad := Policy(namespace, "bad", 1, "1m")
	bad.Spec.Match.HTTP.Paths = []v1alpha1.PathMatch{{Type: "RegularExpression", Value: "/v1/(?=x)"}}
	bad.Spec.Match.HTTP.Expression = new(v1alpha1.Expression("request.path.endsWith("))
	return bad
}

// RejectsInvalidPolicy checks that the webhook rejects invalidPolicy and names all invalid fields. It is a dry run, so that nothing is stored.
func (s *Scenario) RejectsInvalidPolicy(ctx context.Context) error {
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

// StartLimiter runs step 3 of docs/how-to/install.md.
func (s *Scenario) StartLimiter(ctx context.Context) error {
	return Sequence(
		s.StartRedis,
		s.Command("kubectl", "apply", "-f", "config/samples/limiter/default.yaml"),
		s.Command("kubectl", "-n", System, "rollout", "status", "deployment/redis", "--timeout=2m"),
		s.Command("kubectl", "-n", System, "wait", "--for=condition=Ready", "limiter/default", "--timeout=2m"),
	)(ctx)
}

// StartRedis installs Redis with the image of the test, and with a short grace period, as ApplyManifest.
func (s *Scenario) StartRedis(ctx context.Context) error {
	redis, err := s.Quietly(ctx, "", "kubectl", "kustomize", "config/redis")
	if err != nil {
		return err
	}
	redis = strings.NewReplacer(
		"image: redis:7", "image: "+s.Options.Redis,
		"enableServiceLinks: false", "enableServiceLinks: false\n      terminationGracePeriodSeconds: 5",
	).Replace(redis)
	_, err = s.Pipe(ctx, redis, "kubectl", "apply", "-f", "-")
	return err
}

// PoliciesForRequests returns the number of policies that a Limiter without kubernetesThrottle enforces. All RateLimitPolicies are of that kind.
func (s *Scenario) PoliciesForRequests(ctx context.Context) (int32, error) {
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

// CountsPolicies checks that the Limiter is Ready with two replicas, a reachable Redis and this number of policies.
func (s *Scenario) CountsPolicies(policies int32) Action {
	limiter := LimiterNamed(System, "default")
	return func(ctx context.Context) error {
		if err := s.HasCondition(limiter, Ready("Deployed"))(ctx); err != nil {
			return err
		}
		is := limiter.Status
		if is.Policies == nil || is.Policies.Accepted != policies || is.Redis == nil || !is.Redis.Reachable || is.ReadyReplicas != 2 {
			return fmt.Errorf("the status of the Limiter is %+v", is)
		}
		return nil
	}
}

// RunsImage checks that the Deployment of the limiters has the image.
func (s *Scenario) RunsImage(image string) Action {
	return func(ctx context.Context) error {
		d, err := s.LimiterDeployment(ctx)
		if err == nil && d.Spec.Template.Spec.Containers[0].Image != image {
			err = fmt.Errorf("limiters run %s, want %s", d.Spec.Template.Spec.Containers[0].Image, image)
		}
		return err
	}
}

// LimiterDeployment returns the Deployment of the limiters.
func (s *Scenario) LimiterDeployment(ctx context.Context) (d appsv1.Deployment, err error) {
	err = s.Get(ctx, types.NamespacedName{Namespace: System, Name: LimiterPods}, &d)
	return d, err
}

// ScaleTo scales the Limiter and waits until all replicas enforce a policy.
func (s *Scenario) ScaleTo(replicas int) Action {
	want := Ready("Programmed")
	want.Text = "all replicas enforce"
	enforced := Sequence(s.HasCondition(LimiterNamed(System, "default"), Ready("Deployed")), s.HasCondition(PolicyNamed(Traffic, SteadyPolicy), want))
	return Sequence(
		s.Command("kubectl", "-n", System, "scale", "limiter/default", fmt.Sprintf("--replicas=%d", replicas)),
		func(ctx context.Context) error {
			s.Within(ctx, 60*time.Second, fmt.Sprintf("%d replicas are ready and enforce the policy", replicas), enforced)
			return nil
		},
		WaitUntil(s.RolledOut(System, LimiterPods)),
	)
}

// Restart restarts all pods of a Deployment in the namespace of Weir.
func (s *Scenario) Restart(deployment string) Action {
	return Sequence(
		s.Command("kubectl", "-n", System, "rollout", "restart", "deployment/"+deployment),
		WaitUntil(s.RolledOut(System, deployment)))
}

// ResetCounters restarts Redis, which does not persist data, and waits until Weir is healthy.
func (s *Scenario) ResetCounters(ctx context.Context) error {
	return Sequence(s.Restart(RedisPods), WaitUntil(s.Healthy()))(ctx)
}

// Healthy checks that the Limiter and the policies of the load are Ready and not Degraded.
func (s *Scenario) Healthy() Action {
	limiter, p := LimiterNamed(System, "default"), PolicyNamed(Traffic, SteadyPolicy)
	return Sequence(s.HasCondition(limiter, Ready("Deployed")), s.HasCondition(p, Ready("Programmed")),
		s.LacksCondition(limiter, v1alpha1.ConditionDegraded), s.LacksCondition(p, v1alpha1.ConditionDegraded))
}

// Backdate sets the time since which each CA is in the bundles.
func Backdate(cas []byte, since time.Time) ([]byte, error) {
	var all []map[string]any
	if err := json.Unmarshal(cas, &all); err != nil {
		return nil, fmt.Errorf("read authorities.json: %w", err)
	}
	for _, a := range all {
		a["carried"] = since.UTC().Format(time.RFC3339)
	}
	return json.Marshal(all)
}
