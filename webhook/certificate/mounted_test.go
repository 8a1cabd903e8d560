package certificate

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// Another controller writes the bundle to the webhook configuration, and kubelets write the certificate to pods. All are late.
func TestRotation_FailsNoCallWhilePodsReadMountedCertificates(t *testing.T) {
	const (
		register = time.Minute                  // Secret → configuration
		watch    = 10*time.Minute - time.Second // configuration → API server
		kubelet  = 2 * time.Minute              // Secret → files
	)
	pods := []*pod{{dir: t.TempDir()}, {dir: t.TempDir()}} // one gets files immediately, one late
	synctest.Test(t, func(t *testing.T) {
		c := &rotatingCluster{T: t, issued: "*.weir-system.svc", called: "weir-limiter-default.weir-system.svc"}
		for _, p := range pods {
			c.servers = append(c.servers, &tls.Config{GetCertificate: p.certificate})
		}
		var configuration atomic.Pointer[[]byte]
		c.run(func(data map[string][]byte) {
			pods[0].mount(t, data)
			c.after(kubelet, func() { pods[1].mount(t, data) })
			c.after(register, func() {
				configuration.Store(new(data[keyBundle]))
				c.after(watch, func() { c.trust(data[keyBundle]) })
			})
		}, func() Bundles {
			if bundle := configuration.Load(); bundle != nil {
				return Bundles{*bundle}
			}
			return nil
		})
	})
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
