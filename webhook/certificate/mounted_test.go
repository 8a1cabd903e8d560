package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pod is a server that serves files as a kubelet mounts them: a symbolic link to a directory, which is replaced as a whole.
type pod struct {
	dir     string
	mu      sync.Mutex // on a slow machine, the timers of two versions fire at the same time
	version int
	last    atomic.Pointer[tls.Certificate]
}

// mount writes the Secret to the files of the pod.
func (p *pod) mount(t *testing.T, data map[string][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	version := filepath.Join(p.dir, strconv.Itoa(p.version))
	for _, err := range []error{
		os.Mkdir(version, 0o700),
		os.WriteFile(filepath.Join(version, keyCertificate), data[keyCertificate], 0o600),
		os.WriteFile(filepath.Join(version, keyPrivate), data[keyPrivate], 0o600),
		os.Symlink(version, filepath.Join(p.dir, "next")),
		os.Rename(filepath.Join(p.dir, "next"), filepath.Join(p.dir, "data")),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

// certificate reads the files. If they are replaced between the two reads, it returns the pair that it read before.
func (p *pod) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(p.dir, "data", keyCertificate), filepath.Join(p.dir, "data", keyPrivate))
	if err == nil {
		p.last.Store(&pair)
	}
	return p.last.Load(), nil
}

// Another controller writes the bundle to the webhook configuration, and kubelets write the certificate to pods. Each is late by a tenth
// of a certificate's lifetime. In a cluster they are late by a minute or two of 90 days.
func TestRotation_FailsNoCallWhilePodsReadMountedCertificates(t *testing.T) {
	const (
		lasts    = 8 * time.Second
		register = 150 * time.Millisecond // Secret → configuration
		watch    = 250 * time.Millisecond // configuration → API server
		kubelet  = 300 * time.Millisecond // Secret → files
	)
	rotation := Rotation{Names: []string{"*.weir-system.svc"}, CALifetime: 9 * time.Second, CertificateLifetime: 3 * time.Second, SettleTime: 500 * time.Millisecond}
	pods := []*pod{{dir: t.TempDir()}, {dir: t.TempDir()}} // one gets files immediately, one late
	servers := make([]*httptest.Server, len(pods))
	for i, p := range pods {
		servers[i] = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		servers[i].TLS = &tls.Config{GetCertificate: p.certificate}
		servers[i].StartTLS()
		defer servers[i].Close()
	}
	var configuration atomic.Pointer[[]byte]
	var trusted atomic.Pointer[x509.CertPool]
	ready := make(chan struct{})
	var late sync.WaitGroup
	after := func(wait time.Duration, do func()) {
		late.Add(1)
		time.AfterFunc(wait, func() { defer late.Done(); do() })
	}
	bring := func(data map[string][]byte) {
		pods[0].mount(t, data)
		after(kubelet, func() { pods[1].mount(t, data) })
		after(register, func() {
			configuration.Store(new(data[keyBundle]))
			after(watch, func() {
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM(data[keyBundle])
				if trusted.Swap(pool) == nil {
					close(ready)
				}
			})
		})
	}

	stop := time.Now().Add(lasts)
	var calls atomic.Int64
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			<-ready
			for time.Now().Before(stop) {
				addr := servers[i%len(servers)].Listener.Addr().String()
				if err := handshakeAs("weir-limiter-default.weir-system.svc", addr, trusted.Load()); err != nil {
					t.Errorf("pod %d: %v", i%len(servers), err)
					return
				}
				calls.Add(1)
			}
		})
	}

	var state State
	var written map[string][]byte
	leaves, signers := map[string]bool{}, map[string]bool{}
	for tick := time.NewTicker(50 * time.Millisecond); time.Now().Before(stop); <-tick.C {
		var published Bundles
		if bundle := configuration.Load(); bundle != nil {
			published = Bundles{*bundle}
		}
		next, err := rotation.Advance(state, published, time.Now())
		if err != nil {
			t.Error(err)
			break
		}
		state = next
		leaves[string(state.Serving.Certificate.Raw)] = true
		signers[string(state.Serving.Certificate.AuthorityKeyId)] = true
		data, err := state.encode()
		if err != nil {
			t.Error(err)
			break
		}
		if !containsAll(written, data) {
			written = data
			bring(data)
		}
	}
	callers.Wait()
	late.Wait()
	if len(leaves) < 4 || len(signers) != 2 || calls.Load() < 100 {
		t.Errorf("%d calls saw %d certificates of %d CAs, which is too few", calls.Load(), len(leaves), len(signers))
	}
	t.Logf("%d calls, %d certificates, %d CAs", calls.Load(), len(leaves), len(signers))
}

// The process of the Rotator does not serve the certificate itself.
func TestRotator_RestoresALostSecretFromTheLastServedPair(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	data, err := w.state.encode()
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRotator(Config{Rotation: w.rotation, Clock: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	state, err := r.nextState(t.Context(), &corev1.Secret{}, nil)
	if err != nil || !state.Serving.exists() {
		t.Fatalf("a Rotator without state: %v", err)
	}
	if state, err = r.nextState(t.Context(), &corev1.Secret{Data: data}, w.published); err != nil {
		t.Fatal(err)
	}
	r.lastServing = state.Serving
	state, err = r.nextState(t.Context(), &corev1.Secret{}, w.published)
	if err != nil {
		t.Fatal(err)
	}
	if !state.Serving.Certificate.Equal(w.state.Serving.Certificate) {
		t.Error("the restored Secret has a certificate that no API server trusts yet")
	}
}
