package deployment

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// certificateUntil returns a certificate in PEM that expires at that time.
func certificateUntil(t *testing.T, expires time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: expires.AddDate(-1, 0, 0), NotAfter: expires}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestReport_ListsWhenCertificatesExpire(t *testing.T) {
	h := newHarness(t)
	own, issuer := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC), time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	h.create("default", func(s *v1alpha1.LimiterSpec) {
		s.Redis.TLS = &v1alpha1.RedisTLS{SecretRef: &v1alpha1.SecretReference{Name: "client"}}
		s.Endpoints.HTTP.TLS = &v1alpha1.EndpointTLS{SecretRef: v1alpha1.SecretReference{Name: "chain"}}
		s.Endpoints.GRPC.TLS = &v1alpha1.EndpointTLS{
			SecretRef: v1alpha1.SecretReference{Name: "unreadable"}, ClientCASecretRef: &v1alpha1.SecretReference{Name: "client"},
		}
	})
	secret := func(name string, certificate []byte) *corev1.Secret {
		t.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}, Data: map[string][]byte{
			caKey: []byte("x"), certificateKey: certificate, privateKeyKey: []byte("x"),
		}}
		h.must(h.kube.Create(t.Context(), s))
		return s
	}
	client := secret("client", certificateUntil(t, own))
	secret("chain", bytes.Join([][]byte{certificateUntil(t, own), certificateUntil(t, issuer)}, nil))
	secret("unreadable", []byte("x"))
	expect := func(want ...string) {
		t.Helper()
		h.reconcile("default")
		var got []string
		for _, c := range h.limiter().Status.Certificates {
			got = append(got, fmt.Sprintf("%s %s %s %s", c.Use, c.Secret, c.NotBefore.UTC().Format(time.DateOnly), c.NotAfter.UTC().Format(time.RFC3339)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("certificates %q, want %q", got, want)
		}
	}
	expect("Redis client 2030-02-03 2031-02-03T04:05:06Z", "HTTP chain 2030-02-03 2031-02-03T04:05:06Z")
	before := h.limiter().ResourceVersion
	expect("Redis client 2030-02-03 2031-02-03T04:05:06Z", "HTTP chain 2030-02-03 2031-02-03T04:05:06Z")
	if h.limiter().ResourceVersion != before {
		t.Error("the same certificates are written again")
	}
	client.Data[certificateKey] = certificateUntil(t, issuer)
	h.must(h.kube.Update(t.Context(), client))
	expect("Redis client 2039-01-01 2040-01-01T00:00:00Z", "HTTP chain 2030-02-03 2031-02-03T04:05:06Z")
	h.edit(func(s *v1alpha1.LimiterSpec) { s.Redis.TLS, s.Endpoints = nil, v1alpha1.Endpoints{} })
	expect()
}
