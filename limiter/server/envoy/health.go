package envoy

import (
	"context"
	"fmt"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/limiter/server/h2"
)

// refreshInterval is the maximum delay until Watch reports a change of readiness. Check reports it immediately.
const refreshInterval = time.Second

// healthEndpoint is the health service. It reports the readiness of the limiter for the name of each service and the empty name.
type healthEndpoint struct {
	*health.Server

	ready func() error
	names []string // of services
	// ending closes when calls of Watch must end. Otherwise they would block a graceful stop.
	ending chan struct{}
	end    func()
}

func newHealthEndpoint(o *Options) *healthEndpoint {
	ready := o.Ready
	if ready == nil {
		ready = func() error { return nil }
	}
	ending := make(chan struct{})
	h := &healthEndpoint{
		Server: health.NewServer(), ready: ready, ending: ending, end: sync.OnceFunc(func() { close(ending) }),
		names: []string{"", ratelimitv3.RateLimitService_ServiceDesc.ServiceName, authv3.Authorization_ServiceDesc.ServiceName},
	}
	if o.Reference != nil {
		h.names = append(h.names, "ratelimit") // as the service calls itself
	}
	h.refresh()
	return h
}

// refresh updates the status from the readiness of the limiter. After Shutdown, the status stays NOT_SERVING.
func (h *healthEndpoint) refresh() {
	now := grpc_health_v1.HealthCheckResponse_SERVING
	if h.ready() != nil {
		now = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	for _, service := range h.names {
		h.SetServingStatus(service, now)
	}
}

// refreshPeriodically updates the status for calls of Watch until ctx is done.
func (h *healthEndpoint) refreshPeriodically(ctx context.Context) {
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.refresh()
		}
	}
}

// Check implements grpc_health_v1.HealthServer.
func (h *healthEndpoint) Check(ctx context.Context, in *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	h.refresh()
	return h.Server.Check(ctx, in)
}

// List implements grpc_health_v1.HealthServer.
func (h *healthEndpoint) List(ctx context.Context, in *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	h.refresh()
	return h.Server.List(ctx, in)
}

// Watch implements grpc_health_v1.HealthServer.
func (h *healthEndpoint) Watch(
	in *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		select {
		case <-h.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	return h.Server.Watch(in, watch{stream, ctx})
}

// maxHealthMessage is in bytes: the name of a service.
const maxHealthMessage = 4 << 10

// methods returns the unary methods. They wait for nothing, so that the goroutine that reads a connection can serve them: a flood of them takes no
// memory.
func (h *healthEndpoint) methods() map[string]h2.Method {
	return map[string]h2.Method{
		grpc_health_v1.Health_Check_FullMethodName: unaryHealth(h.Check),
		grpc_health_v1.Health_List_FullMethodName:  unaryHealth(h.List),
	}
}

// unaryHealth converts a method to one of the transports.
func unaryHealth[In any, Message interface {
	*In
	proto.Message
}, Out proto.Message](serve func(context.Context, Message) (Out, error)) h2.Method {
	return h2.Method{Inline: true, MaxMessage: maxHealthMessage, Serve: func(ctx context.Context, message, out []byte) ([]byte, error) {
		in := Message(new(In))
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(message, in); err != nil {
			return nil, malformed(err)
		}
		response, err := serve(ctx, in)
		if err != nil {
			return nil, err
		}
		out, err = proto.MarshalOptions{}.MarshalAppend(out, response)
		if err != nil {
			return nil, fmt.Errorf("marshal the response: %w", err)
		}
		return out, nil
	}}
}

// watch is a stream with another context.
type watch struct {
	grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]

	ctx context.Context //nolint:containedctx // a stream returns its context from a method
}

func (w watch) Context() context.Context { return w.ctx }
