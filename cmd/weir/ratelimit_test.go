package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/internal/ratelimitservice"
	"github.com/weir-dev/weir/test/fixture"
)

// controlPlane is an xDS server as that of Envoy Gateway: the same library, and the same kind of snapshots.
type controlPlane struct {
	t       *testing.T
	address string
	config  *tls.Config // nil without TLS
	cache   cachev3.SnapshotCache
	server  *grpc.Server
	nacks   chan string
	version int
}

func startControlPlane(t *testing.T, config *tls.Config) *controlPlane {
	t.Helper()
	c := &controlPlane{t: t, address: "127.0.0.1:0", config: config, nacks: make(chan string, 10)}
	c.start()
	t.Cleanup(func() { c.server.Stop() })
	return c
}

// start starts the server without a snapshot, as after a restart of Envoy Gateway.
func (c *controlPlane) start() {
	c.t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(c.t.Context(), "tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.address, c.version, c.cache = listener.Addr().String(), 0, cachev3.NewSnapshotCache(false, cachev3.IDHash{}, nil)
	var options []grpc.ServerOption
	if c.config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c.config)))
	}
	c.server = grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(c.server, serverv3.NewServer(context.Background(), c.cache, serverv3.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discoveryv3.DiscoveryRequest) error {
			if r.GetErrorDetail() != nil {
				c.nacks <- r.GetErrorDetail().GetMessage()
			}
			return nil
		},
	}))
	server := c.server
	go func() { _ = server.Serve(listener) }()
}

// publish replaces the configuration.
func (c *controlPlane) publish(configs ...types.Resource) {
	c.t.Helper()
	c.version++
	snapshot, err := cachev3.NewSnapshot(strconv.Itoa(c.version), map[resourcev3.Type][]types.Resource{resourcev3.RateLimitConfigType: configs})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cache.SetSnapshot(context.Background(), "envoy-ratelimit", snapshot); err != nil {
		c.t.Fatal(err)
	}
}

// limited returns the configuration of a domain as Envoy Gateway writes it for a rule without selectors: a limit per hour.
func limited(domain string, perHour uint32) *ratelimitv3.RateLimitConfig {
	const route = "httproute/default/backend/rule/0/match/0/*"
	return &ratelimitv3.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{{
		Key: route, Value: route, Descriptors: []*ratelimitv3.RateLimitDescriptor{{
			Key: "rule-0-match--1", Value: "rule-0-match--1", RateLimit: &ratelimitv3.RateLimitPolicy{Unit: ratelimitv3.RateLimitUnit_HOUR, RequestsPerUnit: perHour},
		}},
	}}}
}

// service is a running weir ratelimit.
type service struct {
	t                          *testing.T
	log                        *Transcript
	grpc, http, metrics, debug string
	rls                        rlsv3.RateLimitServiceClient
	conn                       *grpc.ClientConn
	stop                       context.CancelFunc
}

