package main

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
)

// loseLimiters scales the Limiter to nothing: writes pass under Ignore and are refused under Fail, until nobody is asked.
func (w *writers) loseLimiters(ctx context.Context) error {
	for _, policy := range []v1alpha1.WebhookFailure{v1alpha1.WebhookFailureIgnore, v1alpha1.WebhookFailureFail} {
		err := inOrder(
			w.throttles(fmt.Sprintf(`{"failurePolicy":%q}`, policy)),
			w.limits(perTenant("e2e-plenty", plenty, configMaps())),
			until(w.failsLike(policy)),
		)(ctx)
		if err != nil {
			return err
		}
		seen, err := w.whileWriting(ctx, func(ctx context.Context) error {
			if err := w.scaleLimiter(0)(ctx); err != nil {
				return err
			}
			w.within(ctx, 30*time.Second, "without limiters the webhook is withdrawn", w.isWithdrawn)
			return nil
		})
		if err != nil {
			return err
		}
		w.say("failurePolicy %s, no limiter: %v", policy, seen)
		w.expect(seen.passed > 0, "nothing passed once the webhook was withdrawn")
		w.expect(policy == v1alpha1.WebhookFailureFail || seen.failed == 0, "with failurePolicy Ignore %d writes failed", seen.failed)
		if err := inOrder(w.scaleLimiter(2), until(w.rolled(system, limiterPods)))(ctx); err != nil {
			return err
		}
		w.within(ctx, 15*time.Second, "with limiters it is there again", inOrder(w.isRegistered, w.isAsked))
	}
	return nil
}

func (w *writers) scaleLimiter(replicas int) step {
	return w.types("kubectl", "-n", system, "scale", "limiter/default", fmt.Sprintf("--replicas=%d", replicas))
}

// failsLike looks whether API servers do so when no limiter answers.
func (w *writers) failsLike(policy v1alpha1.WebhookFailure) step {
	return func(ctx context.Context) error {
		configuration := webhookOfLimiters()
		if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
			return err
		}
		if is := string(*configuration.Webhooks[0].FailurePolicy); is != string(policy) {
			return fmt.Errorf("failurePolicy is %s, want %s", is, policy)
		}
		return nil
	}
}

// written is what came of writes, one after the other.
type written struct {
	passed, failed int
	problems       []string // the first few
	first, last    time.Time
}

func (s *written) String() string {
	text := fmt.Sprintf("%d writes passed, %d failed", s.passed, s.failed)
	if s.failed > 0 {
		text += fmt.Sprintf(", the last %v after the first: %q", s.last.Sub(s.first).Round(100*time.Millisecond), s.problems)
	}
	return text
}

// whileWriting has tenant B create ConfigMaps at a low rate while something is done, and for a moment after that.
func (w *writers) whileWriting(ctx context.Context, do step) (*written, error) {
	const beat, problems = 100 * time.Millisecond, 3
	var seen written
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
			if pause(ctx, beat) != nil {
				return
			}
		}
	})
	err := do(ctx)
	if err == nil {
		err = pause(ctx, 2*time.Second)
	}
	over.Store(true)
	writing.Wait()
	return &seen, err
}

// everything is one write an hour for all who are limited, whatever it is.
func everything() *v1alpha1.ClusterRateLimitPolicy {
	p := perTenant("e2e-everything", 1, v1alpha1.KubernetesResources{
		APIGroups: []v1alpha1.APIGroup{"*"}, Resources: []v1alpha1.ResourceName{"*/*"},
		Operations: []v1alpha1.Operation{v1alpha1.OperationCreate, v1alpha1.OperationUpdate, v1alpha1.OperationDelete, v1alpha1.OperationConnect},
	})
	p.Spec.Window, p.Spec.Axis = "1h", v1alpha1.AxisCustom
	p.Spec.Identifier = &v1alpha1.Identifier{Expression: new(v1alpha1.Expression("'all'"))}
	p.Spec.Match.Kubernetes.Namespaces = nil
	return p
}

