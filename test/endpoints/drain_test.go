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

// drainsBothServers sends SIGTERM while both servers have a request in flight that takes longer than the drain: a delayed HTTP request,
// and a gRPC call whose message has not been sent yet.
func drainsBothServers(t *testing.T, s *serving) {
	conn := s.dialAsKnownClient(t)
	if now, err := health(t, conn); err != nil || now != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("health before SIGTERM: %v, %v", now, err)
	}
	call, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	// The response to a later call on the same connection proves that the first call has arrived.
	if _, err := health(t, conn); err != nil {
		t.Fatal(err)
	}
	held := sendDelayed(t, s)

	began, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- s.process.Stop() }()
	fixture.Await(t, "health after SIGTERM is NOT_SERVING", func() bool {
		now, err := health(t, conn)
		return err == nil && now == grpc_health_v1.HealthCheckResponse_NOT_SERVING
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, s.ops+"/readyz", http.StatusServiceUnavailable); err != nil {
		t.Error(err)
	}
	if a := s.send(t, http.MethodPost, "/v1/check", `{"domain":"shop","host":"ip.example","clientIP":"192.0.2.40"}`, nil); a.status != http.StatusOK {
		t.Errorf("a request during the drain: %+v", a)
	}
	fixture.Await(t, "the server rejects new calls", func() bool {
		_, err := health(t, conn)
		return err != nil
	})
	if passed := time.Since(began); passed < drain {
		t.Errorf("the server rejects new calls %v after SIGTERM, want at least %v", passed, drain)
	}
	if err := errors.Join(call.SendMsg(login("192.0.2.41")), call.CloseSend()); err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	var answer ratelimitv3.RateLimitResponse
	if err := call.RecvMsg(&answer); err != nil || answer.GetOverallCode() != ratelimitv3.RateLimitResponse_OK {
		t.Errorf("the call in flight: %v, %v", &answer, err)
	}
	if a := <-held; a.status != http.StatusOK {
		t.Errorf("the request in flight: %+v", a)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	for _, place := range []string{strings.TrimPrefix(s.http, "http://"), s.rpc, strings.TrimPrefix(s.ops, "http://")} {
		if c, err := net.DialTimeout("tcp", place, patience); err == nil {
			c.Close()
			t.Errorf("%s accepts connections after the drain", place)
		}
	}
}

// sendDelayed sends a request that is delayed, and returns when it is counted. The response follows a second later.
func sendDelayed(t *testing.T, s *serving) <-chan httpResponse {
	t.Helper()
	send := func() httpResponse {
		return s.send(t, http.MethodGet, "/v1/auth/shop", "", http.Header{
			"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}, "X-Forwarded-Host": {"slow.example"}, "X-Forwarded-For": {"192.0.2.42"},
			"X-Tenant-Id": {"acme"},
		})
	}
	if a := send(); a.status != http.StatusOK {
		t.Fatalf("the first: %+v", a)
	}
	held := make(chan httpResponse, 1)
	go func() { held <- send() }()
	fixture.Await(t, "the second is counted", func() bool {
		a := s.send(t, http.MethodPost, "/v1/check",
			`{"domain":"shop","peek":true,"host":"slow.example","path":"/","headers":{"x-tenant-id":"acme"}}`, nil)
		return strings.Contains(a.body, `"remaining":2,`)
	})
	return held
}