// startService runs weir ratelimit with the variables that Envoy Gateway sets, other addresses, and more variables.
func startService(t *testing.T, plane *controlPlane, redis string, client credentials.TransportCredentials, more map[string]string, change ...func(*rateLimitFlags)) *service {
	t.Helper()
	environ := map[string]string{
		"RUNTIME_ROOT": "/data", "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_IGNOREDOTFILES": "true", "RUNTIME_WATCH_ROOT": "false",
		"LOG_LEVEL": "info", "USE_STATSD": "false", "CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": plane.address,
		"CONFIG_GRPC_XDS_NODE_ID": "envoy-ratelimit", "FORCE_START_WITHOUT_INITIAL_CONFIG": "true", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": redis,
		"USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": "127.0.0.1:0", "PROMETHEUS_MAPPER_YAML": "/etc/statsd-exporter/conf.yaml",
		"HOST": "127.0.0.1", "PORT": "0", "GRPC_HOST": "127.0.0.1", "GRPC_PORT": "0", "DEBUG_PORT": "0",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "10ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL": "50ms", "REDIS_FLAVOR": "new",
	}
	maps.Copy(environ, more)
	var variables []string
	for name, value := range environ {
		variables = append(variables, name+"="+value)
	}
	settings, err := ratelimitservice.ParseEnvironment(variables)
	if err != nil {
		t.Fatal(err)
	}
	f := rateLimitFlags{counters: countersOf("weir:"), algorithm: "FixedWindow", onStoreFailure: "Deny"}
	for _, c := range change {
		c(&f)
	}
	s := &service{t: t, log: &Transcript{}}
	launch(t, func(ctx context.Context) error {
		ctx, s.stop = context.WithCancel(ctx)
		return runRateLimit(ctx, f, &settings, s.log.Logger())
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", s.log)
		}
	})
	s.grpc, s.http = find(t, s.log, ` grpc=(\S+)`), "http://"+find(t, s.log, ` http=(\S+)`)
	s.metrics, s.debug = "http://"+find(t, s.log, ` metrics=(\S+)`), "http://"+find(t, s.log, ` debug=(\S+)`)
	if client == nil {
		client = insecure.NewCredentials()
	}
	if s.conn, err = grpc.NewClient(s.grpc, grpc.WithTransportCredentials(client)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	s.rls = rlsv3.NewRateLimitServiceClient(s.conn)
	return s
}

// ask asks as an Envoy of Envoy Gateway does, and returns for example "OK 2", "OVER_LIMIT 0", "OK -" without a limit, or the code of an error.
func (s *service) ask(domain string) string {
	s.t.Helper()
	const route = "httproute/default/backend/rule/0/match/0/*"
	answer, err := s.rls.ShouldRateLimit(s.t.Context(), &rlsv3.RateLimitRequest{Domain: domain, Descriptors: []*descriptorv3.RateLimitDescriptor{{
		Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: route, Value: route}, {Key: "rule-0-match--1", Value: "rule-0-match--1"}},
	}}})
	if err != nil {
		return status.Code(err).String()
	}
	of := answer.GetStatuses()[0]
	if of.GetCurrentLimit() == nil {
		return answer.GetOverallCode().String() + " -"
	}
	return fmt.Sprintf("%v %d", answer.GetOverallCode(), of.GetLimitRemaining())
}

func (s *service) await(domain, want string) {
	s.t.Helper()
	got := ""
	fixture.Await(s.t, domain+" is answered with "+want, func() bool {
		got = s.ask(domain)
		return got == want
	})
}

// awaitConfig waits until the limit of a domain is active, without a request that counts.
func (s *service) awaitConfig(domain string, perHour int) {
	s.t.Helper()
	want := fmt.Sprintf("%s.httproute/default/backend/rule/0/match/0/*=.rule-0-match--1=: %d per 1h0m0s", domain, perHour)
	fixture.Await(s.t, want, func() bool {
		_, config := fetch(s.t, s.debug+"/rlconfig")
		return strings.Contains("\n"+config, "\n"+want+",")
	})
}

func (s *service) expect(domain string, want ...string) {
	s.t.Helper()
	for i, w := range want {
		if got := s.ask(domain); got != w {
			s.t.Errorf("request %d of %s: %s, want %s", i+1, domain, got, w)
		}
	}
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestRateLimit_EnforcesTheConfigurationOfTheServer(t *testing.T) {
	plane := startControlPlane(t, nil)
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil)
	if got := s.ask("default/eg/http"); got != "Unavailable" { // the failure mode of Envoy decides
		t.Errorf("without a configuration: %s", got)
	}
	plane.publish(limited("default/eg/http", 3), limited("default/policy", 0))
	s.await("default/policy", "OVER_LIMIT 0")
	s.expect("default/eg/http", "OK 2", "OK 1", "OK 0", "OVER_LIMIT 0", "OVER_LIMIT 0")
	s.expect("unknown", "OK -")
	// A higher limit: what was spent stays spent, also by requests over the limit.
	plane.publish(limited("default/eg/http", 7), limited("default/policy", 0))
	s.awaitConfig("default/eg/http", 7)
	s.expect("default/eg/http", "OK 1", "OK 0", "OVER_LIMIT 0")
	for _, want := range []string{
		"these environment variables are unknown and have no effect\" variables=REDIS_FLAVOR", "variables=\"FORCE_START_WITHOUT_INITIAL_CONFIG, PROMETHEUS_MAPPER_YAML",
		"activated limits", "connected to the xDS server",
	} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log does not contain %q", want)
		}
	}
}

