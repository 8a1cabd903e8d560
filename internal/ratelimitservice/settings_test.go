package ratelimitservice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/ratelimitservice"
)

// envoyGateway is the environment that Envoy Gateway 1.9 sets in the pod of the service, with TLS to Redis, metrics and tracing, and what
// Kubernetes adds for a Service with the name redis.
func envoyGateway() []string {
	return strings.Fields(`
PATH=/usr/bin HOME=/ HOSTNAME=envoy-ratelimit-0
RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_IGNOREDOTFILES=true RUNTIME_WATCH_ROOT=false LOG_LEVEL=info USE_STATSD=false
CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001 CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit
GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/certs/tls.crt GRPC_SERVER_TLS_KEY=/certs/tls.key GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt
CONFIG_GRPC_XDS_SERVER_USE_TLS=true CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key
CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt FORCE_START_WITHOUT_INITIAL_CONFIG=true
REDIS_SOCKET_TYPE=tcp REDIS_URL=redis.redis-system.svc.cluster.local:6379
REDIS_TLS=true REDIS_TLS_CLIENT_CERT=/redis-certs/tls.crt REDIS_TLS_CLIENT_KEY=/redis-certs/tls.key
USE_PROMETHEUS=true PROMETHEUS_ADDR=:19001 PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml
TRACING_ENABLED=true TRACING_SERVICE_NAME=envoy-ratelimit TRACING_SERVICE_NAMESPACE=envoy-gateway-system TRACING_SERVICE_INSTANCE_ID=pod
TRACING_SAMPLING_RATE=0.5 OTEL_EXPORTER_OTLP_ENDPOINT=http://otel:4318
REDIS_PORT=tcp://10.0.0.1:6379 REDIS_SERVICE_HOST=10.0.0.1 REDIS_SERVICE_PORT=6379 REDIS_PORT_6379_TCP_ADDR=10.0.0.1 REDIS_FLAVOR=new`)
}

