package main

import (
	"bytes"
	"context"
	"encoding/json"
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
)

// renewCertificates takes the webhook's Secret away, has a new authority take over, and rolls the operators, while a bad
// policy is shown to the API server again and again: one that is taken means that the webhook was not reached.
func renewCertificates(ctx context.Context, s *story) error {
	secret := webhookSecret()
	steps := []disturbance{
		{"its Secret is deleted", inOrder(
			s.types("kubectl", "-n", system, "delete", "secret", secret.Name),
			until(func(ctx context.Context) error { return s.Get(ctx, client.ObjectKeyFromObject(secret), secret) }))},
		{"a new authority signs, and the serving certificate changes", s.rotate},
		{"the operators are rolled", s.restarts(operatorPods)},
	}
	for _, step := range steps {
		calls, err := s.whileJudging(ctx, step.do)
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		s.say("%s: %d bad policies shown meanwhile, %d not refused", step.what, calls.shown, len(calls.taken))
		for _, problem := range calls.taken[:min(len(calls.taken), 3)] {
			s.say("  %v", problem)
		}
		s.expect(len(calls.taken) == 0, "%s: %d of %d bad policies were not refused as they should be", step.what, len(calls.taken), calls.shown)
	}
	return nil
}

func webhookSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "weir-webhook-certificates"}}
}

// calls of the webhook.
type calls struct {
	shown int
	taken []error
}

// whileJudging shows bad policies to the API server while something is done, and for a moment after that.
func (s *story) whileJudging(ctx context.Context, do step) (calls, error) {
	var c calls
	var over atomic.Bool
	var judging sync.WaitGroup
	judging.Go(func() {
		for !over.Load() {
			err := s.refusesBadPolicy(ctx)
			c.shown++
			if err != nil {
				c.taken = append(c.taken, fmt.Errorf("at %s: %w", time.Now().Format("15:04:05.000"), err))
			}
		}
	})
	err := do(ctx)
	if err == nil {
		err = pause(ctx, 3*time.Second)
	}
	over.Store(true)
	judging.Wait()
	return c, err
}

// pause is for what must stay as it is for a time.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// rotate waits until the newest authority, which came with the new Secret, stands in all bundles, and has the operator
// believe that it has stood there for the ten minutes after which it signs.
func (s *story) rotate(ctx context.Context) error {
	secret := webhookSecret()
	took, err := await(ctx, 90*time.Second, func(ctx context.Context) error { return s.newestIsTrusted(ctx, secret) })
	if err != nil {
		return err
	}
	s.say("a second authority is in the bundles after %v", took.Round(10*time.Millisecond))
	if err := pause(ctx, 2*time.Second); err != nil { // API servers learn of bundles by a watch
		return err
	}
	before := secret.Data["tls.crt"]
	aged, err := aged(secret.Data["authorities.json"], time.Now().Add(-11*time.Minute))
	if err != nil {
		return err
	}
	if err := change(ctx, s, secret, func(secret *corev1.Secret) { secret.Data["authorities.json"] = aged }); err != nil {
		return err
	}
	s.within(ctx, 90*time.Second, "another certificate is in the Secret", func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if bytes.Equal(before, secret.Data["tls.crt"]) {
			return errors.New("the certificate is the one before")
		}
		return nil
	})
	return nil
}

// newestIsTrusted looks whether the Secret has several authorities, and every webhook carries all of them.
func (s *story) newestIsTrusted(ctx context.Context, secret *corev1.Secret) error {
	if err := s.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return err
	}
	bundle := secret.Data["ca.crt"]
	if n := bytes.Count(bundle, []byte("BEGIN CERTIFICATE")); n < 2 {
		return fmt.Errorf("%d authorities are trusted", n)
	}
	var configuration admissionv1.ValidatingWebhookConfiguration
	if err := s.Get(ctx, types.NamespacedName{Name: "weir-policies"}, &configuration); err != nil {
		return err
	}
	for _, w := range configuration.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			return errors.New(w.Name + " carries another bundle")
		}
	}
	return nil
}

// aged makes the authorities carried since then.
func aged(authorities []byte, since time.Time) ([]byte, error) {
	var all []map[string]any
	if err := json.Unmarshal(authorities, &all); err != nil {
		return nil, fmt.Errorf("read authorities.json: %w", err)
	}
	for _, a := range all {
		a["carried"] = since.UTC().Format(time.RFC3339)
	}
	return json.Marshal(all)
}
