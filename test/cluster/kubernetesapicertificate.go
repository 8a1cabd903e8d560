package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// renewThrottleCertificate takes the Secret away with which limiters answer API servers, and has a new authority take over.
// With failurePolicy Fail, a call that goes wrong is a write that fails.
func (w *writers) renewThrottleCertificate(ctx context.Context) error {
	if err := inOrder(w.limits(perTenant("e2e-plenty", plenty, configMaps())), until(w.failsLike("Fail")))(ctx); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "weir-throttle-certificates"}}
	for _, d := range []disturbance{
		{"its Secret is deleted", func(ctx context.Context) error { return w.deleteThrottleSecret(ctx, secret) }},
		{"a new authority signs, and limiters show another certificate", func(ctx context.Context) error { return w.rotateThrottle(ctx, secret) }},
	} {
		seen, err := w.whileWriting(ctx, d.do)
		if err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
		w.say("%s, with failurePolicy Fail: %v", d.what, seen)
		w.expect(seen.passed > 0 && seen.failed == 0, "%s: %d calls of API servers went wrong", d.what, seen.failed)
	}
	return nil
}

// deleteThrottleSecret waits until the operator has made the Secret again: of the certificate, which it knows still, and a
// second authority, which API servers are to trust before it signs.
func (w *writers) deleteThrottleSecret(ctx context.Context, secret *corev1.Secret) error {
	if err := w.run(ctx, "kubectl", "-n", system, "delete", "secret", secret.Name); err != nil {
		return err
	}
	w.within(ctx, 30*time.Second, "the Secret is back, and API servers trust all of its authorities", func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		configuration := webhookOfLimiters()
		if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
			return err
		}
		authorities := secret.Data["ca.crt"]
		if n := bytes.Count(authorities, []byte("BEGIN CERTIFICATE")); n < 2 {
			return fmt.Errorf("the Secret has %d authorities", n)
		}
		if !bytes.Equal(bytes.TrimSpace(configuration.Webhooks[0].ClientConfig.CABundle), bytes.TrimSpace(authorities)) {
			return errors.New("the webhook carries another bundle")
		}
		return nil
	})
	return nil
}

// rotateThrottle has the operator believe that the second authority has been trusted for as long as it must be.
func (w *writers) rotateThrottle(ctx context.Context, secret *corev1.Secret) error {
	before := secret.Data[corev1.TLSCertKey]
	aged, err := aged(secret.Data["authorities.json"], time.Now().Add(-11*time.Minute))
	if err != nil {
		return err
	}
	if err := change(ctx, w.story, secret, func(secret *corev1.Secret) { secret.Data["authorities.json"] = aged }); err != nil {
		return err
	}
	w.within(ctx, 90*time.Second, "another certificate is in the Secret", func(ctx context.Context) error {
		err := w.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		if err == nil && bytes.Equal(before, secret.Data[corev1.TLSCertKey]) {
			err = errors.New("the certificate is the one before")
		}
		return err
	})
	return w.showsEverywhere(ctx, secret.Data[corev1.TLSCertKey])
}

// showsEverywhere waits until every limiter answers with the certificate. A kubelet looks at Secrets about once a minute.
func (w *writers) showsEverywhere(ctx context.Context, certificate []byte) error {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return errors.New("the Secret holds no certificate")
	}
	var d appsv1.Deployment
	if err := w.Get(ctx, types.NamespacedName{Namespace: system, Name: limiterPods}, &d); err != nil {
		return err
	}
	pods, err := w.podsOf(ctx, &d)
	if err != nil {
		return err
	}
	began := time.Now()
	for i := range pods {
		if err := w.shows(ctx, began, pods[i].Name, block.Bytes); err != nil {
			return err
		}
	}
	return nil
}

func (w *writers) shows(ctx context.Context, began time.Time, pod string, certificate []byte) (err error) {
	const port = 9443
	f, err := w.forward(ctx, system, "pod/"+pod, port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	w.withinOf(ctx, began, 150*time.Second, "a limiter answers with it", func(ctx context.Context) error {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // which one it is, is compared below
		}}
		conn, err := dialer.DialContext(ctx, "tcp", f.address)
		if err != nil {
			return fmt.Errorf("ask pod %s: %w", pod, err)
		}
		defer conn.Close()
		secured, is := conn.(*tls.Conn)
		if !is || !bytes.Equal(secured.ConnectionState().PeerCertificates[0].Raw, certificate) {
			return fmt.Errorf("pod %s shows another one", pod)
		}
		return nil
	})
	return nil
}