func TestParseEnvironment_ReadsThatOfEnvoyGateway(t *testing.T) {
	got, err := ratelimitservice.ParseEnvironment(envoyGateway())
	if err != nil {
		t.Fatal(err)
	}
	want := ratelimitservice.Settings{
		HTTP: "0.0.0.0:8080", GRPC: "0.0.0.0:8081", Debug: "127.0.0.1:6070", Metrics: ":19001", LogLevel: "info", LogFormat: "text", NearLimit: 0.8,
		Server: ratelimitservice.ServerTLS{Certificate: "/certs/tls.crt", Key: "/certs/tls.key"},
		XDS: ratelimitservice.XDS{
			Server: "envoy-gateway:18001", NodeID: "envoy-ratelimit", Metadata: map[string]string{}, TLS: true, Certificate: "/certs/tls.crt",
			Key: "/certs/tls.key", CA: "/certs/ca.crt", MinWait: time.Second, MaxWait: 30 * time.Second,
		},
		Redis: ratelimitservice.Redis{
			Type: "SINGLE", Addresses: []string{"redis.redis-system.svc.cluster.local:6379"}, TLS: true, Certificate: "/redis-certs/tls.crt",
			Key: "/redis-certs/tls.key",
		},
		WithoutEffect: strings.Fields("FORCE_START_WITHOUT_INITIAL_CONFIG GRPC_SERVER_TLS_CA_CERT PROMETHEUS_MAPPER_YAML RUNTIME_IGNOREDOTFILES " +
			"RUNTIME_ROOT RUNTIME_SUBDIRECTORY RUNTIME_WATCH_ROOT TRACING_ENABLED TRACING_SAMPLING_RATE TRACING_SERVICE_INSTANCE_ID " +
			"TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE USE_PROMETHEUS USE_STATSD"),
		Unknown: []string{"REDIS_FLAVOR"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// with returns the smallest environment with more variables.
func with(variables ...string) []string {
	return append([]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "REDIS_URL=redis:6379"}, variables...)
}

func TestParseEnvironment_ReadsRedis(t *testing.T) {
	for name, test := range map[string]struct {
		environ []string
		want    ratelimitservice.Redis
	}{
		"one server":         {with(), ratelimitservice.Redis{Type: "SINGLE", Addresses: []string{"redis:6379"}}},
		"a password":         {with("REDIS_AUTH=s3cret"), ratelimitservice.Redis{Type: "SINGLE", Addresses: []string{"redis:6379"}, Password: "s3cret"}},
		"a user":             {with("REDIS_AUTH=weir:s3:cret"), ratelimitservice.Redis{Type: "SINGLE", Addresses: []string{"redis:6379"}, Username: "weir", Password: "s3:cret"}},
		"a URL":              {with("REDIS_URL=rediss://redis:6379/1"), ratelimitservice.Redis{Type: "SINGLE", URL: "rediss://redis:6379/1"}},
		"a cluster":          {with("REDIS_TYPE=cluster", "REDIS_URL=a:6379, b:6379"), ratelimitservice.Redis{Type: "CLUSTER", Addresses: []string{"a:6379", "b:6379"}}},
		"Sentinels":          {with("REDIS_TYPE=SENTINEL", "REDIS_URL=main,a:26379,b:26379", "REDIS_SENTINEL_AUTH=x"), ratelimitservice.Redis{Type: "SENTINEL", Primary: "main", Addresses: []string{"a:26379", "b:26379"}, SentinelPassword: "x"}},
		"one Sentinel":       {with("REDIS_TYPE=SENTINEL", "REDIS_URL=main,a:26379"), ratelimitservice.Redis{Type: "SENTINEL", Primary: "main", Addresses: []string{"a:26379"}}},
		"TLS without a name": {with("REDIS_TLS=true", "REDIS_TLS_CACERT=/ca", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"), ratelimitservice.Redis{Type: "SINGLE", Addresses: []string{"redis:6379"}, TLS: true, CA: "/ca", SkipHostname: true}},
		"empty is not set":   {with("REDIS_TYPE=", "REDIS_TLS="), ratelimitservice.Redis{Type: "SINGLE", Addresses: []string{"redis:6379"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ratelimitservice.ParseEnvironment(test.environ)
			if diff := cmp.Diff(test.want, got.Redis); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestParseEnvironment_ReadsOtherVariables(t *testing.T) {
	got, err := ratelimitservice.ParseEnvironment(with("PORT=1", "HOST=::1", "GRPC_PORT=2", "DEBUG_HOST=0.0.0.0", "DEBUG_PORT=3", "LOG_LEVEL=WARNING",
		"LOG_FORMAT=json", "SHADOW_MODE=true", "NEAR_LIMIT_RATIO=0.5", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true",
		"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", "CACHE_KEY_PREFIX=eg:", "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k",
		"GRPC_CLIENT_TLS_CACERT=ca", "GRPC_CLIENT_TLS_SAN=envoy", "CONFIG_GRPC_XDS_NODE_METADATA=a=b,c:d", "CONFIG_GRPC_XDS_SERVER_TLS_SAN=eg",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=2s", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=1s"))
	want := ratelimitservice.Settings{
		HTTP: "[::1]:1", GRPC: "0.0.0.0:2", Debug: "0.0.0.0:3", Metrics: ":9090", LogLevel: "warn", LogFormat: "json", Shadow: true, NearLimit: 0.5,
		HealthNeedsConfig: true, HealthNeedsRedis: true, KeyPrefix: "eg:",
		Server: ratelimitservice.ServerTLS{Certificate: "c", Key: "k", ClientCA: "ca", ClientNames: []string{"envoy"}},
		XDS: ratelimitservice.XDS{
			Server: "localhost:18000", NodeID: "default", Metadata: map[string]string{"a": "b", "c": "d"}, ServerName: "eg",
			MinWait: 2 * time.Second, MaxWait: 2 * time.Second,
		},
		Redis: ratelimitservice.Redis{Type: "SINGLE", Addresses: []string{"redis:6379"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestParseEnvironment_AcceptsTheEndsOfARange(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "1": 1} {
		if got, err := ratelimitservice.ParseEnvironment(with("NEAR_LIMIT_RATIO=" + text)); err != nil || got.NearLimit != want {
			t.Errorf("%s: %v (%v)", text, got.NearLimit, err)
		}
	}
}

// The variables of TLS can stay when it is switched off. Others are listed in order.
func TestParseEnvironment_ListsUnknownVariables(t *testing.T) {
	got, err := ratelimitservice.ParseEnvironment(with("GRPC_SERVER_USE_TLS=false", "GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k", "GRPC_CLIENT_TLS_CACERT=ca",
		"GRPC_CLIENT_TLS_SAN=envoy", "REDIS_D=1", "REDIS_B=1", "REDIS_A=1", "XDS_E=1", "CACHE_C=1"))
	want := strings.Fields("CACHE_C REDIS_A REDIS_B REDIS_D XDS_E")
	if diff := cmp.Diff(want, got.Unknown); diff != "" || err != nil || len(got.WithoutEffect) > 0 {
		t.Errorf("%s, without effect %q (%v)", diff, got.WithoutEffect, err)
	}
}

func TestParseEnvironment_NamesVariablesThatMustChange(t *testing.T) {
	for variable, want := range map[string]string{
		"CONFIG_TYPE=FILE":                   `CONFIG_TYPE: "FILE" is not supported; set GRPC_XDS_SOTW, or convert the files with weir import envoy-ratelimit`,
		"CONFIG_TYPE=":                       `CONFIG_TYPE: "FILE" is not supported; set GRPC_XDS_SOTW, or convert the files with weir import envoy-ratelimit`,
		"BACKEND_TYPE=memcache":              `BACKEND_TYPE: "memcache" is not supported; the counters must be in Redis: remove the variable`,
		"PROMETHEUS_PATH=/stats":             `PROMETHEUS_PATH: "/stats" is not supported; remove the variable, and scrape /metrics`,
		"REDIS_URL=":                         `REDIS_URL: is required; set it to host:port of Redis`,
		"REDIS_SOCKET_TYPE=unix":             `REDIS_SOCKET_TYPE: "unix" is not supported; set tcp`,
		"REDIS_TYPE=ring":                    `REDIS_TYPE: "ring" is invalid: must be one of single, sentinel, cluster`,
		"REDIS_TYPE=SENTINEL":                `REDIS_URL: with REDIS_TYPE=SENTINEL, must be the name of the primary and the addresses of Sentinels, with commas`,
		"REDIS_TLS_CLIENT_CERT=c":            `REDIS_TLS_CLIENT_CERT: requires REDIS_TLS_CLIENT_KEY, and the reverse`,
		"CONFIG_GRPC_XDS_CLIENT_TLS_KEY=k":   `CONFIG_GRPC_XDS_CLIENT_TLS_CERT: requires CONFIG_GRPC_XDS_CLIENT_TLS_KEY, and the reverse`,
		"CACHE_KEY_PREFIX={eg}":              `CACHE_KEY_PREFIX: must not contain { or }, because they would put all keys into one slot of a Redis Cluster`,
		"LOG_LEVEL=loud":                     `LOG_LEVEL: "loud" is invalid: must be one of trace, debug, info, warn, warning, error, fatal, panic`,
		"PORT=tcp://10.0.0.1:80":             `PORT: "tcp://10.0.0.1:80" is invalid: must be a port`,
		"SHADOW_MODE=maybe":                  `SHADOW_MODE: "maybe" is invalid: must be true or false`,
		"NEAR_LIMIT_RATIO=NaN":               `NEAR_LIMIT_RATIO: "NaN" is invalid: must be a number from 0 to 1`,
		"NEAR_LIMIT_RATIO=1.1":               `NEAR_LIMIT_RATIO: "1.1" is invalid: must be a number from 0 to 1`,
		"NEAR_LIMIT_RATIO=-0.1":              `NEAR_LIMIT_RATIO: "-0.1" is invalid: must be a number from 0 to 1`,
		"XDS_CLIENT_BACKOFF_MAX_INTERVAL=60": `XDS_CLIENT_BACKOFF_MAX_INTERVAL: "60" is invalid: must be a positive duration, such as 10s`,
		"XDS_CLIENT_BACKOFF_MAX_INTERVAL=0s": `XDS_CLIENT_BACKOFF_MAX_INTERVAL: "0s" is invalid: must be a positive duration, such as 10s`,
		"CONFIG_GRPC_XDS_NODE_METADATA=a":    `CONFIG_GRPC_XDS_NODE_METADATA: "a" is invalid: must be a list such as key1=value1,key2=value2`,
	} {
		t.Run(variable, func(t *testing.T) {
			_, err := ratelimitservice.ParseEnvironment(with(variable))
			if err == nil || err.Error() != "environment variable "+want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
	for _, invalid := range []string{"a", "=b"} { // each of a list is named
		_, err := ratelimitservice.ParseEnvironment(with("CONFIG_GRPC_XDS_NODE_METADATA=a,=b,c=d"))
		if err == nil || !strings.Contains(err.Error(), `"`+invalid+`" is invalid`) {
			t.Errorf("%v, want an error about %q", err, invalid)
		}
	}
	_, err := ratelimitservice.ParseEnvironment(with("GRPC_SERVER_USE_TLS=true", "GRPC_CLIENT_TLS_SAN=envoy", "REDIS_TYPE=CLUSTER", "REDIS_URL=redis://a"))
	want := `environment variable GRPC_SERVER_TLS_CERT: is required; set it to a PEM file
environment variable GRPC_SERVER_TLS_KEY: is required; set it to a PEM file
environment variable GRPC_CLIENT_TLS_SAN: requires GRPC_CLIENT_TLS_CACERT: only a verified client certificate has a name
environment variable REDIS_URL: a URL is valid only with REDIS_TYPE=SINGLE; list host:port with commas`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