func TestRateLimit_KeepsTheLastValidConfiguration(t *testing.T) {
	plane := startControlPlane(t, nil)
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil)
	plane.publish(limited("a", 100), limited("b", 100))
	s.await("a", "OK 99")
	s.expect("b", "OK 99")
	invalid := limited("a", 1)
	invalid.Descriptors[0].Descriptors[0].RateLimit.Unit = ratelimitv3.RateLimitUnit_UNKNOWN
	plane.publish(invalid, limited("b", 50))
	if nack := <-plane.nacks; nack != "descriptor 2 of domain a, in httproute/default/backend/rule/0/match/0/*: unit UNKNOWN is unknown; the units are second, minute, hour, day, week, month, year" {
		t.Errorf("rejected with %q", nack)
	}
	s.awaitConfig("b", 50) // the valid domain changed
	s.awaitConfig("a", 100)
	s.expect("b", "OK 48")
	s.expect("a", "OK 98")
	fixture.Await(t, "the metric counts it", func() bool {
		_, metrics := fetch(t, s.metrics+"/metrics")
		return strings.Contains(metrics, `weir_xds_responses_total{result="rejected"} 1`)
	})
	_, metrics := fetch(t, s.metrics+"/metrics")
	for _, want := range []string{
		`weir_xds_responses_total{result="rejected"} 1`, `weir_xds_responses_total{result="accepted"} 1`, "ratelimit_service_config_load_error 1", "weir_xds_connected 1",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("%s is not in the metrics", want)
		}
	}
	plane.publish(limited("a", 10), limited("b", 50))
	s.awaitConfig("a", 10)
	s.expect("a", "OK 7")
}

// A domain of Envoy Gateway is a listener with the routes of many owners. The service starts while one of them has an invalid limit, and
// another one has the limit that is usual for "unlimited".
func TestRateLimit_AnInvalidRouteLiftsNoLimitOfItsListener(t *testing.T) {
	plane := startControlPlane(t, nil)
	listener := limited("infra/public/https", 1)
	for route, limit := range map[string]*ratelimitv3.RateLimitPolicy{
		"httproute/invalid/x": {Unit: 99, RequestsPerUnit: 1}, "httproute/unlimited/x": {Unit: ratelimitv3.RateLimitUnit_HOUR, RequestsPerUnit: 4294967295},
	} {
		listener.Descriptors = append(listener.Descriptors, &ratelimitv3.RateLimitDescriptor{Key: route, Value: route, RateLimit: limit})
	}
	plane.publish(listener, limited("infra/other/https", 1))
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil)
	if nack := <-plane.nacks; !strings.Contains(nack, "in httproute/invalid/x: unit 99 is unknown") || strings.Contains(nack, "\n") {
		t.Errorf("rejected with %q", nack)
	}
	s.awaitConfig("infra/other/https", 1)
	s.expect("infra/public/https", "OK 0", "OVER_LIMIT 0")
	find(t, s.log, "(domain infra/public/https: the limits of httproute/invalid/x are invalid and left out)")
	find(t, s.log, "(domain infra/public/https: a limit of 4294967295 is above the maximum of Weir; 1000000000 applies)")
}

// The names of policies must be different: otherwise, no update could be activated any more.
func TestRateLimit_AmbiguousDescriptorsStopNoUpdate(t *testing.T) {
	plane := startControlPlane(t, nil)
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil)
	plane.publish(limited("a", 3))
	s.awaitConfig("a", 3)
	limit := &ratelimitv3.RateLimitPolicy{Unit: ratelimitv3.RateLimitUnit_HOUR, RequestsPerUnit: 1}
	plane.publish(limited("a", 7), &ratelimitv3.RateLimitConfig{Name: "b", Domain: "b", Descriptors: []*ratelimitv3.RateLimitDescriptor{
		{Key: "x=y", RateLimit: limit}, {Key: "x", Value: "y", RateLimit: limit},
	}})
	s.awaitConfig("a", 7)
}

