package xds

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const typeURL = "type.googleapis.com/google.protobuf.StringValue"

// fakeServer is an xDS server that sends what a test wants, and records the requests.
type fakeServer struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	requests  chan *discoveryv3.DiscoveryRequest
	responses chan *discoveryv3.DiscoveryResponse
	hangup    chan struct{}
}

func (s *fakeServer) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	go func() {
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			s.requests <- request
		}
	}()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-s.hangup:
			return errors.New("the server goes down")
		case response := <-s.responses:
			if err := stream.Send(response); err != nil {
				return err
			}
		}
	}
}

// harness is a client of a fakeServer.
type harness struct {
	*fakeServer

	t       *testing.T
	metrics *Metrics
	log     *lockedBuffer
	applied chan []string
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func start(t *testing.T) *harness {
	t.Helper()
	return startWith(t, grpc.NewServer(), nil)
}

// startWith starts a client with the credentials, and the server.
func startWith(t *testing.T, server *grpc.Server, credentials func() (*tls.Config, error)) *harness {
	t.Helper()
	h := &harness{
		fakeServer: &fakeServer{
			requests: make(chan *discoveryv3.DiscoveryRequest, 10), responses: make(chan *discoveryv3.DiscoveryResponse), hangup: make(chan struct{}),
		},
		t: t, metrics: NewMetrics(prometheus.NewRegistry()), log: &lockedBuffer{}, applied: make(chan []string, 10),
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, h.fakeServer)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client := New(Options{
		Server: listener.Addr().String(), Credentials: credentials, Node: &corev3.Node{Id: "envoy-ratelimit"}, TypeURL: typeURL, Apply: h.apply,
		MinWait: time.Millisecond, MaxWait: 10 * time.Millisecond, Metrics: h.metrics, Log: slog.New(slog.NewTextHandler(h.log, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return h
}

// apply rejects a list with the word "bad".
func (h *harness) apply(resources []*anypb.Any) error {
	var list []string
	for _, r := range resources {
		var value wrapperspb.StringValue
		if err := r.UnmarshalTo(&value); err != nil {
			return err
		}
		list = append(list, value.GetValue())
	}
	if strings.Contains(strings.Join(list, " "), "bad") {
		return errors.New("bad is not a limit")
	}
	h.applied <- list
	return nil
}

func receive[T any](t *testing.T, from chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing arrived")
	}
	return value
}

// send sends a response and returns the answer of the client.
func (h *harness) send(version string, values ...string) *discoveryv3.DiscoveryRequest {
	h.t.Helper()
	response := &discoveryv3.DiscoveryResponse{VersionInfo: version, Nonce: "nonce-" + version, TypeUrl: typeURL}
	for _, value := range values {
		packed, err := anypb.New(wrapperspb.String(value))
		if err != nil {
			h.t.Fatal(err)
		}
		response.Resources = append(response.Resources, packed)
	}
	h.responses <- response
	return receive(h.t, h.requests)
}

func TestClient_SubscribesToAllResourcesOfItsType(t *testing.T) {
	h := start(t)
	first := receive(t, h.requests)
	if first.GetNode().GetId() != "envoy-ratelimit" || first.GetTypeUrl() != typeURL || len(first.GetResourceNames()) > 0 || first.GetVersionInfo()+first.GetResponseNonce() != "" {
		t.Errorf("%v", first)
	}
}

func TestClient_AcknowledgesWhatApplyAccepts(t *testing.T) {
	h := start(t)
	receive(t, h.requests)
	ack := h.send("1", "a", "b")
	if ack.GetVersionInfo() != "1" || ack.GetResponseNonce() != "nonce-1" || ack.GetErrorDetail() != nil {
		t.Errorf("%v", ack)
	}
	if got := receive(t, h.applied); strings.Join(got, " ") != "a b" {
		t.Errorf("applied %q", got)
	}
	if testutil.ToFloat64(h.metrics.connected) != 1 || testutil.ToFloat64(h.metrics.accepted) != 1 || testutil.ToFloat64(h.metrics.rejected) != 0 {
		t.Error("metrics")
	}
	if got := h.send("2").GetVersionInfo(); got != "2" { // an empty list is legal
		t.Errorf("an empty configuration is answered with version %q", got)
	}
}

func TestClient_RejectsWithTheReasonAndItsLastVersion(t *testing.T) {
	h := start(t)
	receive(t, h.requests)
	h.send("1", "a")
	for range 3 { // some servers send it again immediately
		nack := h.send("2", "bad")
		if nack.GetVersionInfo() != "1" || nack.GetResponseNonce() != "nonce-2" || nack.GetErrorDetail().GetMessage() != "bad is not a limit" ||
			nack.GetErrorDetail().GetCode() != 3 {
			t.Errorf("%v", nack)
		}
	}
	if got := strings.Count(h.log.String(), "rejected a configuration"); got != 1 {
		t.Errorf("%d log lines about one version", got)
	}
	if testutil.ToFloat64(h.metrics.rejected) != 1 || !strings.Contains(h.log.String(), "rejected a configuration") {
		t.Errorf("log:\n%s", h.log)
	}
	if got := h.send("3", "b").GetVersionInfo(); got != "3" {
		t.Errorf("the next version is answered with %q", got)
	}
}

// A server that sends a rejected configuration again immediately must not keep this process busy.
func TestClient_WaitsBeforeItRejectsAVersionAgain(t *testing.T) {
	c := New(Options{MinWait: 20 * time.Millisecond, MaxWait: time.Minute, TypeURL: typeURL, Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)})
	c.Apply = func([]*anypb.Any) error { return errors.New("bad") }
	began, response := time.Now(), &discoveryv3.DiscoveryResponse{VersionInfo: "1", TypeUrl: typeURL}
	for range 4 {
		c.answer(t.Context(), response)
	}
	if waited := time.Since(began); waited < 140*time.Millisecond { // 20 + 40 + 80
		t.Errorf("waited %v", waited)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.repeatWait = time.Hour
	c.answer(ended, response)
	if c.repeatWait != maxRepeatWait {
		t.Errorf("the longest wait is %v", c.repeatWait)
	}
}

func TestClient_RejectsOtherTypes(t *testing.T) {
	h := start(t)
	receive(t, h.requests)
	h.responses <- &discoveryv3.DiscoveryResponse{VersionInfo: "1", Nonce: "n", TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}
	want := `resources of type "type.googleapis.com/envoy.config.cluster.v3.Cluster", want "` + typeURL + `"`
	if nack := receive(t, h.requests); nack.GetErrorDetail().GetMessage() != want {
		t.Errorf("%v", nack)
	}
}

func TestClient_ConnectsAgain(t *testing.T) {
	h := start(t)
	receive(t, h.requests)
	h.send("7", "a")
	h.hangup <- struct{}{}
	// The first request of a new stream names no version: another process may use the same one for other resources.
	if again := receive(t, h.requests); again.GetVersionInfo() != "" || again.GetNode().GetId() != "envoy-ratelimit" {
		t.Errorf("%v", again)
	}
	if testutil.ToFloat64(h.metrics.connected) != 0 || !strings.Contains(h.log.String(), "lost the connection to the xDS server; the configuration that was accepted last stays active") {
		t.Errorf("log:\n%s", h.log)
	}
	if nack := h.send("1", "bad"); nack.GetVersionInfo() != "" { // a version of the previous stream
		t.Errorf("rejected with version %q", nack.GetVersionInfo())
	}
}

func TestReason_IsShortAndValid(t *testing.T) {
	long := reason(errors.New(strings.Repeat("ä", 5000)[1:]))
	if len(long) > maxReason+1 || !strings.HasPrefix(long, "?") {
		t.Errorf("%d bytes, %q", len(long), long[:4])
	}
}
