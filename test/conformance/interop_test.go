package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/limiter/server/h2"
)

// aborting makes the interop tests panic where they would end the process, so that only the failed test ends. It logs nothing else.
type aborting struct{ grpclog.LoggerV2 }

func (aborting) FatalDepth(_ int, args ...any) { panic(fmt.Sprint(args...)) }
func (aborting) InfoDepth(int, ...any)         {}
func (aborting) WarningDepth(int, ...any)      {}
func (aborting) ErrorDepth(int, ...any)        {}

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(aborting{grpclog.NewLoggerV2(os.Stderr, os.Stderr, os.Stderr)})
	goleak.VerifyTestMain(m)
}

// client is the connection of an interop test.
type client struct {
	conn *grpc.ClientConn
	test testgrpc.TestServiceClient
}

// withOptions is a test with call options.
func withOptions(test func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, client) {
	return func(ctx context.Context, c client) { test(ctx, c.test) }
}

// cases are the interop tests of unary calls without metadata and credentials, by the names in https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md.
func cases() map[string]func(context.Context, client) {
	return map[string]func(context.Context, client){
		"empty_unary":            withOptions(interop.DoEmptyUnaryCall),
		"large_unary":            withOptions(interop.DoLargeUnaryCall),
		"special_status_message": withOptions(interop.DoSpecialStatusMessage),
		"unimplemented_method":   func(ctx context.Context, c client) { interop.DoUnimplementedMethod(ctx, c.conn) },
		"unimplemented_service": func(ctx context.Context, c client) {
			interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(c.conn))
		},
	}
}

func TestInterop_ClientsOfGRPCAreServed(t *testing.T) {
	for name, test := range cases() {
		t.Run(name, func(t *testing.T) {
			c := dial(t, serveInterop(t, unary()))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			defer func() {
				if failure := recover(); failure != nil {
					t.Error(failure)
				}
			}()
			test(ctx, c)
		})
	}
}

func dial(t *testing.T, address net.Addr) client {
	t.Helper()
	conn, err := grpc.NewClient(address.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return client{conn, testgrpc.NewTestServiceClient(conn)}
}

// unary returns the unary methods of the interop tests, for the transport.
func unary() map[string]h2.Method {
	service := interop.NewTestServer()
	return map[string]h2.Method{
		testgrpc.TestService_EmptyCall_FullMethodName: method(service.EmptyCall, &testgrpc.Empty{}),
		testgrpc.TestService_UnaryCall_FullMethodName: method(service.UnaryCall, &testgrpc.SimpleRequest{}),
	}
}

// method decodes a request like the one given, calls f, and encodes the response.
func method[In, Out proto.Message](f func(context.Context, In) (Out, error), like In) h2.Method {
	serve := func(ctx context.Context, message, out []byte) ([]byte, error) {
		in, _ := like.ProtoReflect().New().Interface().(In)
		if err := proto.Unmarshal(message, in); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		response, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return proto.MarshalOptions{}.MarshalAppend(out, response)
	}
	return h2.Method{Serve: serve}
}

// serveInterop runs the server of the interop tests until the test ends.
func serveInterop(t *testing.T, methods map[string]h2.Method) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := h2.New(h2.Options{
		Methods: methods, MaxMessage: 1 << 20, MaxHeaders: 32 << 10, MaxStreams: 1024, Buffers: 32 << 20,
		ConnectionTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, KeepaliveAfter: time.Minute, KeepaliveTimeout: 10 * time.Second,
		MinPing: 10 * time.Second, MaxAge: time.Hour, MaxAgeGrace: time.Minute,
	})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, h2.ErrStopped) {
			t.Error(err)
		}
	})
	return listener.Addr()
}