func TestRateLimit_EnforcesWhileTheServerIsUnavailable(t *testing.T) {
	plane := startControlPlane(t, nil)
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil, func(f *rateLimitFlags) { f.keep = time.Hour })
	plane.publish(limited("a", 100), limited("b", 100))
	s.await("b", "OK 99")
	plane.server.Stop()
	fixture.Await(t, "the metric reports it", func() bool {
		_, metrics := fetch(t, s.metrics+"/metrics")
		return strings.Contains(metrics, "weir_xds_connected 0")
	})
	s.expect("a", "OK 99")
	find(t, s.log, "(lost the connection to the xDS server; the configuration that was accepted last stays active)")
	// The server is back, begins at version 1 again, and does not list all domains at first.
	plane.start()
	plane.publish(limited("a", 50))
	s.awaitConfig("a", 50)
	s.expect("a", "OK 48")
	s.expect("b", "OK 98")
	find(t, s.log, "(domain b is no longer in the configuration; its limits stay active for 1h0m0s)")
}

func TestRateLimit_RemovesDomainsThatAreRemoved(t *testing.T) {
	plane := startControlPlane(t, nil)
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil, func(f *rateLimitFlags) { f.keep = 50 * time.Millisecond })
	plane.publish(limited("a", 100), limited("b", 100))
	s.await("b", "OK 99")
	plane.publish(limited("a", 100))
	s.await("b", "OK -")
	s.expect("a", "OK 99")
	plane.publish()
	s.await("a", "OK -")
	find(t, s.log, "(no limit is enforced: all requests are allowed)")
}

func TestRateLimit_SlidingWindowsCountNoDeniedRequests(t *testing.T) {
	plane := startControlPlane(t, nil)
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil, func(f *rateLimitFlags) { f.algorithm = "SlidingWindowLog" })
	plane.publish(limited("a", 2))
	s.await("a", "OK 1")
	s.expect("a", "OK 0", "OVER_LIMIT 0", "OVER_LIMIT 0")
	plane.publish(limited("a", 3))
	s.awaitConfig("a", 3)
	s.expect("a", "OK 0", "OVER_LIMIT 0")
}

// Two domains have a limit of two, and one of them counts denied requests. With a limit of three, the other one has a unit left.
func TestRateLimit_ADescriptorChoosesItsAlgorithm(t *testing.T) {
	plane := startControlPlane(t, nil)
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil)
	sliding := func(perHour uint32) *ratelimitv3.RateLimitConfig {
		config := limited("sliding", perHour)
		config.Descriptors[0].Descriptors[0].Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			"weir.dev/algorithm": structpb.NewStringValue("SlidingWindowLog"),
		}}
		return config
	}
	plane.publish(limited("fixed", 2), sliding(2))
	s.await("fixed", "OK 1")
	s.expect("sliding", "OK 1")
	for _, domain := range []string{"fixed", "sliding"} {
		s.expect(domain, "OK 0", "OVER_LIMIT 0", "OVER_LIMIT 0")
	}
	plane.publish(limited("fixed", 3), sliding(3))
	s.awaitConfig("fixed", 3)
	s.awaitConfig("sliding", 3)
	s.expect("fixed", "OVER_LIMIT 0")
	s.expect("sliding", "OK 0", "OVER_LIMIT 0")
	invalid := sliding(5)
	invalid.Descriptors[0].Descriptors[0].Metadata.Fields["weir.dev/algorithm"] = structpb.NewStringValue("Guess")
	plane.publish(limited("fixed", 3), invalid)
	if nack := <-plane.nacks; !strings.Contains(nack, `metadata weir.dev/algorithm is "Guess", but must be one of FixedWindow, `) {
		t.Errorf("rejected with %q", nack)
	}
}

