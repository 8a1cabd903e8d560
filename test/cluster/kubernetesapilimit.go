package main

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
)

// createTooMuch has tenant A create twice as many ConfigMaps as it may, at once.
func (w *writers) createTooMuch(ctx context.Context) error {
	const limit = 20
	if err := w.limits(perTenant("e2e-configmaps", limit, configMaps()))(ctx); err != nil {
		return err
	}
	if err := w.checkWebhook(ctx); err != nil {
		return err
	}
	dry := w.a.storm(ctx, limit+10, metav1.DryRunAll)
	w.say("tenant A tries %d dry runs: %v", limit+10, dry)
	w.expect(dry.passed == limit+10 && dry.warned == 0, "dry runs were charged, or warned")
	storm := w.a.storm(ctx, 2*limit)
	w.say("tenant A creates %d ConfigMaps at once, where %d are allowed: %v", 2*limit, limit, storm)
	w.expect(storm.passed == limit && storm.denied == limit && storm.failed == nil, "want %d to pass and as many 429: %v", limit, storm.failed)
	// From 80 % on, that is of the 16th to the 20th.
	w.expect(storm.warned == limit/5+1, "%d warnings, want %d", storm.warned, limit/5+1)
	w.checkDenial(storm.denial, limit)
	quiet := w.b.storm(ctx, limit/2)
	w.say("tenant B creates %d meanwhile: %v", limit/2, quiet)
	w.expect(quiet.passed == limit/2 && quiet.warned == 0, "tenant B was denied or warned because of tenant A")
	for range 2 * limit { // as system:masters
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenantA, GenerateName: "made-"}}
		if err := w.Create(ctx, o); err != nil {
			w.expect(false, "an admin was refused: %v", err)
			break
		}
	}
	w.say("an admin creates %d more in its namespace", 2*limit)
	return w.showDenial(ctx)
}

// checkWebhook looks whether API servers ask for what policies name and for nothing else.
func (w *writers) checkWebhook(ctx context.Context) error {
	configuration := webhookOfLimiters()
	if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
		return err
	}
	if len(configuration.Webhooks) != 1 {
		return fmt.Errorf("%d webhooks, want 1", len(configuration.Webhooks))
	}
	is := configuration.Webhooks[0]
	w.expect(len(is.ClientConfig.CABundle) > 0, "its webhook has no caBundle")
	w.expect(len(is.MatchConditions) > 0, "its webhook has no matchConditions")
	if len(is.Rules) != 1 {
		w.expect(false, "rules %v, want one", is.Rules)
		return nil
	}
	r := is.Rules[0]
	w.expect(slices.Equal(r.APIGroups, []string{""}) && slices.Equal(r.Resources, []string{"configmaps"}) && fmt.Sprint(r.Operations) == "[CREATE]",
		"rules %v, want the creation of configmaps alone", is.Rules)
	w.say("API servers ask about %v of %v with %d conditions", r.Operations, r.Resources, len(is.MatchConditions))
	return nil
}

// attempts are what came of many.
type attempts struct {
	passed, warned, denied int
	denial                 *metav1.Status
	failed                 error // what is no denial
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

// storm creates so many ConfigMaps at once.
func (t *tenant) storm(ctx context.Context, n int, dryRun ...string) *attempts {
	var all attempts
	var lock sync.Mutex
	var trying sync.WaitGroup
	for range n {
		trying.Go(func() {
			warnings, err := t.createConfigMap(ctx, dryRun...)
			lock.Lock()
			defer lock.Unlock()
			all.count(warnings, err)
		})
	}
	trying.Wait()
	return &all
}

// checkDenial looks at what a client is told: who would have to wait for longer than five seconds is told no time.
func (w *writers) checkDenial(is *metav1.Status, limit int) {
	if is == nil {
		return
	}
	want := fmt.Sprintf("over the limit of policy cluster/e2e-configmaps: %d per 1m for Tenant %s; retry in ", limit, tenantA)
	w.expect(is.Code == 429 && is.Reason == metav1.StatusReasonTooManyRequests && strings.Contains(is.Message, want), "a denial is %+v, want %q", is, want)
	w.expect(is.Details != nil && is.Details.RetryAfterSeconds <= 5, "a client is told to wait: %+v", is.Details)
}

// showDenial shows what kubectl makes of a denial.
func (w *writers) showDenial(ctx context.Context) error {
	began := time.Now()
	command := []string{"kubectl", "create", "configmap", "one-more"}
	w.say("$ %s # as tenant A", strings.Join(command, " "))
	_, err := w.quietly(ctx, "", append(command, "--kubeconfig", w.a.kubeconfig)...)
	if err == nil {
		return errors.New("kubectl was not denied")
	}
	_, words, _ := strings.Cut(err.Error(), "exit status ")
	w.say("  exit status %s (after %v)", words, time.Since(began).Round(10*time.Millisecond))
	w.expect(strings.Contains(words, "over the limit of policy cluster/e2e-configmaps"), "kubectl does not say why")
	return nil
}

// compareLatency creates ConfigMaps in a namespace that a policy speaks of and in one that none does, in turn.
func (w *writers) compareLatency(ctx context.Context) error {
	const rounds = 300
	if err := w.limits(perTenant("e2e-plenty", plenty, configMaps()))(ctx); err != nil {
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
	w.say("creating a ConfigMap, %d each in turn: limited p50 %v p99 %v, not limited p50 %v p99 %v", rounds,
		quantile(with, 50), quantile(with, 99), quantile(without, 50), quantile(without, 99))
	return nil
}

// quantile is what so many percent do not exceed.
func quantile(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)*percent/100].Round(100 * time.Microsecond)
}
