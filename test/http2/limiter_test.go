package http2_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server/envoy"
)

// Bounds of the server, as documented in docs/reference/grpc.md and limiter/server/envoy.
const (
	maxMessage = 1 << 20
	maxHeaders = 256 << 10
	maxStreams = 1024
)

// endpoint is the gRPC port of a limiter that runs until the test ends.
type endpoint struct {
	network, address string
	reference        bool // it has the transport of grpc-go
}

// serve runs a limiter whose only policy admits every call. wrap changes its store.
func serve(t testing.TB, wrap func(limiter.Store) limiter.Store) *endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, listener, wrap)
}

func serveOn(t testing.TB, listener net.Listener, wrap func(limiter.Store) limiter.Store) *endpoint {
	return serveWith(t, listener, wrap, envoy.FastTransport)
}

// serveWith runs a limiter with a transport.
func serveWith(t testing.TB, listener net.Listener, wrap func(limiter.Store) limiter.Store, transport envoy.Transport) *endpoint {
	t.Helper()
	store := wrap(memstore.New(time.Now))
	decide := engine.New(store, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	index, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{{
		Policy: "shop/tenants", Domain: "shop", Axis: "Custom", Algorithm: limiter.FixedWindow, Units: 1_000_000_000, WindowSeconds: 3600,
		Match:      rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "tenant"}}},
		Identifier: rules.Identifier{From: rules.FromDescriptor, Name: "tenant"},
	}}}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	decide.Swap(index)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	server := envoy.NewServer(envoy.Options{Engine: decide, Transport: transport, Log: slog.New(slog.DiscardHandler)})
	go func() { stopped <- server.Run(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return &endpoint{listener.Addr().Network(), listener.Addr().String(), transport == envoy.StandardTransport}
}

func unchanged(s limiter.Store) limiter.Store { return s }

// client returns a connection of grpc-go to e.
func (e *endpoint) client(t testing.TB) ratelimitv3.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(e.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return ratelimitv3.NewRateLimitServiceClient(conn)
}

// request is a call that the limiter decides.
func request() *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: "shop", Descriptors: []*descriptorv3.RateLimitDescriptor{
		{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}}},
	}}
}

// message returns a gRPC message, not compressed, with the wire format of m.
func message(t testing.TB, m proto.Message) []byte {
	t.Helper()
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return prefixed(wire)
}

// prefixed returns a gRPC message, not compressed.
func prefixed(wire []byte) []byte {
	size := len(wire)
	return append([]byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}, wire...)
}

var errWrongDecision = errors.New("the limiter did not allow the call")
