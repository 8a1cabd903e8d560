package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// answers are recorded responses of a limiter. The baseline sends them for all requests.
type answers struct {
	RLS   []byte     `json:"rls"` // a RateLimitResponse
	Check httpAnswer `json:"check"`
	Auth  httpAnswer `json:"auth"`
}

type httpAnswer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// runBaseline serves the answers, given as JSON, over gRPC and over HTTP, with its metrics, until ctx is done.
func runBaseline(ctx context.Context, grpcAddress, httpAddress, text string) error {
	var a answers
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return fmt.Errorf("answers %s: %w", text, err)
	}
	rls := &baseline{answer: &ratelimitv3.RateLimitResponse{}}
	if err := proto.Unmarshal(a.RLS, rls.answer); err != nil {
		return fmt.Errorf("answer %x: %w", a.RLS, err)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", grpcAddress)
	if err != nil {
		return err
	}
	overGRPC := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(overGRPC, rls)
	overHTTP := &http.Server{Addr: httpAddress, Handler: baselineHandler(a), ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 2)
	go func() { failed <- overGRPC.Serve(listener) }()
	go func() { failed <- overHTTP.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		overGRPC.Stop()
		return overHTTP.Close()
	}
}

// baseline responds to each request with the same message.
type baseline struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	answer *ratelimitv3.RateLimitResponse
}

// ShouldRateLimit implements ratelimitv3.RateLimitServiceServer.
func (f *baseline) ShouldRateLimit(context.Context, *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return f.answer, nil
}

func baselineHandler(a answers) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			metrics.ServeHTTP(w, r)
		case checkPath:
			_, _ = io.Copy(io.Discard, r.Body) // the client reports an incomplete body
			a.Check.write(w)
		default:
			a.Auth.write(w)
		}
	})
}

func (a *httpAnswer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client reports a closed connection
}
