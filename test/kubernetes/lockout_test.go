package kubernetes

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/registration"
)

// matchEverything is the worst policy: each user may write once an hour, to any resource, and not at all while Redis is unavailable.
func matchEverything() *v1alpha1.ClusterRateLimitPolicy {
	return policy("everything", v1alpha1.AxisUser, 1, "1h", func(s *v1alpha1.ClusterRateLimitPolicySpec) {
		s.OnStoreFailure = v1alpha1.StoreFailureDeny
		s.Match.Kubernetes.Resources = []v1alpha1.KubernetesResources{{
			APIGroups: []v1alpha1.APIGroup{"*"}, Resources: []v1alpha1.ResourceName{"*/*"},
			Operations: []v1alpha1.Operation{v1alpha1.OperationCreate, v1alpha1.OperationUpdate},
		}}
	})
}

// With a policy that matches every write and a Limiter that fails closed, the test breaks one component after the other. Exempt users can
// still write. Other users cannot, which shows that the component is broken.
func TestLockout_ExemptUsersCanAlwaysWrite(t *testing.T) {
	w := newWorld(t)
	namespace := mustGet[string](t)(w.Namespace(t.Context(), "acme"))
	setFailurePolicy := func(policy v1alpha1.WebhookFailure) {
		t.Helper()
		must(t, w.EditLimiter(context.Background(), func(l *v1alpha1.LimiterSpec) { l.KubernetesThrottle.FailurePolicy = policy }))
	}
	setFailurePolicy(v1alpha1.WebhookFailureFail)
	defer setFailurePolicy(v1alpha1.WebhookFailureIgnore)
	limited := bothClients(t, w, pipeline("some"))
	must(t, w.Enforce(t.Context(), pipeline("some"), configMap(namespace), matchEverything()))
	for _, fault := range []struct {
		name          string
		who           rest.ImpersonationConfig // a different user each time, because limiters cache denials
		begin, repair func() error
		want          string // part of the error message
	}{
		{
			"a policy that matches everything", pipeline("some"),
			func() error { return limited[0].Create(t.Context(), configMap(namespace)) }, func() error { return nil },
			"over the limit of policy _cluster/everything: 1 per 1h for User system:serviceaccount:builds:some",
		},
		{
			"Redis is unavailable", pipeline("two"),
			func() error { w.Redis.Kill(); return nil }, func() error { return w.Redis.Restart(t.Context()) },
			"counters are unavailable",
		},
		{
			"the certificate has expired", pipeline("three"),
			func() error { return w.expireCertificates(t.Context()) }, func() error { return w.Roll(t.Context()) },
			"certificate has expired",
		},
		{
			"there is no limiter", pipeline("four"),
			func() error { return w.StopLimiters(t.Context()) }, func() error { return w.Roll(t.Context()) },
			"failed calling webhook",
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			must(t, fault.begin())
			for server, c := range bothClients(t, w, fault.who) {
				err := c.Create(t.Context(), configMap(namespace))
				t.Logf("by API server %d: %v", server, err)
				if err == nil || !strings.Contains(err.Error(), fault.want) {
					t.Errorf("API server %d returned %v, want %q", server, err, fault.want)
				}
			}
			expectExemptWritesPass(t, w, namespace)
			expectRepairsPass(t, w, limited[1])
			must(t, fault.repair())
			must(t, w.AwaitWebhook(t.Context(), pipeline("some"), configMap(namespace)))
		})
	}

	t.Run("an admin deletes the policy", func(t *testing.T) {
		must(t, mustGet[client.Client](t)(w.As(1, Person("root", "system:masters"))).Delete(t.Context(), matchEverything()))
		must(t, waitFor(t.Context(), "a user to be able to write", func(ctx context.Context) error { return limited[1].Create(ctx, configMap(namespace)) }))
	})
}

// expectExemptWritesPass writes as every exempt user.
func expectExemptWritesPass(t *testing.T, w *World, namespace string) {
	t.Helper()
	for name, who := range exemptIdentities() {
		for server, c := range bothClients(t, w, who) {
			for _, object := range []client.Object{
				configMap(namespace),
				pod(namespace),
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-", Namespace: namespace}},
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"}},
				&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"}},
			} {
				kind := mustGet[string](t)(kindOf(c, object))
				if err := c.Create(t.Context(), object); err != nil {
					t.Errorf("%s creates a %s, by API server %d: %v", name, kind, server, err)
					continue
				}
				label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"some":"label"}}}`))
				if err := c.Patch(t.Context(), object, label); err != nil {
					t.Errorf("%s changes a %s, by API server %d: %v", name, kind, server, err)
				}
				if err := c.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
					t.Errorf("%s deletes a %s, by API server %d: %v", name, kind, server, err)
				}
			}
		}
	}
}

func kindOf(c client.Client, object client.Object) (string, error) {
	kind, err := c.GroupVersionKindFor(object)
	return kind.Kind, err
}

// expectRepairsPass makes the writes with which any user with permission can repair the cluster: API servers call no webhook for webhook
// configurations, nor for the operator's namespace.
func expectRepairsPass(t *testing.T, w *World, c client.Client) {
	t.Helper()
	limiter := mustGet[*v1alpha1.Limiter](t)(read(t.Context(), w, operatorNamespace, limiterName, &v1alpha1.Limiter{}))
	changed := limiter.DeepCopy()
	changed.Spec.KubernetesThrottle.Mode = v1alpha1.ThrottleModeDisabled
	if err := c.Patch(t.Context(), changed, client.MergeFrom(limiter), client.DryRunAll); err != nil {
		t.Errorf("disable throttling: %v", err)
	}
	if err := c.Create(t.Context(), configMap(operatorNamespace)); err != nil {
		t.Errorf("write to the operator's namespace: %v", err)
	}
	if err := c.Create(t.Context(), configMap(metav1.NamespaceSystem)); err != nil {
		t.Errorf("write to kube-system: %v", err)
	}
	configuration := registration.Render(nil)
	if err := c.Delete(t.Context(), configuration, client.DryRunAll); err != nil {
		t.Errorf("delete the webhook configuration: %v", err)
	}
}

// expireCertificates gives limiters a certificate of the trusted CA, with the right name, that expired a minute ago.
func (w *World) expireCertificates(ctx context.Context) error {
	secret, err := read(ctx, w, operatorNamespace, deployment.ThrottleSecret, &corev1.Secret{})
	if err != nil {
		return err
	}
	ca, key, err := signingCA(secret)
	if err != nil {
		return err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	certificate, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{serviceName + "." + operatorNamespace + ".svc"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(-time.Minute), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, own.Public(), key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		return err
	}
	for _, l := range w.limiters {
		err := errors.Join(
			os.WriteFile(l.key(), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600),
			os.WriteFile(l.certificate(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600))
		if err != nil {
			return err
		}
	}
	w.Kube.Services.CloseConnections() // open connections would continue with the old certificate
	return nil
}

// signingCA returns the CA with which the operator signs.
func signingCA(secret *corev1.Secret) (*x509.Certificate, crypto.PrivateKey, error) {
	var kept []struct{ Certificate, Key string }
	if err := json.Unmarshal(secret.Data["authorities.json"], &kept); err != nil {
		return nil, nil, err
	}
	for _, a := range kept {
		if a.Key == "" {
			continue
		}
		pair, err := tls.X509KeyPair([]byte(a.Certificate), []byte(a.Key))
		return pair.Leaf, pair.PrivateKey, err
	}
	return nil, nil, errors.New("the Secret has no CA with a key")
}
