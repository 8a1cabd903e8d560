package throttle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// removeLimiters scales the Limiter to zero. Until the webhook is unregistered, writes pass with Ignore and fail with Fail.
func (w *tenants) removeLimiters(ctx context.Context) error {
	for _, policy := range []v1alpha1.WebhookFailure{v1alpha1.WebhookFailureIgnore, v1alpha1.WebhookFailureFail} {
		err := scenario.Sequence(
			w.setThrottle(fmt.Sprintf(`{"failurePolicy":%q}`, policy)),
			w.applyPolicies(perTenant("e2e-plenty", scenario.Plenty, scenario.ConfigMaps())),
			scenario.WaitUntil(w.hasFailurePolicy(policy)),
		)(ctx)
		if err != nil {
			return err
		}
		seen, err := w.whileWriting(ctx, func(ctx context.Context) error {
			if err := w.scaleLimiter(0)(ctx); err != nil {
				return err
			}
			w.Within(ctx, 30*time.Second, "without limiters the webhook is unregistered", w.isUnregistered)
			return nil
		})
		if err != nil {
			return err
		}
		w.Logf("failurePolicy %s, no limiter: %v", policy, seen)
		w.Expect(seen.passed > 0, "no write passed after the webhook was unregistered")
		w.Expect(policy == v1alpha1.WebhookFailureFail || seen.failed == 0, "with failurePolicy Ignore %d writes failed", seen.failed)
		if err := scenario.Sequence(w.scaleLimiter(2), scenario.WaitUntil(w.RolledOut(scenario.System, scenario.LimiterPods)))(ctx); err != nil {
			return err
		}
		w.Within(ctx, 15*time.Second, "with limiters the webhook is registered again", scenario.Sequence(w.isRegistered, w.webhookIsCalled))
	}
	return nil
}

func (w *tenants) scaleLimiter(replicas int) scenario.Action {
	return w.Command("kubectl", "-n", scenario.System, "scale", "limiter/default", fmt.Sprintf("--replicas=%d", replicas))
}

// hasFailurePolicy checks the failurePolicy of the webhook.
func (w *tenants) hasFailurePolicy(policy v1alpha1.WebhookFailure) scenario.Action {
	return func(ctx context.Context) error {
		configuration := throttleConfiguration()
		if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
			return err
		}
		if is := string(*configuration.Webhooks[0].FailurePolicy); is != string(policy) {
			return fmt.Errorf("failurePolicy is %s, want %s", is, policy)
		}
		return nil
	}
}

// writeResults counts the results of sequential writes.
type writeResults struct {
	passed, failed int
	problems       []string // the first few
	first, last    time.Time
}

func (r *writeResults) String() string {
	text := fmt.Sprintf("%d writes passed, %d failed", r.passed, r.failed)
	if r.failed > 0 {
		text += fmt.Sprintf(", the last %v after the first: %q", r.last.Sub(r.first).Round(100*time.Millisecond), r.problems)
	}
	return text
}

// whileWriting creates ConfigMaps as tenant B at a low rate while do runs, and for two more seconds.
func (w *tenants) whileWriting(ctx context.Context, do scenario.Action) (*writeResults, error) {
	const interval, problems = 100 * time.Millisecond, 3
	var seen writeResults
	var over atomic.Bool
	var writing sync.WaitGroup
	writing.Go(func() {
		for !over.Load() {
			if _, err := w.b.createConfigMap(ctx); err == nil {
				seen.passed++
			} else {
				seen.failed++
				seen.last = time.Now()
				if seen.first.IsZero() {
					seen.first = seen.last
				}
				if len(seen.problems) < problems {
					seen.problems = append(seen.problems, err.Error())
				}
			}
			if scenario.Pause(ctx, interval) != nil {
				return
			}
		}
	})
	err := do(ctx)
	if err == nil {
		err = scenario.Pause(ctx, 2*time.Second)
	}
	over.Store(true)
	writing.Wait()
	return &seen, err
}

// everything returns a policy of one write per hour, of any kind, for all users together who are not exempt.
func everything() *v1alpha1.ClusterRateLimitPolicy {
	p := perTenant("e2e-everything", 1, v1alpha1.KubernetesResources{
		APIGroups: []v1alpha1.APIGroup{"*"}, Resources: []v1alpha1.ResourceName{"*/*"},
		Operations: []v1alpha1.Operation{v1alpha1.OperationCreate, v1alpha1.OperationUpdate, v1alpha1.OperationConnect},
	})
	p.Spec.Window, p.Spec.Axis = "1h", v1alpha1.AxisCustom
	p.Spec.Identifier = &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Expression: new(v1alpha1.Expression("'all'"))}}
	p.Spec.Match.Kubernetes.Namespaces = nil
	return p
}