func TestRateLimit_HealthDoesNotDependOnRedis(t *testing.T) {
	plane, redis := startControlPlane(t, nil), fixture.Redis(t)
	s := startService(t, plane, redis.Addr(), nil, nil, func(f *rateLimitFlags) { f.drain = 2 * time.Second })
	strict := startService(t, plane, redis.Addr(), nil, map[string]string{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": "true"})
	configured := startService(t, plane, redis.Addr(), nil, map[string]string{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED": "true"})
	expect := func(of *service, want int) {
		t.Helper()
		fixture.Await(t, fmt.Sprint("the health check answers ", want), func() bool {
			got, _ := fetch(t, of.http+"/healthcheck")
			return got == want
		})
	}
	expect(s, 200)
	expect(strict, 200)
	expect(configured, 500)
	plane.publish(limited("a", 5))
	expect(configured, 200)
	s.await("a", "OK 4")
	redis.Kill()
	s.await("a", "Unavailable")
	expect(s, 200)
	expect(strict, 500)
	health, err := grpc_health_v1.NewHealthClient(s.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "ratelimit"})
	if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v %v", health, err)
	}
	if got, _ := fetch(t, s.http+"/v1/check"); got != 404 {
		t.Errorf("the HTTP check of a limiter answers %d", got)
	}
	s.stop()
	expect(s, 500) // while it drains
}

func TestRateLimit_UnavailableRedisCanBeDecidedLocally(t *testing.T) {
	plane, redis := startControlPlane(t, nil), fixture.Redis(t)
	s := startService(t, plane, redis.Addr(), nil, nil, func(f *rateLimitFlags) { f.onStoreFailure = "Local" })
	plane.publish(limited("a", 3))
	s.await("a", "OK 2")
	redis.Kill()
	s.await("a", "OVER_LIMIT 0")
}

func TestRateLimit_ReportsTheStatisticsOfTheService(t *testing.T) {
	plane := startControlPlane(t, nil)
	s := startService(t, plane, fixture.Redis(t).Addr(), nil, nil)
	plane.publish(limited("default/eg/http", 5))
	s.await("default/eg/http", "OK 4")
	s.expect("default/eg/http", "OK 3", "OK 2", "OK 1", "OK 0", "OVER_LIMIT 0", "OVER_LIMIT 0")
	_, err := s.rls.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{})
	if status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	const labels = `{domain="default/eg/http",key1="httproute/default/backend/rule/0/match/0/*_httproute/default/backend/rule/0/match/0/*",key2="rule-0-match--1_rule-0-match--1"}`
	_, metrics := fetch(t, s.metrics+"/metrics")
	for _, want := range []string{
		"# TYPE ratelimit_service_rate_limit_over_limit counter", "ratelimit_service_rate_limit_total_hits" + labels + " 7",
		"ratelimit_service_rate_limit_over_limit" + labels + " 2", "ratelimit_service_rate_limit_within_limit" + labels + " 5",
		"ratelimit_service_rate_limit_near_limit" + labels + " 1", "ratelimit_service_rate_limit_shadow_mode" + labels + " 0",
		`ratelimit_service_should_rate_limit_error{err_type="service_error"} 1`, "ratelimit_service_config_load_success 1",
		`weir_failed_requests_total{endpoint="rls",reason="invalid"} 1`, `weir_requests_total{code="INVALID_ARGUMENT",endpoint="rls"} 1`,
		`weir_requests_total{code="OVER_LIMIT",endpoint="rls"} 2`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("%s is not in the metrics", want)
		}
	}
	if got, stats := fetch(t, s.debug+"/stats"); got != 200 || !strings.Contains(stats,
		"ratelimit.service.rate_limit.default/eg/http.httproute/default/backend/rule/0/match/0/*_httproute/default/backend/rule/0/match/0/*.rule-0-match--1_rule-0-match--1.over_limit: 2\n") ||
		!strings.Contains(stats, "ratelimit.service.config_load_success: 1\n") {
		t.Errorf("%d %s", got, stats)
	}
	if _, config := fetch(t, s.debug+"/rlconfig"); config != "default/eg/http.httproute/default/backend/rule/0/match/0/*=.rule-0-match--1=: 5 per 1h0m0s, algorithm FixedWindow, shadow_mode: false\n" {
		t.Error(config)
	}
}

