package ratelimitservice

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Settings are what the environment of the service configures.
type Settings struct {
	// Addresses to listen on, host:port.
	HTTP, GRPC, Debug, Metrics string
	LogLevel, LogFormat        string // as weir --log-level and --log-format name them
	Server                     ServerTLS
	XDS                        XDS
	Redis                      Redis
	// Shadow is true if no limit denies requests (SHADOW_MODE).
	Shadow bool
	// NearLimit is the part of a limit above which hits count as near the limit.
	NearLimit float64
	// HealthNeedsConfig and HealthNeedsRedis make the health check fail without a configuration, and while Redis is unavailable.
	HealthNeedsConfig, HealthNeedsRedis bool
	// KeyPrefix is put before the keys in Redis.
	KeyPrefix string
	// WithoutEffect and Unknown are variables that are set: those that Weir knows and does not need, and those that it does not know.
	WithoutEffect, Unknown []string
}

// ServerTLS is the TLS configuration of the gRPC server: files, and names of clients. Without Certificate there is no TLS.
type ServerTLS struct {
	Certificate, Key, ClientCA string
	ClientNames                []string
}

// XDS is where the configuration comes from.
type XDS struct {
	Server, NodeID       string
	Metadata             map[string]string // of the node
	TLS                  bool
	Certificate, Key, CA string // files; empty without
	ServerName           string // in the certificate of the server; empty for the host of Server
	MinWait, MaxWait     time.Duration
}

// Redis is where the counters are.
type Redis struct {
	// Type is SINGLE, SENTINEL or CLUSTER.
	Type string
	// URL is redis://… or rediss://…, only with SINGLE. Otherwise it is empty, and Addresses are set.
	URL                                string
	Addresses                          []string // host:port
	Primary                            string   // the name that the Sentinels know
	Username, Password                 string
	SentinelUsername, SentinelPassword string
	TLS, SkipHostname                  bool
	Certificate, Key, CA               string // files; empty without
}

// ParseEnvironment reads the settings from variables in the form NAME=value. Variables that Weir does not know are not an error. The error
// lists all variables that must be changed.
func ParseEnvironment(environ []string) (Settings, error) {
	e := newEnvironment(environ)
	s := Settings{
		HTTP:      net.JoinHostPort(e.text("HOST", "0.0.0.0"), e.port("PORT", "8080")),
		GRPC:      net.JoinHostPort(e.text("GRPC_HOST", "0.0.0.0"), e.port("GRPC_PORT", "8081")),
		Debug:     net.JoinHostPort(e.text("DEBUG_HOST", "127.0.0.1"), e.port("DEBUG_PORT", "6070")),
		LogLevel:  e.logLevel(),
		LogFormat: e.oneOf("LOG_FORMAT", "text", "text", "json"),
		Shadow:    e.boolean("SHADOW_MODE"), NearLimit: e.ratio("NEAR_LIMIT_RATIO", 0.8),
		HealthNeedsConfig: e.boolean("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"), HealthNeedsRedis: e.boolean("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"),
		KeyPrefix: e.text("CACHE_KEY_PREFIX", ""),
		Metrics:   e.text("PROMETHEUS_ADDR", ":9090"),
		Server:    e.serverTLS(),
		XDS:       e.xds(),
		Redis:     e.redis(),
	}
	if s.KeyPrefix != "" && strings.ContainsAny(s.KeyPrefix, "{}") {
		e.fail("CACHE_KEY_PREFIX", "must not contain { or }, because they would put all keys into one slot of a Redis Cluster")
	}
	if got := e.text("PROMETHEUS_PATH", "/metrics"); got != "/metrics" {
		e.fail("PROMETHEUS_PATH", "%q is not supported; remove the variable, and scrape /metrics", got)
	}
	if got := e.text("BACKEND_TYPE", "redis"); got != "redis" {
		e.fail("BACKEND_TYPE", "%q is not supported; the counters must be in Redis: remove the variable", got)
	}
	s.WithoutEffect, s.Unknown = e.unread()
	return s, errors.Join(e.problems...)
}

func (e *environment) logLevel() string {
	switch level := e.oneOf("LOG_LEVEL", "warn", "trace", "debug", "info", "warn", "warning", "error", "fatal", "panic"); level {
	case "trace":
		return "debug"
	case "warning":
		return "warn"
	case "fatal", "panic":
		return "error"
	default:
		return level
	}
}

