package envoy

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server/h2"
)

// gatedMethod is a method of an endpoint, with its gate and the counters of its calls.
type gatedMethod struct {
	gate     *overload.Endpoint
	requests Requests
	failures Failures
	log      *slog.Logger
	// serve decides a message. It appends the response to out, and returns the code with which the call counts.
	serve func(ctx context.Context, message, out []byte) (response []byte, code uint32, err error)
}

// bytesPerCall is how many bytes of a message count as one call of the gate: a message of that size takes about as much memory and processor time.
const bytesPerCall = 1 << 10

// announcement is the key of the overload.Announcement in the context of a call.
type announcement struct{}

// method returns the method for the transports.
func (m gatedMethod) method() h2.Method {
	return h2.Method{
		Announce: m.announce, Rejected: status.Convert(errOverloaded()), Serve: m.decide,
		Fail: func(ctx context.Context, err error) {
			m.gate.Withdraw(announcementOf(ctx))
			m.failures.Invalid()
			m.requests.Count(uint32(status.Code(err)))
		},
	}
}

// announce is called for each call before its message is read: a call that is rejected then costs a fraction of one that is answered.
func (m gatedMethod) announce(ctx context.Context) (context.Context, bool) {
	announced, admitted := m.gate.AnnounceOf(overload.ShareOf(ctx))
	if !admitted {
		m.requests.Count(uint32(codes.Unavailable))
		return ctx, false
	}
	return context.WithValue(ctx, announcement{}, announced), true
}

// decide serves a call. The call begins when its message has been read: until then, a slow caller costs only memory.
func (m gatedMethod) decide(ctx context.Context, message, out []byte) (response []byte, err error) {
	announced, code := announcementOf(ctx), uint32(codes.Internal)
	defer func() {
		if p := recover(); p != nil {
			response, code, err = nil, uint32(codes.Internal), panicked(m.log, p)
		}
		if code == overLimit {
			m.requests.CountOverLimit()
		} else {
			m.requests.Count(code)
		}
	}()
	if !m.gate.BeginHeavy(&announced, 1+int64(len(message))/bytesPerCall) {
		code = uint32(codes.Unavailable)
		return nil, errOverloaded()
	}
	defer m.gate.End(announced)
	response, code, err = m.serve(ctx, message, out)
	return response, err
}

// announcementOf returns the announcement of the call with this context.
func announcementOf(ctx context.Context) overload.Announcement {
	announced, _ := ctx.Value(announcement{}).(overload.Announcement)
	return announced
}

func errOverloaded() error {
	return status.Error(codes.Unavailable, reply.Unavailable(limiter.ErrOverloaded).Detail)
}

// malformed returns the status of a call whose message cannot be decoded, that of grpc-go.
func malformed(err error) error {
	return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
}

// panicked logs a panic of a call and returns the status of the call.
func panicked(log *slog.Logger, p any) error {
	log.Error("a call panicked", "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}
