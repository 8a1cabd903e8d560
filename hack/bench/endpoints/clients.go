package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	checkPath = "/v1/check"
	authPath  = "/v1/auth/"
)

// ask asks about one key, on the connection of a caller.
type ask func(ctx context.Context, caller, key int) (allowed bool, err error)

func tenant(key int) string { return fmt.Sprintf("tenant-%07d", key) }

// openRLS asks as Envoy does, with one descriptor of one entry.
func openRLS(at *server, s settings, domain string) (ask, error) {
	clients := make([]ratelimitv3.RateLimitServiceClient, s.connections)
	for i := range clients {
		connection, err := grpc.NewClient(at.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", at.grpc, err)
		}
		clients[i] = ratelimitv3.NewRateLimitServiceClient(connection)
	}
	return func(ctx context.Context, caller, key int) (bool, error) {
		out, err := clients[caller%len(clients)].ShouldRateLimit(ctx, rlsRequest(domain, key))
		return out.GetOverallCode() == ratelimitv3.RateLimitResponse_OK, err
	}, nil
}

func rlsRequest(domain string, key int) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: domain, Descriptors: []*descriptorv3.RateLimitDescriptor{{
		Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: tenant(key)}},
	}}}
}

func openCheck(at *server, s settings, domain string) (ask, error) {
	return overHTTP(s, func(ctx context.Context, key int) (*http.Request, error) { return checkRequest(ctx, at, domain, key) })
}

func checkRequest(ctx context.Context, at *server, domain string, key int) (*http.Request, error) {
	body := `{"domain":"` + domain + `","method":"GET","path":"/orders","headers":{"x-tenant-id":"` + tenant(key) + `"}}`
	return http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at.http+checkPath, strings.NewReader(body))
}

func openAuth(at *server, s settings, domain string) (ask, error) {
	return overHTTP(s, func(ctx context.Context, key int) (*http.Request, error) { return authRequest(ctx, at, domain, key) })
}

func authRequest(ctx context.Context, at *server, domain string, key int) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.http+authPath+domain, nil)
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{
		"X-Forwarded-Method": {http.MethodGet}, "X-Forwarded-Uri": {"/orders"}, "X-Forwarded-Host": {"shop.example"}, "X-Tenant-Id": {tenant(key)},
	}
	return request, nil
}

// overHTTP gives every caller a connection, which is kept.
func overHTTP(s settings, request func(ctx context.Context, key int) (*http.Request, error)) (ask, error) {
	transports := make([]*http.Transport, s.callers)
	for i := range transports {
		transports[i] = &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
	}
	return func(ctx context.Context, caller, key int) (bool, error) {
		r, err := request(ctx, key)
		if err != nil {
			return false, err
		}
		got, err := roundTrip(transports[caller], r)
		if err == nil && got.Status != http.StatusOK && got.Status != http.StatusTooManyRequests {
			err = fmt.Errorf("%s %s: %d: %s", r.Method, r.URL, got.Status, got.Body)
		}
		return got.Status == http.StatusOK, err
	}, nil
}

func roundTrip(transport http.RoundTripper, r *http.Request) (httpAnswer, error) {
	response, err := transport.RoundTrip(r)
	if err != nil {
		return httpAnswer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return httpAnswer{Status: response.StatusCode, Header: response.Header, Body: body}, err
}
