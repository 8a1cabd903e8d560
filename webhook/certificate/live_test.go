package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A rotatingCluster runs in a bubble of package synctest, so that weeks pass within a second. Its clients make handshakes with its servers.
type rotatingCluster struct {
	*testing.T

	issued  string // the name in certificates
	called  string // the name that clients call
	servers []*tls.Config
	trusted atomic.Pointer[x509.CertPool] // what clients trust; nil before the first bundle arrives

	running sync.WaitGroup
	calls   atomic.Int64
}

// after runs do when the time has passed.
func (c *rotatingCluster) after(pause time.Duration, do func()) {
	c.running.Add(1)
	time.AfterFunc(pause, func() { defer c.running.Done(); do() })
}

// trust makes clients trust the CAs of the bundle, and no others.
func (c *rotatingCluster) trust(bundle []byte) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	c.trusted.Store(pool)
}

// run rotates certificates for 36 days. publish receives each changed Secret, and published returns the bundles in the configurations.
// Meanwhile, clients call all servers.
func (c *rotatingCluster) run(publish func(data map[string][]byte), published func() Bundles) {
	c.Helper()
	rotation := Rotation{Names: []string{c.issued}, CALifetime: 30 * day, CertificateLifetime: 10 * day, SettleTime: 10 * time.Minute}
	var state State
	var written map[string][]byte
	var changed time.Time
	certificates, cas := map[string]bool{}, map[string]bool{}
	for begin := time.Now(); time.Since(begin) < 36*day; {
		for i := range c.servers {
			c.running.Go(func() { c.call(i) })
		}
		next, err := rotation.Advance(state, published(), time.Now())
		if err != nil {
			c.Fatal(err)
		}
		state = next
		certificates[string(state.Serving.Certificate.Raw)] = true
		cas[string(state.Serving.Certificate.AuthorityKeyId)] = true
		data, err := state.encode()
		if err != nil {
			c.Fatal(err)
		}
		if !containsAll(written, data) {
			written, changed = data, time.Now()
			publish(data)
		}
		if time.Since(changed) < 15*time.Minute {
			time.Sleep(30 * time.Second)
		} else {
			time.Sleep(6 * time.Hour)
		}
	}
	c.running.Wait()
	// Certificates are replaced on the days 0, 7, 14, 20 (by the new CA), 27 and 34.
	if len(certificates) != 6 || len(cas) != 2 || c.calls.Load() < 300 {
		c.Errorf("%d calls saw %d certificates of %d CAs, want at least 300, 6 and 2", c.calls.Load(), len(certificates), len(cas))
	}
}

func (c *rotatingCluster) call(server int) {
	trusted := c.trusted.Load()
	if trusted == nil {
		return
	}
	if err := handshake(c.called, c.servers[server], trusted); err != nil {
		c.Errorf("%v: call of server %d: %v", time.Now(), server, err)
	}
	c.calls.Add(1)
}

// handshake lets a client that trusts only these CAs call a server.
func handshake(name string, server *tls.Config, trusted *x509.CertPool) error {
	near, far := net.Pipe()
	defer near.Close()
	if err := near.SetDeadline(time.Now().Add(time.Second)); err != nil { // a pipe has no buffer: alerts of both sides would wait forever
		return err
	}
	server = server.Clone()
	server.SessionTicketsDisabled = true // nothing reads the pipe after the handshake
	go func() {
		defer far.Close()
		_ = tls.Server(far, server).Handshake() // the client reports the error
	}()
	return tls.Client(near, &tls.Config{RootCAs: trusted, ServerName: name}).Handshake()
}

// The worst case: replicas use a new certificate immediately, and API servers learn of a new bundle as late as documented.
func TestRotation_FailsNoCallWhileCertificatesRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var serving Serving
		server := &tls.Config{}
		serving.Configure(server)
		c := &rotatingCluster{T: t, issued: serviceName, called: serviceName, servers: []*tls.Config{server}}
		var configuration []byte
		c.run(func(data map[string][]byte) {
			if err := serving.Load(&corev1.Secret{Data: data}); err != nil {
				t.Error(err)
			}
			configuration = data[keyBundle]
			c.after(10*time.Minute-time.Second, func() { c.trust(data[keyBundle]) })
		}, func() Bundles { return Bundles{configuration} })
	})
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

func TestServing_ConfiguresTLS13AndHTTP1(t *testing.T) {
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
	server := &tls.Config{}
	serving.Configure(server)
	server.SessionTicketsDisabled = true // nothing reads the pipe after the handshake
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[keyBundle])
	negotiate := func(newest uint16) (tls.ConnectionState, error) {
		near, far := net.Pipe()
		defer near.Close()
		go func() {
			defer far.Close()
			_ = tls.Server(far, server).Handshake() // the client reports the error
		}()
		client := tls.Client(near, &tls.Config{
			RootCAs: roots, ServerName: serviceName, MaxVersion: newest, NextProtos: []string{"h2", "http/1.1"},
			Time: func() time.Time { return w.now },
		})
		err := client.Handshake()
		return client.ConnectionState(), err
	}
	if state, err := negotiate(tls.VersionTLS13); err != nil || state.NegotiatedProtocol != "http/1.1" {
		t.Errorf("negotiated %q, %v; want http/1.1", state.NegotiatedProtocol, err)
	}
	if _, err := negotiate(tls.VersionTLS12); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
}

func TestFollower_LoadsTheCertificateInTheSecret(t *testing.T) {
	r := newRotating(t)
	var serving Serving
	f := &follower{cached: r.cluster, secret: secretName, serving: &serving}
	if _, err := f.Reconcile(t.Context(), ctrl.Request{}); err != nil || serving.current().exists() {
		t.Errorf("without a Secret: %v", err)
	}
	state, _ := r.round()
	if _, err := f.Reconcile(t.Context(), ctrl.Request{}); err != nil || !serving.current().Certificate.Equal(state.Serving.Certificate) {
		t.Errorf("with a Secret: %v", err)
	}
	failing := interceptor.NewClient(r.cluster, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("refused")
	}})
	f.cached = failing
	if _, err := f.Reconcile(t.Context(), ctrl.Request{}); err == nil {
		t.Error("an error of the cache is ignored")
	}
}
