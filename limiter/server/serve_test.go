package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds every wait of the tests.
const patience = 10 * time.Second

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// gatedStore blocks every spend until its gate opens.
type gatedStore struct {
	limiter.Store
	arrived, gate chan struct{}
}

func (s *gatedStore) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.arrived <- struct{}{}
	<-s.gate
	return s.Store.Spend(ctx, charges)
}

// running is a Server on a loopback address.
type running struct {
	check, ops string // base URLs
	stop       context.CancelFunc
	done       chan error
}

func start(t *testing.T, store limiter.Store, drain time.Duration) *running {
	t.Helper()
	e := newEngine(t, store, tenantRule("a", 5))
	readiness := NewReadiness(e, nil)
	registry := prometheus.NewRegistry()
	s := &Server{
		Check: newHandler(t, e), CheckListener: listen(t),
		Ops: NewOpsHandler(registry, readiness), OpsListener: listen(t),
		Readiness: readiness, Drain: drain, Log: discard(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{
		check: "http://" + s.CheckListener.Addr().String(),
		ops:   "http://" + s.OpsListener.Addr().String(),
		stop:  cancel, done: make(chan error, 1),
	}
	go func() { r.done <- s.Run(ctx) }()
	return r
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		t.Fatal("the server did not stop in time")
		return nil
	}
}

// caller returns a client with its own connections.
func caller(t *testing.T, protocols *http.Protocols) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func ask(client *http.Client, url, body string) (*http.Response, error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response, errors.Join(err, response.Body.Close())
}

func TestServer_DrainAcceptsRequestsForADelayAndFinishesThoseInFlight(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	store := &gatedStore{Store: atNoon(), arrived: make(chan struct{}, 2), gate: make(chan struct{})}
	const drain = 300 * time.Millisecond
	s := start(t, store, drain)
	client := caller(t, nil)

	type outcome struct {
		response *http.Response
		err      error
	}
	inFlight := make(chan outcome, 2)
	send := func() {
		response, err := ask(client, s.check+"/v1/check", acme)
		inFlight <- outcome{response, err}
	}
	go send()
	<-store.arrived
	stopped := time.Now()
	s.stop()
	fixture.Await(t, "not ready while draining", func() bool {
		response, err := ask(client, s.ops+"/readyz", "")
		return err == nil && response.StatusCode == http.StatusServiceUnavailable
	})
	go send() // within the drain delay
	<-store.arrived
	fixture.Await(t, "new connections are refused after the delay", func() bool {
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.check, "http://"))
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	})
	if refusedAfter := time.Since(stopped); refusedAfter < drain {
		t.Errorf("new requests were refused after %v, want not before %v", refusedAfter, drain)
	}
	if response, err := ask(client, s.ops+"/healthz", ""); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the ops socket closed before the last request: %v", err)
	}
	close(store.gate)
	var closing int
	for range 2 {
		o := <-inFlight
		if o.err != nil || o.response.StatusCode != http.StatusOK {
			t.Fatalf("a request in flight: %+v, %v", o.response, o.err)
		}
		if o.response.Close {
			closing++
		}
	}
	if closing == 0 {
		t.Error("a draining server does not ask callers to close their connections")
	}
	if err := s.wait(t); err != nil {
		t.Errorf("drain: %v", err)
	}
}

func TestServer_ServesHTTP2WithoutTLS(t *testing.T) {
	s := start(t, atNoon(), 0)
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	response, err := ask(caller(t, h2c), s.check+"/v1/check", acme)
	if err != nil || response.StatusCode != http.StatusOK || response.ProtoMajor != 2 {
		t.Errorf("%+v, %v", response, err)
	}
	s.stop()
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
}

func TestServer_ServesTLSWithHTTP2(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(certified.Close)
	trusting, ok := certified.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("a transport of type %T", certified.Client().Transport)
	}
	e := newEngine(t, atNoon(), tenantRule("a", 5))
	readiness := NewReadiness(e, nil)
	var log bytes.Buffer
	s := &Server{
		Check: newHandler(t, e), CheckListener: listen(t), Ops: NewOpsHandler(prometheus.NewRegistry(), readiness), OpsListener: listen(t),
		TLS: &tls.Config{Certificates: certified.TLS.Certificates}, Readiness: readiness, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &running{done: make(chan error, 1)}
	go func() { r.done <- s.Run(ctx) }()
	for major, protocol := range map[int]func(*http.Protocols){
		1: func(p *http.Protocols) { p.SetHTTP1(true) },
		2: func(p *http.Protocols) { p.SetHTTP2(true) },
	} {
		protocols := new(http.Protocols)
		protocol(protocols)
		transport := &http.Transport{Protocols: protocols, TLSClientConfig: trusting.TLSClientConfig.Clone()}
		t.Cleanup(transport.CloseIdleConnections)
		response, err := ask(&http.Client{Transport: transport, Timeout: patience}, "https://"+s.CheckListener.Addr().String()+"/v1/check", acme)
		if err != nil || response.StatusCode != http.StatusOK || response.ProtoMajor != major {
			t.Errorf("HTTP/%d: %+v, %v", major, response, err)
		}
	}
	if response, err := ask(caller(t, nil), "http://"+s.OpsListener.Addr().String()+"/healthz", ""); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the ops server has TLS: %+v, %v", response, err)
	}
	stop()
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "msg=draining for=0s") {
		t.Errorf("no line about the drain in %s", &log)
	}
}

func TestServer_StopsWhenAListenerFails(t *testing.T) {
	e := newEngine(t, atNoon())
	readiness := NewReadiness(e, nil)
	check, ops := listen(t), listen(t)
	s := &Server{
		Check: newHandler(t, e), CheckListener: check, Ops: NewOpsHandler(prometheus.NewRegistry(), readiness), OpsListener: ops,
		Readiness: readiness, Drain: time.Hour, Log: discard(),
	}
	if err := ops.Close(); err != nil {
		t.Fatal(err)
	}
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "serve on "+ops.Addr().String()) {
		t.Errorf("error %v does not name the listener", err)
	}
	if !readiness.draining.Load() {
		t.Error("the server is ready, although one of its listeners has failed")
	}
}
