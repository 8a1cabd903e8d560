package envoy

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
)

// gates are the gates of the methods, by their full names.
type gates map[string]*overload.Endpoint

// register registers a service whose calls pass the gate. The calls are rejected before they are read: then a rejected call costs a
// fraction of one that is answered.
func (g gates) register(s *grpc.Server, service *grpc.ServiceDesc, implementation any, gate *overload.Endpoint) {
	gated := *service
	gated.Methods = nil
	for _, method := range service.Methods {
		handle := method.Handler
		method.Handler = func(srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			gate.Begin()
			defer gate.Leave()
			return handle(srv, ctx, read, interceptor)
		}
		g["/"+service.ServiceName+"/"+method.MethodName] = gate
		gated.Methods = append(gated.Methods, method)
	}
	s.RegisterService(&gated, implementation)
}

// tap is called for each call, in the goroutine that reads the connection.
func (g gates) tap() tap.ServerInHandle {
	overloaded := status.Error(codes.Unavailable, reply.Unavailable(limiter.ErrOverloaded).Detail)
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if gate, gated := g[info.FullMethodName]; gated && !gate.Announce() {
			return ctx, overloaded
		}
		return ctx, nil
	}
}