func (e *environment) serverTLS() ServerTLS {
	if !e.boolean("GRPC_SERVER_USE_TLS") {
		e.skip("GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT", "GRPC_CLIENT_TLS_SAN")
		return ServerTLS{}
	}
	s := ServerTLS{
		Certificate: e.required("GRPC_SERVER_TLS_CERT", "a PEM file"), Key: e.required("GRPC_SERVER_TLS_KEY", "a PEM file"),
		ClientCA: e.text("GRPC_CLIENT_TLS_CACERT", ""),
	}
	if name := e.text("GRPC_CLIENT_TLS_SAN", ""); name != "" {
		s.ClientNames = []string{name}
		if s.ClientCA == "" {
			e.fail("GRPC_CLIENT_TLS_SAN", "requires GRPC_CLIENT_TLS_CACERT: only a verified client certificate has a name")
		}
	}
	return s
}

func (e *environment) xds() XDS {
	if got := e.text("CONFIG_TYPE", "FILE"); got != "GRPC_XDS_SOTW" {
		e.fail("CONFIG_TYPE", "%q is not supported; set GRPC_XDS_SOTW, or convert the files with weir import envoy-ratelimit", got)
		return XDS{}
	}
	x := XDS{
		Server: e.text("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000"), NodeID: e.text("CONFIG_GRPC_XDS_NODE_ID", "default"),
		Metadata: e.pairs("CONFIG_GRPC_XDS_NODE_METADATA"), TLS: e.boolean("CONFIG_GRPC_XDS_SERVER_USE_TLS"),
		Certificate: e.text("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", ""), Key: e.text("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", ""),
		CA: e.text("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", ""), ServerName: e.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN", ""),
		MinWait: e.duration("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", time.Second), MaxWait: e.duration("XDS_CLIENT_BACKOFF_MAX_INTERVAL", 30*time.Second),
	}
	if (x.Certificate == "") != (x.Key == "") {
		e.fail("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "requires CONFIG_GRPC_XDS_CLIENT_TLS_KEY, and the reverse")
	}
	x.MaxWait = max(x.MinWait, x.MaxWait)
	return x
}

func (e *environment) redis() Redis {
	if got := e.oneOf("REDIS_SOCKET_TYPE", "tcp", "tcp", "unix"); got != "tcp" {
		e.fail("REDIS_SOCKET_TYPE", "%q is not supported; set tcp", got)
	}
	r := Redis{
		Type: strings.ToUpper(e.oneOf("REDIS_TYPE", "single", "single", "sentinel", "cluster")), TLS: e.boolean("REDIS_TLS"),
		SkipHostname: e.boolean("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"),
		Certificate:  e.text("REDIS_TLS_CLIENT_CERT", ""), Key: e.text("REDIS_TLS_CLIENT_KEY", ""), CA: e.text("REDIS_TLS_CACERT", ""),
	}
	r.Username, r.Password = e.credentials("REDIS_AUTH")
	r.SentinelUsername, r.SentinelPassword = e.credentials("REDIS_SENTINEL_AUTH")
	if (r.Certificate == "") != (r.Key == "") {
		e.fail("REDIS_TLS_CLIENT_CERT", "requires REDIS_TLS_CLIENT_KEY, and the reverse")
	}
	url := e.required("REDIS_URL", "host:port of Redis")
	if strings.HasPrefix(url, "redis://") || strings.HasPrefix(url, "rediss://") {
		if r.Type != "SINGLE" {
			e.fail("REDIS_URL", "a URL is valid only with REDIS_TYPE=SINGLE; list host:port with commas")
		}
		r.URL = url
		return r
	}
	r.Addresses = splitList(url)
	if r.Type == "SENTINEL" {
		if len(r.Addresses) < 2 {
			e.fail("REDIS_URL", "with REDIS_TYPE=SENTINEL, must be the name of the primary and the addresses of Sentinels, with commas")
			return r
		}
		r.Primary, r.Addresses = r.Addresses[0], r.Addresses[1:]
	}
	return r
}

// splitList returns the parts of a list with commas.
func splitList(text string) (parts []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// fail records what is wrong with a variable.
func (e *environment) fail(name, format string, a ...any) {
	e.problems = append(e.problems, fmt.Errorf("environment variable %s: %s", name, fmt.Sprintf(format, a...)))
}