// limitEverything is the worst that a policy can do: nodes, controllers, the operator and admins work on.
func (w *writers) limitEverything(ctx context.Context) error {
	p := everything()
	if err := inOrder(w.limits(p), until(w.failsLike(v1alpha1.WebhookFailureFail)))(ctx); err != nil {
		return err
	}
	var tenants attempts
	for range 5 {
		tenants.count(w.a.createConfigMap(ctx))
		tenants.count(w.b.createConfigMap(ctx))
	}
	w.say("everything is limited to one write an hour; the tenants create 10 ConfigMaps: %v", &tenants)
	w.expect(tenants.passed == 1 && tenants.denied == 9, "want 1 to pass and 9 to be denied")
	for _, place := range []string{"kube-system", tenantB} {
		d := w.threeReplicas("beside-everything")
		d.Namespace = place
		if err := w.create(ctx, d); err != nil {
			return err
		}
		w.within(ctx, 60*time.Second, "a Deployment in "+place+" has its pods", w.rolled(place, d.Name))
		if err := w.deleteWithPods(ctx, d); err != nil {
			return err
		}
	}
	if err := change(ctx, w.story, p, func(p *v1alpha1.ClusterRateLimitPolicy) { p.Spec.Window = "2h" }); err != nil {
		return err
	}
	w.within(ctx, 10*time.Second, "the operator tells of an edit", w.says(p, ready("Programmed")))
	return w.deleteWebhook(ctx)
}

// deleteWebhook takes the documented way out. The operator brings it back.
func (w *writers) deleteWebhook(ctx context.Context) error {
	configuration := webhookOfLimiters()
	if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
		return err
	}
	before, began := configuration.UID, time.Now()
	if err := w.run(ctx, "kubectl", "delete", "validatingwebhookconfiguration", "weir-throttle"); err != nil {
		return err
	}
	w.withinOf(ctx, began, 35*time.Second, "the webhook is back", func(ctx context.Context) error {
		if err := w.Get(ctx, types.NamespacedName{Name: configuration.Name}, configuration); err != nil {
			return err
		}
		if configuration.UID == before {
			return errors.New("it is the one before")
		}
		return nil
	})
	return nil
}

// decideWithoutRedis has policies decide what each says of it.
func (w *writers) decideWithoutRedis(ctx context.Context) error {
	denies, allows := perTenant("e2e-denies", 1000, configMaps()), perTenant("e2e-allows", 1, configMaps())
	denies.Spec.Match.Kubernetes.Namespaces = []v1alpha1.NamespaceName{tenantA}
	denies.Spec.OnStoreFailure = v1alpha1.StoreFailureDeny
	allows.Spec.Match.Kubernetes.Namespaces = []v1alpha1.NamespaceName{tenantB}
	allows.Spec.OnStoreFailure = v1alpha1.StoreFailureAllow
	err := inOrder(w.limits(denies, allows), w.types("kubectl", "-n", system, "scale", "deployment/redis", "--replicas=0"))(ctx)
	if err != nil {
		return err
	}
	w.within(ctx, 20*time.Second, "without Redis a policy with onStoreFailure: Deny refuses", func(ctx context.Context) error {
		_, err := w.a.createConfigMap(ctx)
		if !apierrors.IsServiceUnavailable(err) {
			return fmt.Errorf("tenant A got: %w", err)
		}
		return nil
	})
	_, err = w.a.createConfigMap(ctx)
	w.say("  %v", err)
	var several attempts
	for range 5 {
		several.count(w.b.createConfigMap(ctx))
	}
	w.say("one with onStoreFailure: Allow and limit 1 lets tenant B create 5: %v", &several)
	w.expect(several.passed == 5, "tenant B was refused")
	err = inOrder(w.types("kubectl", "-n", system, "scale", "deployment/redis", "--replicas=1"), until(w.rolled(system, redisPods)))(ctx)
	if err != nil {
		return err
	}
	w.within(ctx, 20*time.Second, "with Redis tenant A creates again", func(ctx context.Context) error {
		_, err := w.a.createConfigMap(ctx)
		return err
	})
	w.within(ctx, 20*time.Second, "and the Limiter is asked, and not Degraded",
		inOrder(w.isRegistered, w.saysNot(limiterNamed(system, "default"), v1alpha1.ConditionDegraded)))
	return nil
}
