package endpoints_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-dev/weir/test/fixture"
)

// drains sends SIGTERM while both sockets have something under way that outlasts the drain: a request that waits for its turn,
// and a call whose message has not come yet.
func drains(t *testing.T, s *serving) {
	conn := s.dialKnown(t)
	watching, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := watching.Recv(); err != nil || now.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("before: %v, %v", now, err)
	}
	call, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	// What is answered on the same connection came after the call.
	if _, err := health(t, conn); err != nil {
		t.Fatal(err)
	}
	held := holdUp(t, s)

	began, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- s.process.Stop() }()
	if now, err := watching.Recv(); err != nil || now.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("after SIGTERM: %v, %v", now, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, s.ops+"/readyz", http.StatusServiceUnavailable); err != nil {
		t.Error(err)
	}
	if a := s.ask(t, http.MethodPost, "/v1/check", `{"domain":"shop","host":"ip.example","clientIP":"192.0.2.40"}`, nil); a.status != http.StatusOK {
		t.Errorf("while it drains: %+v", a)
	}
	if now, err := watching.Recv(); err == nil { // it ends when no new calls are taken any more
		t.Errorf("after the drain: %v", now)
	}
	if passed := time.Since(began); passed < drain {
		t.Errorf("no new calls are taken %v after SIGTERM", passed)
	}
	if err := errors.Join(call.SendMsg(login("192.0.2.41")), call.CloseSend()); err != nil {
		t.Errorf("the call under way: %v", err)
	}
	var answer ratelimitv3.RateLimitResponse
	if err := call.RecvMsg(&answer); err != nil || answer.GetOverallCode() != ratelimitv3.RateLimitResponse_OK {
		t.Errorf("the call under way: %v, %v", &answer, err)
	}
	if a := <-held; a.status != http.StatusOK {
		t.Errorf("the request under way: %+v", a)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	for _, place := range []string{strings.TrimPrefix(s.http, "http://"), s.rpc, strings.TrimPrefix(s.ops, "http://")} {
		if c, err := net.DialTimeout("tcp", place, patience); err == nil {
			c.Close()
			t.Errorf("%s takes connections afterwards", place)
		}
	}
}

// holdUp asks for what has to wait for its turn, and returns when it is counted: the answer comes a second later.
func holdUp(t *testing.T, s *serving) <-chan answered {
	t.Helper()
	question := func() answered {
		return s.ask(t, http.MethodGet, "/v1/auth/shop", "", http.Header{
			"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}, "X-Forwarded-Host": {"slow.example"}, "X-Forwarded-For": {"192.0.2.42"},
			"X-Tenant-Id": {"acme"},
		})
	}
	if a := question(); a.status != http.StatusOK {
		t.Fatalf("the first: %+v", a)
	}
	held := make(chan answered, 1)
	go func() { held <- question() }()
	fixture.Await(t, "the second is counted", func() bool {
		a := s.ask(t, http.MethodPost, "/v1/check",
			`{"domain":"shop","peek":true,"host":"slow.example","path":"/","headers":{"x-tenant-id":"acme"}}`, nil)
		return strings.Contains(a.body, `"remaining":2,`)
	})
	return held
}
