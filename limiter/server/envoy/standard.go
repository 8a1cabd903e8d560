package envoy

import (
	"context"
	"fmt"
	"net"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/server/h2"
)

// standard is the server of grpc-go with the methods of the endpoints.
type standard struct {
	server *grpc.Server
	open   *overload.Pool // calls of all connections
}

const (
	// maxOpenCalls bounds the calls of the process that are open at a time. Each of them can have 64 KiB of an incomplete message, and a goroutine.
	maxOpenCalls = 1024
	streamWindow = 64 << 10
)

// newStandard returns the standard transport.
func newStandard(methods map[string]h2.Method, health *healthEndpoint, o *Options) transport {
	s := &standard{open: overload.NewPool(maxOpenCalls)}
	recovered := recovery.WithRecoveryHandlerContext(func(_ context.Context, p any) error { return panicked(o.Log, p) })
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(wireCodec{encoding.GetCodecV2(proto.Name)}), grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(1 << 20), grpc.ConnectionTimeout(connectionTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: maxAge, MaxConnectionAgeGrace: maxAgeGrace, Time: keepaliveAfter, Timeout: keepaliveTimeout,
		}),
		grpc.StatsHandler(&connections{connect: connectTo(o.RateLimitGate), open: s.open}),
		grpc.ChainStreamInterceptor(recovery.StreamServerInterceptor(recovered), s.bound),
	}
	if o.Credentials != nil {
		options = append(options, grpc.Creds(o.Credentials))
	}
	s.server = grpc.NewServer(options...)
	services := map[string]*grpc.ServiceDesc{}
	for full := range methods {
		service, name, _ := strings.Cut(full[1:], "/")
		if services[service] == nil {
			services[service] = &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Metadata: serviceFiles()[service]}
		}
		services[service].Methods = append(services[service].Methods, grpc.MethodDesc{MethodName: name, Handler: s.handler(methods[full])})
	}
	for name, service := range services {
		if name == grpc_health_v1.Health_ServiceDesc.ServiceName {
			service.Streams = grpc_health_v1.Health_ServiceDesc.Streams
		}
		s.server.RegisterService(service, health)
	}
	if o.Reflection {
		reflection.Register(s.server)
	}
	return s
}

// serviceFiles returns the files that reflection reports, by service.
func serviceFiles() map[string]any {
	files := map[string]any{}
	for _, service := range []*grpc.ServiceDesc{
		&ratelimitv3.RateLimitService_ServiceDesc, &authv3.Authorization_ServiceDesc, &grpc_health_v1.Health_ServiceDesc,
	} {
		files[service.ServiceName] = service.Metadata
	}
	return files
}

// handler converts a method to one of grpc-go.
func (s *standard) handler(m h2.Method) grpc.MethodHandler {
	return func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		of, err := s.admit(ctx)
		if err != nil {
			return nil, err
		}
		defer s.open.Give(of, 1)
		if m.Announce != nil {
			var admitted bool
			if ctx, admitted = m.Announce(ctx); !admitted {
				return nil, m.Rejected.Err()
			}
		}
		var message encoded
		if err = read(&message); err == nil && m.MaxMessage > 0 && len(message) > m.MaxMessage {
			err = status.Errorf(codes.ResourceExhausted, "received message larger than max (%d vs. %d)", len(message), m.MaxMessage)
		}
		if err != nil {
			if m.Fail != nil {
				m.Fail(ctx, err)
			}
			return nil, err
		}
		out, err := m.Serve(ctx, message, nil)
		if err != nil {
			return nil, err //nolint:wrapcheck // it is the status of the call
		}
		return encoded(out), nil
	}
}

// bound is an interceptor that bounds the streams of the process.
func (s *standard) bound(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	of, err := s.admit(stream.Context())
	if err != nil {
		return err
	}
	defer s.open.Give(of, 1)
	return handle(service, stream)
}

// admit returns the share of an open call. It rejects compressed calls, as the fast transport does: grpc-go accepts encodings that any package registers.
func (s *standard) admit(ctx context.Context) (*overload.Share, error) {
	stream, is := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	if is && stream.RecvCompress() != "" && stream.RecvCompress() != encoding.Identity {
		return nil, status.Error(codes.Unimplemented, "the message is compressed")
	}
	of := ctx.Value(openShare{}).(*overload.Share) //nolint:forcetypeassert // each connection has one
	if !s.open.Take(of, 1) {
		return nil, status.Error(codes.ResourceExhausted, "the limiter has too many open calls")
	}
	return of, nil
}

// encoded is a message in wire format.
type encoded []byte

// wireCodec is the codec of gRPC for protobuf, which passes encoded messages through. Marshal and Unmarshal implement encoding.CodecV2.
type wireCodec struct{ encoding.CodecV2 }

func (c wireCodec) Marshal(v any) (mem.BufferSlice, error) {
	if message, is := v.(encoded); is {
		return mem.BufferSlice{mem.SliceBuffer(message)}, nil
	}
	return c.CodecV2.Marshal(v) //nolint:wrapcheck // it is this codec
}

func (c wireCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if message, is := v.(*encoded); is {
		*message = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v) //nolint:wrapcheck // it is this codec
}

// connections gives each connection its shares of the bounds.
type connections struct {
	connect func(context.Context) context.Context
	open    *overload.Pool
}

// openShare is the key of the share of maxOpenCalls in the context of a connection.
type openShare struct{}

// TagConn, TagRPC, HandleConn and HandleRPC implement stats.Handler.
func (c *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(c.connect(ctx), openShare{}, c.open.Share())
}
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (*connections) HandleConn(context.Context, stats.ConnStats)                     {}
func (*connections) HandleRPC(context.Context, stats.RPCStats)                       {}

// Serve implements transport.
func (s *standard) Serve(listener net.Listener) error {
	if err := s.server.Serve(listener); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return h2.ErrStopped
}

// Shutdown implements transport.
func (s *standard) Shutdown(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.server.GracefulStop()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.server.Stop()
		<-ended
		return context.Cause(ctx)
	}
}
