package envoy

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter/reply"
)

// call is one call of ShouldRateLimit. Calls are reused: nothing may refer to one, or to a slice in it, after its response was encoded.
// Strings may be kept.
type call struct {
	request  rateLimitRequest
	batch    batch
	fields   []reply.Field // of the response
	response []byte        // in wire format
	// overLimit is whether the response is a denial.
	overLimit bool
	calls     *sync.Pool
}

// The largest calls that are reused. They are larger than those of usual configurations of Envoy.
const (
	maxReusedDescriptors = 8
	maxReusedEntries     = 16 // of a descriptor
	maxReusedResponse    = 8 << 10
)

func newCalls() *sync.Pool {
	calls := &sync.Pool{}
	calls.New = func() any { return &call{calls: calls} }
	return calls
}

// release makes the call available for another one.
func (c *call) release() {
	large := func(d requestDescriptor) bool { return cap(d.entries) > maxReusedEntries }
	if cap(c.request.descriptors) > maxReusedDescriptors || slices.ContainsFunc(c.request.descriptors, large) || cap(c.response) > maxReusedResponse {
		return
	}
	c.request.reset()
	clear(c.batch.checks)
	clear(c.batch.entries)
	clear(c.fields)
	c.response = c.response[:0]
	c.calls.Put(c)
}

// codec is the codec of gRPC for protobuf, except for calls of ShouldRateLimit.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2. It releases a call, because gRPC marshals each response once.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	answered, is := v.(*call)
	if !is {
		return c.CodecV2.Marshal(v) //nolint:wrapcheck // it is this codec
	}
	message := mem.SliceBuffer(slices.Clone(answered.response))
	answered.release()
	return mem.BufferSlice{message}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	received, is := v.(*call)
	if !is {
		return c.CodecV2.Unmarshal(data, v) //nolint:wrapcheck // it is this codec
	}
	message := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer message.Free()
	if err := received.request.decode(message.ReadOnlyData()); err != nil {
		return fmt.Errorf("decode a RateLimitRequest: %w", err)
	}
	return nil
}

// service describes the rate limit service with calls as its messages. No interceptor is called. The handler asks the gate.
func (d *rateLimitEndpoint) service() *grpc.ServiceDesc {
	desc := ratelimitv3.RateLimitService_ServiceDesc
	desc.HandlerType = (*any)(nil)
	desc.Methods = []grpc.MethodDesc{{MethodName: desc.Methods[0].MethodName, Handler: d.handle}}
	return &desc
}

// handle is the handler of ShouldRateLimit. The response is the call.
//
//nolint:revive // the arguments are those of a grpc.MethodHandler
func (d *rateLimitEndpoint) handle(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (response any, err error) {
	announced := announcementOf(ctx)
	c := d.calls.Get().(*call) //nolint:forcetypeassert // all its values have this type
	defer func() {
		if p := recover(); p != nil {
			response, err = nil, panicked(d.log, p)
		}
		if err == nil && c.overLimit {
			d.requests.CountOverLimit()
		} else {
			d.requests.Count(uint32(status.Code(err)))
		}
	}()
	if err := decode(c); err != nil {
		d.gate.Withdraw(announced)
		d.failures.Invalid()
		c.release()
		return nil, err
	}
	if !d.gate.Begin(announced) {
		c.release()
		return nil, errOverloaded()
	}
	defer d.gate.Leave()
	if err := d.shouldRateLimit(ctx, c); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// panicked logs a panic of a call and returns the status of the call.
func panicked(log *slog.Logger, p any) error {
	log.Error("a call panicked", "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}
