package grpclimit

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/internal/limiter/reply"
)

// UnaryServerInterceptor returns an interceptor that serves the unary calls that g allows. The rate-limit fields are in the header metadata
// of the response, in lower case. A call over a limit ends with RESOURCE_EXHAUSTED, with a RetryInfo and a QuotaFailure as details.
func UnaryServerInterceptor(g *httplimit.Gate, options ...Option) grpc.UnaryServerInterceptor {
	x := newCalls(options)
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if !x.chargeLater && x.skips(ctx, info.FullMethod) {
			return handler(ctx, request)
		}
		check, fields := x.check(ctx, g, info.FullMethod, request), http.Header{}
		refused := g.Enter(ctx, &check, fields)
		if err := grpc.SetHeader(ctx, newMetadata(fields)); err != nil {
			return nil, err
		}
		if refused != nil {
			return nil, statusOf(refused)
		}
		if x.chargeLater {
			ctx = g.Chargeable(ctx, &check)
		}
		return handler(ctx, request)
	}
}

// StreamServerInterceptor returns an interceptor that serves the streams that g allows, as UnaryServerInterceptor does for unary calls. A
// stream is charged once, at its start, for any duration and number of messages, unless [EachMessage] is given.
func StreamServerInterceptor(g *httplimit.Gate, options ...Option) grpc.StreamServerInterceptor {
	x := newCalls(options)
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx := stream.Context()
		if !x.chargeLater && x.skips(ctx, info.FullMethod) {
			return handler(server, stream)
		}
		check, fields := x.check(ctx, g, info.FullMethod, nil), http.Header{}
		refused := g.Enter(ctx, &check, fields)
		if err := stream.SetHeader(newMetadata(fields)); err != nil {
			return err
		}
		if refused != nil {
			return statusOf(refused)
		}
		if x.chargeLater {
			stream = &chargeableStream{ServerStream: stream, ctx: g.Chargeable(ctx, &check)}
		}
		if x.eachMessage {
			stream = &meteredStream{ServerStream: stream, calls: x, gate: g, fullMethod: info.FullMethod}
		}
		return handler(server, stream)
	}
}

// chargeableStream has a context with which the handler can charge more.
type chargeableStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // that of the stream, which gRPC has in it too
}

func (s *chargeableStream) Context() context.Context { return s.ctx }

// meteredStream charges every message that it receives after the first.
type meteredStream struct {
	grpc.ServerStream

	calls      *calls
	gate       *httplimit.Gate
	fullMethod string
	started    bool // the first message was received
}

// RecvMsg is called by one goroutine at a time, as gRPC requires.
func (s *meteredStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	if !s.started {
		s.started = true
		return nil
	}
	ctx := s.Context()
	check, fields := s.calls.check(ctx, s.gate, s.fullMethod, message), http.Header{}
	if refused := s.gate.Enter(ctx, &check, fields); refused != nil {
		s.SetTrailer(newMetadata(fields))
		return statusOf(refused)
	}
	return nil
}

func newMetadata(fields http.Header) metadata.MD {
	md := make(metadata.MD, len(fields))
	for name, value := range reply.Fields(fields) {
		md[name] = append(md[name], value)
	}
	return md
}
