package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ratelimitcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/otlptest"
)

const (
	// traceparent has the flag of a sampled request.
	traceOfCaller = "0af7651916cd43dd8448eb211c80319c"
	spanOfCaller  = "b7ad6b7169203331"
	traceparent   = "00-" + traceOfCaller + "-" + spanOfCaller + "-01"
	// customer is an identifier, which no span may contain.
	customer = "customer-4711"
)

// serveTraced runs weir serve with counters in Redis, and returns its URLs and the address of its gRPC endpoint.
func serveTraced(t *testing.T, tracing flags.Tracing) (base, ops, grpcAddress string) {
	t.Helper()
	dir := t.TempDir()
	save(t, filepath.Join(dir, "tenant.yaml"), tenantPolicy("2"))
	save(t, filepath.Join(dir, "calls.yaml"), `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: calls, namespace: edge}
spec: {axis: Tenant, limit: 2, window: 1h, identifier: {descriptor: tenant}}
`)
	sockets := anyPort
	sockets.tracing = tracing
	var err error
	if sockets.grpc, err = fixture.FreeAddr(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := serveFlags{policies: dir, redis: fixture.Redis(t).URL(), counters: countersOf("weir:"), sockets: sockets}
	var stdout, log Transcript
	launch(t, func(ctx context.Context) error { return runServe(ctx, f, &stdout, log.Logger()) })
	base = find(t, &stdout, `at (http://127\.0\.0\.1:[0-9]+)/v1/check`)
	return base, find(t, &stdout, `metrics and probes at (http://127\.0\.0\.1:[0-9]+)\n`), sockets.grpc
}

// checkTraced sends a request of the customer with a trace context.
func checkTraced(t *testing.T, base string) (status int) {
	t.Helper()
	body := `{"domain":"shop","path":"/orders/` + customer + `","headers":{"x-tenant-id":"` + customer + `"}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/check", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", traceparent)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}

// callTraced calls the rate limit service with a trace context.
func callTraced(t *testing.T, address string) {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent)
	_, err = ratelimitv3.NewRateLimitServiceClient(connection).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain: "edge",
		Descriptors: []*ratelimitcommonv3.RateLimitDescriptor{{
			Entries: []*ratelimitcommonv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: customer}},
		}},
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
}

func TestTracing_FollowsRequestsFromTheirCallerToRedis(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	collector := otlptest.StartCollector(t)
	base, ops, address := serveTraced(t, flags.Tracing{Endpoint: collector.URL})
	if status := checkTraced(t, base); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	callTraced(t, address)
	var spans []otlptest.CollectedSpan
	fixture.Await(t, "the spans of two requests", func() bool {
		spans = collector.Spans(traceOfCaller)
		return len(spans) >= 8
	})
	byID := map[string]otlptest.CollectedSpan{}
	for _, s := range spans {
		byID[s.ID] = s
	}
	var paths []string
	for _, s := range spans {
		path := s.Name
		for parent := s; parent.Parent != spanOfCaller; path = parent.Name + " > " + path {
			found, known := byID[parent.Parent]
			if !known || parent.Start < found.Start || parent.End > found.End {
				t.Fatalf("%s has the parent %q, known: %v, or is not within it", parent.Name, parent.Parent, known)
			}
			parent = found
		}
		paths = append(paths, s.Kind+" "+path)
	}
	slices.Sort(paths)
	const rls = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	want := []string{
		"CLIENT /v1/check > spend > EVALSHA", "CLIENT " + rls + " > spend > EVALSHA",
		"INTERNAL /v1/check > match", "INTERNAL /v1/check > spend", "INTERNAL " + rls + " > match", "INTERNAL " + rls + " > spend",
		"SERVER /v1/check", "SERVER " + rls,
	}
	if !slices.Equal(paths, want) {
		t.Errorf("spans\n%s\nwant\n%s", strings.Join(paths, "\n"), strings.Join(want, "\n"))
	}
	wantAttributes(t, spans)
	wantExemplar(t, ops)
}

// wantAttributes checks the attributes of the span of /v1/check, and that no span contains the identifier.
func wantAttributes(t *testing.T, spans []otlptest.CollectedSpan) {
	t.Helper()
	for _, s := range spans {
		for name, value := range s.Attributes {
			if strings.Contains(name+value+s.Name, customer) || strings.Contains(value, "weir:") {
				t.Errorf("span %s contains an identifier or a key: %s is %q", s.Name, name, value)
			}
		}
		if s.Name != "/v1/check" {
			continue
		}
		for name, value := range map[string]string{
			"http.request.method": "POST", "http.route": "/v1/check", "http.response.status_code": "200", "weir.endpoint": "check", "weir.result": "allowed",
			"weir.policy": "shop/tenant", "weir.axis": "Tenant", "weir.limit": "2", "weir.remaining": "1", "weir.source": "redis",
		} {
			if s.Attributes[name] != value {
				t.Errorf("%s is %q, want %q", name, s.Attributes[name], value)
			}
		}
	}
}

// wantExemplar checks that the latency of the request names its trace, in the formats that have exemplars.
func wantExemplar(t *testing.T, ops string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ops+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(text), `# {trace_id="`+traceOfCaller+`"}`) {
		t.Errorf("no exemplar (%v) in\n%s", err, text)
	}
	if _, plain := get(t, ops+"/metrics"); strings.Contains(plain, "trace_id") || !strings.Contains(plain, "weir_trace_spans_total ") {
		t.Error("the text format has an exemplar, or no count of spans")
	}
}

func TestTracing_IsOffByDefault(t *testing.T) {
	collector := otlptest.StartCollector(t)
	base, ops, address := serveTraced(t, flags.Tracing{})
	checkTraced(t, base)
	callTraced(t, address)
	if _, text := get(t, ops+"/metrics"); !strings.Contains(text, "weir_trace_spans_total 0\n") || collector.Count() != 0 {
		t.Error("spans were made")
	}
}
