package envoy

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/limiter/server/h2"
	"github.com/weir-dev/weir/limiter/tracing"
)

// writeTimeout is how long a client can read nothing of what it is sent.
const writeTimeout = 20 * time.Second

// newTransport returns the server of the connections. It serves methods, and others serves all other calls.
func newTransport(methods map[string]h2.Method, others http.Handler, o *Options) *h2.Server {
	settings := h2.Options{
		Methods: methods, Fallback: others, Credentials: o.Credentials,
		MaxMessage: maxMessage, MaxHeaders: maxHeaders, MaxStreams: maxStreams,
		ConnectionTimeout: connectionTimeout, WriteTimeout: writeTimeout,
		KeepaliveAfter: keepaliveAfter, KeepaliveTimeout: keepaliveTimeout, MinPing: minPing, MaxAge: maxAge, MaxAgeGrace: maxAgeGrace,
	}
	if o.Tracer != nil {
		settings.Metadata = tracing.Fields()
	}
	return h2.New(settings)
}

// unary converts a method to one of the transport.
func unary(m gatedMethod, implementation any, handle grpc.MethodHandler, interceptor grpc.UnaryServerInterceptor) h2.Method {
	return h2.Method{
		Announce: m.announce,
		Rejected: status.Convert(errOverloaded()),
		Serve: func(ctx context.Context, message, out []byte) ([]byte, error) {
			response, err := handle(implementation, ctx, func(v any) error { return unmarshal(message, v) }, interceptor)
			if err != nil {
				return nil, err
			}
			return appendMessage(out, response)
		},
		Fail: func(ctx context.Context, err error) {
			_, _ = handle(implementation, ctx, func(any) error { return err }, interceptor) // it returns err
		},
	}
}

// unmarshal decodes the message of a call. The error is the one of grpc-go.
func unmarshal(message []byte, v any) (err error) {
	if received, is := v.(*call); is {
		err = received.request.decode(message)
	} else {
		err = proto.Unmarshal(message, v.(proto.Message)) //nolint:forcetypeassert // the methods have only messages
	}
	if err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

// appendMessage appends the response of a call, and releases it.
func appendMessage(out []byte, response any) ([]byte, error) {
	if answered, is := response.(*call); is {
		out = append(out, answered.response...)
		answered.release()
		return out, nil
	}
	out, err := proto.MarshalOptions{}.MarshalAppend(out, response.(proto.Message)) //nolint:forcetypeassert // the methods have only messages
	if err != nil {
		return nil, fmt.Errorf("marshal the response: %w", err)
	}
	return out, nil
}
