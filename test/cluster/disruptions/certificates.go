package disruptions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// RenewCertificates deletes the Secret of the webhook, rotates the CA, and restarts the operators. Meanwhile it repeatedly creates an
// invalid policy. An invalid policy that is accepted means that the API server did not reach the webhook.
func (s Steps) RenewCertificates(ctx context.Context) error {
	secret := webhookSecret()
	disruptions := []disruption{
		{"its Secret is deleted", scenario.Sequence(
			s.Command("kubectl", "-n", scenario.System, "delete", "secret", secret.Name),
			scenario.WaitUntil(func(ctx context.Context) error { return s.Get(ctx, client.ObjectKeyFromObject(secret), secret) }))},
		{"a new CA signs a new serving certificate", s.rotate},
		{"the operators are restarted", s.Restart(scenario.OperatorPods)},
	}
	for _, d := range disruptions {
		calls, err := s.whileValidating(ctx, d.do)
		if err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
		s.Logf("%s: %d invalid policies sent meanwhile, %d not rejected", d.what, calls.sent, len(calls.wrong))
		for _, problem := range calls.wrong[:min(len(calls.wrong), 3)] {
			s.Logf("  %v", problem)
		}
		s.Expect(len(calls.wrong) == 0, "%s: %d of %d invalid policies were not rejected", d.what, len(calls.wrong), calls.sent)
	}
	return nil
}

func webhookSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.System, Name: "weir-webhook-certificates"}}
}

// webhookCalls counts the writes of an invalid policy, and has an error for each write that was not rejected as it must be.
type webhookCalls struct {
	sent  int
	wrong []error
}

// whileValidating sends invalid policies to the API server while do runs, and for three more seconds.
func (s Steps) whileValidating(ctx context.Context, do scenario.Action) (webhookCalls, error) {
	var c webhookCalls
	var over atomic.Bool
	var validating sync.WaitGroup
	validating.Go(func() {
		for !over.Load() {
			err := s.RejectsInvalidPolicy(ctx)
			c.sent++
			if err != nil {
				c.wrong = append(c.wrong, fmt.Errorf("at %s: %w", time.Now().Format("15:04:05.000"), err))
			}
		}
	})
	err := do(ctx)
	if err == nil {
		err = scenario.Pause(ctx, 3*time.Second)
	}
	over.Store(true)
	validating.Wait()
	return c, err
}

// rotate waits until the newest CA, which came with the new Secret, is in all bundles. It then backdates the CA, so that the operator does not
// wait the ten minutes before it signs with the new CA.
func (s Steps) rotate(ctx context.Context) error {
	secret := webhookSecret()
	took, err := scenario.Await(ctx, 90*time.Second, func(ctx context.Context) error { return s.newestIsTrusted(ctx, secret) })
	if err != nil {
		return err
	}
	s.Logf("a second CA is in the bundles after %v", took.Round(10*time.Millisecond))
	if err := scenario.Pause(ctx, 2*time.Second); err != nil { // API servers watch the bundles
		return err
	}
	before := secret.Data["tls.crt"]
	backdated, err := scenario.Backdate(secret.Data["authorities.json"], time.Now().Add(-11*time.Minute))
	if err != nil {
		return err
	}
	if err := scenario.Change(ctx, s.Scenario, secret, func(secret *corev1.Secret) { secret.Data["authorities.json"] = backdated }); err != nil {
		return err
	}
	s.Within(ctx, 90*time.Second, "the Secret has a new certificate", func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if bytes.Equal(before, secret.Data["tls.crt"]) {
			return errors.New("the certificate is unchanged")
		}
		return nil
	})
	return nil
}

// newestIsTrusted checks that the Secret has several CAs, and that the bundle of every webhook has all of them.
func (s Steps) newestIsTrusted(ctx context.Context, secret *corev1.Secret) error {
	if err := s.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return err
	}
	bundle := secret.Data["ca.crt"]
	if n := bytes.Count(bundle, []byte("BEGIN CERTIFICATE")); n < 2 {
		return fmt.Errorf("%d CAs are trusted, want at least 2", n)
	}
	var configuration admissionv1.ValidatingWebhookConfiguration
	if err := s.Get(ctx, types.NamespacedName{Name: "weir-policies"}, &configuration); err != nil {
		return err
	}
	for _, w := range configuration.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			return errors.New(w.Name + " has another bundle")
		}
	}
	return nil
}
