package envoy

import (
	"context"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
)

// gatedMethod is the gate of a method, and the counters of its calls.
type gatedMethod struct {
	gate     *overload.Endpoint
	requests Requests
}

// announcement is the key of the overload.Announcement in the context of a call.
type announcement struct{}

// gated returns the methods of a service with handlers that pass the gate. A call begins when its message has been read: until then, a slow caller
// costs only memory.
func (m gatedMethod) gated(service *grpc.ServiceDesc, failures Failures) *grpc.ServiceDesc {
	gated := *service
	gated.Methods = nil
	for _, method := range service.Methods {
		method.Handler = m.handler(method.Handler, failures)
		gated.Methods = append(gated.Methods, method)
	}
	return &gated
}

func (m gatedMethod) handler(handle grpc.MethodHandler, failures Failures) grpc.MethodHandler {
	return func(srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
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
}

// codeOf returns the code of a call: that of its error, or else the one that the response contains, as those of ext_authz do.
func codeOf(response any, err error) uint32 {
	if checked, is := response.(interface{ GetStatus() *rpcstatus.Status }); is && err == nil {
		return uint32(checked.GetStatus().GetCode())
	}
	return uint32(status.Code(err))
}

// announcementOf returns the announcement of the call with this context.
func announcementOf(ctx context.Context) overload.Announcement {
	announced, _ := ctx.Value(announcement{}).(overload.Announcement)
	return announced
}

// announce is called for each call, in the goroutine that reads the connection: a call that is rejected before it is read costs a fraction of one
// that is answered.
func (m gatedMethod) announce(ctx context.Context) (context.Context, bool) {
	announced, admitted := m.gate.Announce()
	if !admitted {
		m.requests.Count(uint32(codes.Unavailable))
		return ctx, false
	}
	return context.WithValue(ctx, announcement{}, announced), true
}

func errOverloaded() error {
	return status.Error(codes.Unavailable, reply.Unavailable(limiter.ErrOverloaded).Detail)
}