func TestServiceStats_DropTheSeriesOfRemovedLimits(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	stats := newServiceStats(registry, 0.8)
	for i := range 10 {
		limits := map[string]ratelimitservice.Limit{"kept": {Domain: "a", Key1: "kept"}, "renamed": {Domain: "a", Key1: fmt.Sprint("name-", i)}}
		for _, limit := range limits {
			stats.reference(limit)
		}
		stats.keep(limits)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), statPrefix+"rate_limit_") {
			continue
		}
		checked++
		var keys []string
		for _, metric := range family.GetMetric() {
			keys = append(keys, metric.GetLabel()[1].GetValue())
		}
		if !slices.Equal(keys, []string{"kept", "name-9"}) {
			t.Errorf("%s has %q", family.GetName(), keys)
		}
	}
	if checked != 5 {
		t.Errorf("checked %d metrics, want 5", checked)
	}
}

func TestRateLimit_UsesTheCertificatesOfEnvoyGateway(t *testing.T) {
	files := newFiles(t)
	server, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	client := clientConfig(t, files)
	plane := startControlPlane(t, &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: client.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert})
	anonymous := client.Clone()
	anonymous.Certificates = nil
	s := startService(t, plane, fixture.Redis(t).Addr(), credentials.NewTLS(anonymous), map[string]string{
		"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT": files.ClientCert, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": files.ClientKey,
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT": files.CA, "GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": files.ServerCert,
		"GRPC_SERVER_TLS_KEY": files.ServerKey, "GRPC_SERVER_TLS_CA_CERT": files.CA,
	})
	plane.publish(limited("a", 5))
	s.await("a", "OK 4") // no client certificate is required, as by the service
}

func TestRateLimit_UsesTLSAndCredentialsOfRedis(t *testing.T) {
	redis, files := fixture.RedisTLS(t, true)
	plane := startControlPlane(t, nil)
	s := startService(t, plane, redis.Addr(), nil, map[string]string{
		"REDIS_TLS": "true", "REDIS_TLS_CACERT": files.CA, "REDIS_TLS_CLIENT_CERT": files.ClientCert, "REDIS_TLS_CLIENT_KEY": files.ClientKey,
		"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": "true",
	})
	plane.publish(limited("a", 5))
	s.await("a", "OK 4")
	other := startService(t, plane, redis.Addr(), nil, map[string]string{ // the CA of the system did not sign the certificate
		"REDIS_TLS": "true", "REDIS_TLS_CLIENT_CERT": files.ClientCert, "REDIS_TLS_CLIENT_KEY": files.ClientKey, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": "true",
	})
	other.await("a", "Unavailable")
}

func TestArguments_ABinaryWithTheNameOfTheServiceRunsIt(t *testing.T) {
	for line, want := range map[string]string{
		"/bin/ratelimit": "ratelimit", "ratelimit --help": "ratelimit --help", "/weir lint x": "lint x", "/weir": "", "./weir ratelimit": "ratelimit",
	} {
		if got := strings.Join(arguments(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestRateLimitFlags_RejectInvalidValues(t *testing.T) {
	valid := rateLimitFlags{algorithm: "FixedWindow", onStoreFailure: "Deny"}
	for want, change := range map[string]func(*rateLimitFlags){
		`invalid --algorithm "Guess"`:       func(f *rateLimitFlags) { f.algorithm = "Guess" },
		`invalid --on-store-failure "Pray"`: func(f *rateLimitFlags) { f.onStoreFailure = "Pray" },
		`--keep-removed -1s is invalid`:     func(f *rateLimitFlags) { f.keep = -time.Second },
	} {
		f := valid
		change(&f)
		if _, err := f.options(false); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
