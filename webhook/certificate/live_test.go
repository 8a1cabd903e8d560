package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A server serves certificates that live for seconds. Clients verify every call and learn of a new bundle late.
func TestRotation_FailsNoCallWhileCertificatesRotate(t *testing.T) {
	const (
		late   = 300 * time.Millisecond
		lasts  = 8 * time.Second
		settle = 500 * time.Millisecond
	)
	rotation := Rotation{Names: []string{serviceName}, CALifetime: 9 * time.Second, CertificateLifetime: 3 * time.Second, SettleTime: settle}
	var serving Serving
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{}
	serving.Configure(server.TLS)
	var trusted atomic.Pointer[x509.CertPool]

	rotate := func(stop time.Time, arrived chan struct{}) (certificates, cas int) {
		var state State
		var published Bundles
		leaves, signers := map[string]bool{}, map[string]bool{}
		var reading sync.WaitGroup
		defer reading.Wait()
		for tick := time.NewTicker(50 * time.Millisecond); time.Now().Before(stop); <-tick.C {
			next, err := rotation.Advance(state, published, time.Now())
			if err != nil {
				t.Error(err)
				return 0, 0
			}
			state, published = next, Bundles{next.Bundle()}
			leaves[string(state.Serving.Certificate.Raw)] = true
			signers[string(state.Serving.Certificate.AuthorityKeyId)] = true
			data, err := state.encode()
			if err != nil {
				t.Error(err)
				return 0, 0
			}
			// The worst case: replicas use a new certificate immediately, and clients learn of a new bundle late.
			if err := serving.Load(&corev1.Secret{Data: data}); err != nil {
				t.Error(err)
			}
			reading.Add(1)
			time.AfterFunc(late, func() {
				defer reading.Done()
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM(data[keyBundle])
				if trusted.Swap(pool) == nil {
					close(arrived)
				}
			})
		}
		return len(leaves), len(signers)
	}

	stop, arrived := time.Now().Add(lasts), make(chan struct{})
	var callers sync.WaitGroup
	var calls atomic.Int64
	server.StartTLS()
	defer server.Close()
	for range 4 {
		callers.Go(func() {
			<-arrived
			for time.Now().Before(stop) {
				if err := handshake(server.Listener.Addr().String(), trusted.Load()); err != nil {
					t.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	certificates, cas := rotate(stop, arrived)
	callers.Wait()
	if certificates < 4 || cas != 2 || calls.Load() < 100 {
		t.Errorf("%d calls saw %d certificates of %d CAs, which is too few", calls.Load(), certificates, cas)
	}
	t.Logf("%d calls, %d certificates, %d CAs", calls.Load(), certificates, cas)
}

func handshake(addr string, trusted *x509.CertPool) error {
	return handshakeAs(serviceName, addr, trusted)
}

func handshakeAs(name, addr string, trusted *x509.CertPool) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", addr, &tls.Config{RootCAs: trusted, ServerName: name})
	if err != nil {
		return fmt.Errorf("call at %v: %w", time.Now(), err)
	}
	return conn.Close()
}

func TestServing_RejectsHandshakesWithoutACertificate(t *testing.T) {
	var serving Serving
	if _, err := serving.GetCertificate(nil); err == nil {
		t.Error("GetCertificate returns no error")
	}
	if held := serving.current(); held.exists() {
		t.Error("the zero Serving holds a pair")
	}
}

func TestServing_KeepsItsCertificateWhenTheSecretIsInvalid(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	data, err := w.state.encode()
	if err != nil {
		t.Fatal(err)
	}
	var serving Serving
	if err := serving.Load(&corev1.Secret{Data: data}); err != nil {
		t.Fatal(err)
	}
	if err := serving.Load(&corev1.Secret{Data: map[string][]byte{keyCertificate: []byte("garbage")}}); err == nil {
		t.Error("an invalid Secret was accepted")
	}
	if !serving.current().Certificate.Equal(w.state.Serving.Certificate) {
		t.Error("the served certificate has changed")
	}
}
