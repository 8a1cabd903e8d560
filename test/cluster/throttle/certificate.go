package throttle

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

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// renewThrottleCertificate deletes the Secret with the certificate of the limiters, and rotates the CA. With failurePolicy Fail, every failed
// call of the webhook is a failed write.
func (w *tenants) renewThrottleCertificate(ctx context.Context) error {
	err := scenario.Sequence(
		w.applyPolicies(perTenant("e2e-plenty", scenario.Plenty, scenario.ConfigMaps())), scenario.WaitUntil(w.hasFailurePolicy("Fail")),
	)(ctx)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.System, Name: "weir-throttle-certificates"}}
	for _, d := range []struct {
		what string
		do   scenario.Action
	}{
		{"its Secret is deleted", func(ctx context.Context) error { return w.deleteThrottleSecret(ctx, secret) }},
		{"a new CA signs, and limiters present a new certificate", func(ctx context.Context) error { return w.rotateThrottle(ctx, secret) }},
	} {
		seen, err := w.whileWriting(ctx, d.do)
		if err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
		w.Logf("%s, with failurePolicy Fail: %v", d.what, seen)
		w.Expect(seen.passed > 0 && seen.failed == 0, "%s: %d calls of the API server failed", d.what, seen.failed)
	}
	return nil
}

// deleteThrottleSecret deletes the Secret and waits until the operator has restored it: with the same certificate, which it has in memory,
// and with a second CA, which API servers must trust before it signs. The operator reads the CAs of the webhook every 30 seconds, and when a
// Deployment of a Limiter changes. Therefore deleteThrottleSecret annotates the Deployment.
func (w *tenants) deleteThrottleSecret(ctx context.Context, secret *corev1.Secret) error {
	if err := w.Run(ctx, "kubectl", "-n", scenario.System, "delete", "secret", secret.Name); err != nil {
		return err
	}
	w.Within(ctx, 10*time.Second, "the Secret exists again, with a second CA", func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if n := bytes.Count(secret.Data["ca.crt"], []byte("BEGIN CERTIFICATE")); n < 2 {
			return fmt.Errorf("the Secret has %d CAs", n)
		}
		return nil
	})
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.System, Name: scenario.LimiterPods}}
	if err := scenario.Change(ctx, w.Scenario, deployment, func(d *appsv1.Deployment) { annotateSynced(&d.ObjectMeta) }); err != nil {
		return err
	}
	w.Within(ctx, 10*time.Second, "API servers trust all CAs in the Secret", func(ctx context.Context) error {
		configuration := throttleConfiguration()
		if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
			return err
		}
		if !bytes.Equal(bytes.TrimSpace(configuration.Webhooks[0].ClientConfig.CABundle), bytes.TrimSpace(secret.Data["ca.crt"])) {
			return errors.New("the webhook has another bundle")
		}
		return nil
	})
	return nil
}

// annotateSynced changes an object so that its controllers look at it immediately.
func annotateSynced(object *metav1.ObjectMeta) {
	metav1.SetMetaDataAnnotation(object, "e2e.weir.dev/synced", time.Now().Format(time.RFC3339Nano))
}

// rotateThrottle backdates the second CA, so that the operator does not wait before it signs with it.
func (w *tenants) rotateThrottle(ctx context.Context, secret *corev1.Secret) error {
	before := secret.Data[corev1.TLSCertKey]
	backdated, err := scenario.Backdate(secret.Data["authorities.json"], time.Now().Add(-11*time.Minute))
	if err != nil {
		return err
	}
	if err := scenario.Change(ctx, w.Scenario, secret, func(secret *corev1.Secret) { secret.Data["authorities.json"] = backdated }); err != nil {
		return err
	}
	w.Within(ctx, 90*time.Second, "the Secret has a new certificate", func(ctx context.Context) error {
		err := w.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		if err == nil && bytes.Equal(before, secret.Data[corev1.TLSCertKey]) {
			err = errors.New("the certificate is unchanged")
		}
		return err
	})
	return w.allPresent(ctx, secret.Data[corev1.TLSCertKey])
}

// allPresent waits until every limiter presents the certificate. A kubelet updates mounted Secrets about once a minute, and when it syncs
// the pod for another reason. Therefore allPresent annotates the pods.
func (w *tenants) allPresent(ctx context.Context, certificate []byte) error {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return errors.New("the Secret has no certificate")
	}
	var d appsv1.Deployment
	if err := w.Get(ctx, types.NamespacedName{Namespace: scenario.System, Name: scenario.LimiterPods}, &d); err != nil {
		return err
	}
	pods, err := w.PodsOf(ctx, &d)
	if err != nil {
		return err
	}
	began := time.Now()
	for i := range pods {
		if err := scenario.Change(ctx, w.Scenario, &pods[i], func(pod *corev1.Pod) { annotateSynced(&pod.ObjectMeta) }); err != nil {
			return err
		}
	}
	for i := range pods {
		if err := w.presents(ctx, began, pods[i].Name, block.Bytes); err != nil {
			return err
		}
	}
	return nil
}

func (w *tenants) presents(ctx context.Context, began time.Time, pod string, certificate []byte) (err error) {
	const port = 9443
	f, err := w.Forward(ctx, "pod/"+pod, port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	w.WithinSince(ctx, began, 150*time.Second, "a limiter presents the new certificate", func(ctx context.Context) error {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // the certificate is compared below
		}}
		conn, err := dialer.DialContext(ctx, "tcp", f.Address)
		if err != nil {
			return fmt.Errorf("connect to pod %s: %w", pod, err)
		}
		defer conn.Close()
		secured, is := conn.(*tls.Conn)
		if !is || !bytes.Equal(secured.ConnectionState().PeerCertificates[0].Raw, certificate) {
			return fmt.Errorf("pod %s presents another certificate", pod)
		}
		return nil
	})
	return nil
}
