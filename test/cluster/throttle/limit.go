package throttle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// exceedTheLimit creates twice as many ConfigMaps as the limit of tenant A, concurrently.
func (w *tenants) exceedTheLimit(ctx context.Context) error {
	const limit = 20
	if err := w.applyPolicies(perTenant("e2e-configmaps", limit, scenario.ConfigMaps()))(ctx); err != nil {
		return err
	}
	if err := w.checkWebhook(ctx); err != nil {
		return err
	}
	dry := w.a.createConcurrently(ctx, limit+10, metav1.DryRunAll)
	w.Logf("tenant A sends %d dry runs: %v", limit+10, dry)
	w.Expect(dry.passed == limit+10 && dry.warned == 0, "dry runs were charged, or have warnings")
	storm := w.a.createConcurrently(ctx, 2*limit)
	w.Logf("tenant A creates %d ConfigMaps concurrently, its limit is %d: %v", 2*limit, limit, storm)
	w.Expect(storm.passed == limit && storm.denied == limit && storm.failed == nil, "want %d writes to pass and the others to be denied: %v", limit, storm.failed)
	// From 80 % of the limit: the 16th to the 20th write.
	w.Expect(storm.warned == limit/5+1, "%d warnings, want %d", storm.warned, limit/5+1)
	w.checkDenial(storm.denial, limit)
	quiet := w.b.createConcurrently(ctx, limit/2)
	w.Logf("tenant B creates %d: %v", limit/2, quiet)
	w.Expect(quiet.passed == limit/2 && quiet.warned == 0, "tenant B was denied or warned because of tenant A")
	for range 2 * limit { // as system:masters
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenantA, GenerateName: "made-"}}
		if err := w.Create(ctx, o); err != nil {
			w.Expect(false, "an administrator was denied: %v", err)
			break
		}
	}
	w.Logf("an administrator creates %d more in the namespace of tenant A", 2*limit)
	return w.showDenial(ctx)
}

// checkWebhook checks that the rules of the webhook match exactly the writes that policies name.
func (w *tenants) checkWebhook(ctx context.Context) error {
	configuration := throttleConfiguration()
	if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
		return err
	}
	if len(configuration.Webhooks) != 1 {
		return fmt.Errorf("%d webhooks, want 1", len(configuration.Webhooks))
	}
	hook := configuration.Webhooks[0]
	w.Expect(len(hook.ClientConfig.CABundle) > 0, "the webhook has no caBundle")
	w.Expect(len(hook.MatchConditions) > 0, "the webhook has no matchConditions")
	if len(hook.Rules) != 1 {
		w.Expect(false, "rules %v, want one", hook.Rules)
		return nil
	}
	r := hook.Rules[0]
	w.Expect(slices.Equal(r.APIGroups, []string{""}) && slices.Equal(r.Resources, []string{"configmaps"}) && fmt.Sprint(r.Operations) == "[CREATE]",
		"rules %v, want only the creation of configmaps", hook.Rules)
	w.Logf("the API server calls the webhook for %v of %v with %d match conditions", r.Operations, r.Resources, len(hook.MatchConditions))
	return nil
}

// attempts counts the results of writes.
type attempts struct {
	passed, warned, denied int
	denial                 *metav1.Status
	failed                 error // the last error that is not a denial
}

func (a *attempts) String() string {
	return fmt.Sprintf("%d passed, %d of them warned, %d denied (429)%s", a.passed, a.warned, a.denied, orNothing(a.failed))
}

func orNothing(err error) string {
	if err == nil {
		return ""
	}
	return ", and failed: " + err.Error()
}

func (a *attempts) count(warnings []string, err error) {
	var status *apierrors.StatusError
	switch {
	case err == nil && len(warnings) > 0:
		a.passed, a.warned = a.passed+1, a.warned+1
	case err == nil:
		a.passed++
	case apierrors.IsTooManyRequests(err) && errors.As(err, &status):
		a.denied++
		a.denial = &status.ErrStatus
	default:
		a.failed = err
	}
}

// createConcurrently creates n ConfigMaps concurrently.
func (t *tenant) createConcurrently(ctx context.Context, n int, dryRun ...string) *attempts {
	var all attempts
	var lock sync.Mutex
	var writes sync.WaitGroup
	for range n {
		writes.Go(func() {
			warnings, err := t.createConfigMap(ctx, dryRun...)
			lock.Lock()
			defer lock.Unlock()
			all.count(warnings, err)
		})
	}
	writes.Wait()
	return &all
}

// checkDenial checks the status that a client receives. A client that would have to wait longer than five seconds gets no time to retry.
func (w *tenants) checkDenial(status *metav1.Status, limit int) {
	if status == nil {
		return
	}
	want := fmt.Sprintf("over the limit of policy _cluster/e2e-configmaps: %d per 1m for Tenant %s; retry in ", limit, tenantA)
	w.Expect(status.Code == 429 && status.Reason == metav1.StatusReasonTooManyRequests && strings.Contains(status.Message, want),
		"the denial is %+v, want %q", status, want)
	w.Expect(status.Details != nil && status.Details.RetryAfterSeconds <= 5, "retryAfterSeconds above 5: %+v", status.Details)
}

// showDenial prints the output of kubectl for a denial.
func (w *tenants) showDenial(ctx context.Context) error {
	began := time.Now()
	command := []string{"kubectl", "create", "configmap", "one-more"}
	w.Logf("$ %s # as tenant A", strings.Join(command, " "))
	_, err := w.Quietly(ctx, "", append(command, "--kubeconfig", w.a.kubeconfig)...)
	if err == nil {
		return errors.New("kubectl was not denied")
	}
	_, output, _ := strings.Cut(err.Error(), "exit status ")
	w.Logf("  exit status %s (after %v)", output, time.Since(began).Round(10*time.Millisecond))
	w.Expect(strings.Contains(output, "over the limit of policy _cluster/e2e-configmaps"), "kubectl does not print the reason")
	return nil
}

// compareLatency creates ConfigMaps alternately in a namespace with a policy and in a namespace without one.
func (w *tenants) compareLatency(ctx context.Context) error {
	const rounds = 300
	if err := w.applyPolicies(perTenant("e2e-plenty", scenario.Plenty, scenario.ConfigMaps()))(ctx); err != nil {
		return err
	}
	var with, without []time.Duration
	for range rounds {
		for t, list := range map[*tenant]*[]time.Duration{w.a: &with, w.unlimited: &without} {
			began := time.Now()
			if _, err := t.createConfigMap(ctx); err != nil {
				return fmt.Errorf("create a ConfigMap in %s: %w", t.namespace, err)
			}
			*list = append(*list, time.Since(began))
		}
	}
	w.Logf("creating a ConfigMap, %d each in turn: limited p50 %v p99 %v, not limited p50 %v p99 %v", rounds,
		quantile(with, 50), quantile(with, 99), quantile(without, 50), quantile(without, 99))
	return nil
}

// quantile returns a percentile of the durations.
func quantile(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)*percent/100].Round(100 * time.Microsecond)
}
