package envoy

import (
	"context"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
)

// gates are the methods that have a gate, by their full names.
type gates map[string]gatedMethod

// gatedMethod is the gate of a method, and the counters of its calls.
type gatedMethod struct {
	gate     *overload.Endpoint
	requests Requests
}

// announcement is the key of the overload.Announcement in the context of a call.
type announcement struct{}

// register registers a service whose calls pass the gate. The calls are rejected before they are read: then a rejected call costs a
// fraction of one that is answered. They begin when their message has been read: until then a slow caller costs only memory.
func (g gates) register(s *grpc.Server, service *grpc.ServiceDesc, implementation any, m gatedMethod, failures Failures) {
	gated := *service
	gated.Methods = nil
	for _, method := range service.Methods {
		g.add(service, method, m)
		handle := method.Handler
		method.Handler = func(srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			announced := announcementOf(ctx)
			began := false
			defer func() {
				if began {
					m.gate.Leave()
				}
			}()
			response, err := handle(srv, ctx, func(message any) error {
				if err := read(message); err != nil {
					m.gate.Withdraw(announced)
					failures.Invalid()
					return err
				}
				if began = m.gate.Begin(announced); !began {
					return errOverloaded()
				}
				return nil
			}, interceptor)
			m.requests.Count(codeOf(response, err))
			return response, err
		}
		gated.Methods = append(gated.Methods, method)
	}
	s.RegisterService(&gated, implementation)
}

// codeOf returns the code of a call: that of its error, or else the one that the response contains, as those of ext_authz do.
func codeOf(response any, err error) uint32 {
	if checked, is := response.(interface{ GetStatus() *rpcstatus.Status }); is && err == nil {
		return uint32(checked.GetStatus().GetCode())
	}
	return uint32(status.Code(err))
}

// add makes the tap ask the gate for calls of a method.
func (g gates) add(service *grpc.ServiceDesc, method grpc.MethodDesc, m gatedMethod) {
	g["/"+service.ServiceName+"/"+method.MethodName] = m
}

// announcementOf returns the announcement by the tap of the call with this context.
func announcementOf(ctx context.Context) overload.Announcement {
	announced, _ := ctx.Value(announcement{}).(overload.Announcement)
	return announced
}

// tap is called for each call, in the goroutine that reads the connection.
func (g gates) tap() tap.ServerInHandle {
	overloaded := errOverloaded()
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		m, gated := g[info.FullMethodName]
		if !gated {
			return ctx, nil
		}
		announced, admitted := m.gate.Announce()
		if !admitted {
			m.requests.Count(uint32(codes.Unavailable))
			return ctx, overloaded
		}
		return context.WithValue(ctx, announcement{}, announced), nil
	}
}

func errOverloaded() error {
	return status.Error(codes.Unavailable, reply.Unavailable(limiter.ErrOverloaded).Detail)
}