// limitEverything applies the worst possible policy. Nodes, controllers, the operator and administrators must not be affected.
func (w *tenants) limitEverything(ctx context.Context) error {
	p := everything()
	if err := scenario.Sequence(w.applyPolicies(p), scenario.WaitUntil(w.hasFailurePolicy(v1alpha1.WebhookFailureFail)))(ctx); err != nil {
		return err
	}
	var tenants attempts
	for range 5 {
		tenants.count(w.a.createConfigMap(ctx))
		tenants.count(w.b.createConfigMap(ctx))
	}
	w.Logf("all writes are limited to one per hour; the tenants create 10 ConfigMaps: %v", &tenants)
	w.Expect(tenants.passed == 1 && tenants.denied == 9, "want 1 to pass and 9 to be denied")
	for _, namespace := range []string{"kube-system", tenantB} {
		d := w.threeReplicas("not-limited")
		d.Namespace = namespace
		if err := w.CreateAll(ctx, d); err != nil {
			return err
		}
		w.Within(ctx, 60*time.Second, "a Deployment in "+namespace+" has its pods", w.RolledOut(namespace, d.Name))
		if err := w.deleteWithPods(ctx, d); err != nil {
			return err
		}
	}
	if err := scenario.Change(ctx, w.Scenario, p, func(p *v1alpha1.ClusterRateLimitPolicy) { p.Spec.Window = "2h" }); err != nil {
		return err
	}
	w.Within(ctx, 10*time.Second, "the operator reports an edit", w.HasCondition(p, scenario.Ready("Programmed")))
	return w.deleteWebhook(ctx)
}

// deleteWebhook deletes the webhook configuration, as documented for an emergency. The operator restores it.
func (w *tenants) deleteWebhook(ctx context.Context) error {
	configuration := throttleConfiguration()
	if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
		return err
	}
	before, began := configuration.UID, time.Now()
	if err := w.Run(ctx, "kubectl", "delete", "validatingwebhookconfiguration", "weir-throttle"); err != nil {
		return err
	}
	w.WithinSince(ctx, began, 35*time.Second, "the webhook exists again", func(ctx context.Context) error {
		if err := w.Get(ctx, types.NamespacedName{Name: configuration.Name}, configuration); err != nil {
			return err
		}
		if configuration.UID == before {
			return errors.New("the webhook is not deleted yet")
		}
		return nil
	})
	return nil
}

// decideWithoutRedis checks onStoreFailure Deny and Allow while Redis is unavailable.
func (w *tenants) decideWithoutRedis(ctx context.Context) error {
	denies, allows := perTenant("e2e-denies", 1000, scenario.ConfigMaps()), perTenant("e2e-allows", 1, scenario.ConfigMaps())
	denies.Spec.Match.Kubernetes.Namespaces = []v1alpha1.NamespaceName{tenantA}
	denies.Spec.OnStoreFailure = v1alpha1.StoreFailureDeny
	allows.Spec.Match.Kubernetes.Namespaces = []v1alpha1.NamespaceName{tenantB}
	allows.Spec.OnStoreFailure = v1alpha1.StoreFailureAllow
	err := scenario.Sequence(w.applyPolicies(denies, allows), w.Command("kubectl", "-n", scenario.System, "scale", "deployment/redis", "--replicas=0"))(ctx)
	if err != nil {
		return err
	}
	w.Within(ctx, 20*time.Second, "without Redis a policy with onStoreFailure: Deny rejects writes", func(ctx context.Context) error {
		_, err := w.a.createConfigMap(ctx)
		if !apierrors.IsServiceUnavailable(err) {
			return fmt.Errorf("tenant A got: %w", err)
		}
		return nil
	})
	_, err = w.a.createConfigMap(ctx)
	w.Logf("  %v", err)
	var results attempts
	for range 5 {
		results.count(w.b.createConfigMap(ctx))
	}
	w.Logf("with onStoreFailure: Allow and limit 1, tenant B creates 5: %v", &results)
	w.Expect(results.passed == 5, "tenant B was denied")
	err = scenario.Sequence(
		w.Command("kubectl", "-n", scenario.System, "scale", "deployment/redis", "--replicas=1"),
		scenario.WaitUntil(w.RolledOut(scenario.System, scenario.RedisPods)),
	)(ctx)
	if err != nil {
		return err
	}
	w.Within(ctx, 20*time.Second, "with Redis tenant A can create again", func(ctx context.Context) error {
		_, err := w.a.createConfigMap(ctx)
		return err
	})
	w.Within(ctx, 20*time.Second, "the webhook is registered, and the Limiter is not Degraded",
		scenario.Sequence(w.isRegistered, w.LacksCondition(scenario.LimiterNamed(scenario.System, "default"), v1alpha1.ConditionDegraded)))
	return nil
}
