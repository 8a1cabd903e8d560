package examples_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-dev/weir/go/grpclimit"
	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
)

func Example_netHTTP() {
	limiter := memoryLimiter()
	defer limiter.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/", serve)
	fmt.Println(statusesOf(limiter.Handler(mux)))
	// Output: [200 200 429]
}

func Example_chi() {
	limiter := memoryLimiter()
	defer limiter.Close()
	router := chi.NewRouter()
	router.Use(httplimit.Middleware(limiter.Gate()))
	router.Get("/", serve)
	fmt.Println(statusesOf(router))
	// Output: [200 200 429]
}

// Gin has middleware of its own form: limiter.Handler limits all routes from outside.
func Example_gin() {
	limiter := memoryLimiter()
	defer limiter.Close()
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.GET("/", gin.WrapF(serve))
	fmt.Println(statusesOf(limiter.Handler(router)))
	// Output: [200 200 429]
}

func Example_echo() {
	limiter := memoryLimiter()
	defer limiter.Close()
	router := echo.New()
	router.Use(echo.WrapMiddleware(httplimit.Middleware(limiter.Gate())))
	router.GET("/", echo.WrapHandler(http.HandlerFunc(serve)))
	fmt.Println(statusesOf(router))
	// Output: [200 200 429]
}

// Policies see a call of Connect as the HTTP request that it is.
func Example_connect() {
	limiter := memoryLimiter()
	defer limiter.Close()
	procedure := connect.NewUnaryHandler("/shop.v1.Search/Query", func(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
		return connect.NewResponse(&emptypb.Empty{}), nil
	})
	server := httptest.NewServer(limiter.Handler(procedure))
	defer server.Close()
	client := connect.NewClient[emptypb.Empty, emptypb.Empty](server.Client(), server.URL+"/shop.v1.Search/Query")
	for range 3 {
		_, err := client.CallUnary(context.Background(), connect.NewRequest(&emptypb.Empty{}))
		fmt.Println(err == nil, connect.CodeOf(err))
	}
	// Output:
	// true unknown
	// true unknown
	// false unavailable
}

func Example_gRPC() {
	limiter := memoryLimiter()
	defer limiter.Close()
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(limiter.Gate())),
		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(limiter.Gate())))
	defer server.Stop()
	client := serveGRPC(server)
	for range 3 {
		_, err := client.EmptyCall(context.Background(), &grpc_testing.Empty{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// memoryLimiter returns a Limiter with one policy. A program reads its policies with weir.LoadDir("policies").
func memoryLimiter() *weir.Limiter {
	policies, err := weir.Parse([]byte(`
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: shop, name: per-client}
spec: {axis: IP, limit: 2, window: 1m, algorithm: SlidingWindowLog}
`))
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := weir.NewMemory(policies)
	if err != nil {
		log.Fatal(err)
	}
	return limiter
}

func serve(http.ResponseWriter, *http.Request) {}

// statusesOf returns the statuses of three requests.
func statusesOf(h http.Handler) (statuses []int) {
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		statuses = append(statuses, w.Code)
	}
	return statuses
}

// serveGRPC starts server and returns a client of it.
func serveGRPC(server *grpc.Server) grpc_testing.TestServiceClient {
	grpc_testing.RegisterTestServiceServer(server, service{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return grpc_testing.NewTestServiceClient(connection)
}

type service struct {
	grpc_testing.UnimplementedTestServiceServer
}

func (service) EmptyCall(context.Context, *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	return &grpc_testing.Empty{}, nil
}
