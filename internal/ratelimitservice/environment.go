package ratelimitservice

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// environment reads variables, and remembers which were read.
type environment struct {
	values   map[string]string
	read     map[string]bool
	problems []error
}

func newEnvironment(environ []string) *environment {
	e := &environment{values: map[string]string{}, read: map[string]bool{}}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		e.values[name] = value
	}
	return e
}

// text returns a variable, or the default if it is empty or not set.
func (e *environment) text(name, otherwise string) string {
	e.read[name] = true
	if value := e.values[name]; value != "" {
		return value
	}
	return otherwise
}

// skip marks variables as read that have a meaning only together with others.
func (e *environment) skip(names ...string) {
	for _, name := range names {
		e.read[name] = true
	}
}

func (e *environment) required(name, what string) string {
	value := e.text(name, "")
	if value == "" {
		e.fail(name, "is required; set it to %s", what)
	}
	return value
}

func (e *environment) boolean(name string) bool {
	text := e.text(name, "false")
	value, err := strconv.ParseBool(text)
	if err != nil {
		e.fail(name, "%q is invalid: must be true or false", text)
	}
	return value
}

// oneOf returns a variable in lower case.
func (e *environment) oneOf(name, otherwise string, supported ...string) string {
	value := strings.ToLower(e.text(name, otherwise))
	if !slices.Contains(supported, value) {
		e.fail(name, "%q is invalid: must be one of %s", value, strings.Join(supported, ", "))
	}
	return value
}

func (e *environment) port(name, otherwise string) string {
	value := e.text(name, otherwise)
	if _, err := strconv.ParseUint(value, 10, 16); err != nil {
		e.fail(name, "%q is invalid: must be a port", value)
	}
	return value
}

func (e *environment) ratio(name string, otherwise float64) float64 {
	text := e.text(name, "")
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0 && value <= 1) {
		e.fail(name, "%q is invalid: must be a number from 0 to 1", text)
	}
	return value
}

func (e *environment) duration(name string, otherwise time.Duration) time.Duration {
	text := e.text(name, "")
	if text == "" {
		return otherwise
	}
	value, err := time.ParseDuration(text)
	if err != nil || value <= 0 {
		e.fail(name, "%q is invalid: must be a positive duration, such as 10s", text)
		return otherwise
	}
	return value
}

// pairs returns a list such as key1=value1,key2=value2.
func (e *environment) pairs(name string) map[string]string {
	pairs := map[string]string{}
	for _, part := range splitList(e.text(name, "")) {
		key, value, found := strings.Cut(part, "=")
		if !found {
			key, value, found = strings.Cut(part, ":")
		}
		if !found || key == "" {
			e.fail(name, "%q is invalid: must be a list such as key1=value1,key2=value2", part)
			continue
		}
		pairs[key] = value
	}
	return pairs
}

// credentials returns a variable with a password, or with user:password.
func (e *environment) credentials(name string) (username, password string) {
	text := e.text(name, "")
	if user, secret, found := strings.Cut(text, ":"); found {
		return user, secret
	}
	return "", text
}

// unread returns the variables that are set and were not read: those that Weir knows and does not need, and those that have a prefix of
// the variables of the service.
func (e *environment) unread() (withoutEffect, unknown []string) {
	for name, value := range e.values {
		switch {
		case e.read[name] || value == "" || serviceLink.MatchString(name):
		case slices.Contains(unneeded(), name):
			withoutEffect = append(withoutEffect, name)
		case slices.ContainsFunc(prefixes(), func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			unknown = append(unknown, name)
		}
	}
	slices.Sort(withoutEffect)
	slices.Sort(unknown)
	return withoutEffect, unknown
}

// serviceLink matches the variables that Kubernetes sets for each Service of the namespace.
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_|$)|_PORT(_\d+_(TCP|UDP|SCTP).*)?$`)

// prefixes returns the prefixes of the variables of the service.
func prefixes() []string {
	return []string{
		"BACKEND_", "CACHE_", "CONFIG_", "DEBUG_", "DISABLE_", "GRPC_", "HEALTHY_", "LIMIT_", "LOCAL_CACHE_", "LOG_", "MEMCACHE_", "PROMETHEUS_",
		"REDIS_", "RESPONSE_", "RUNTIME_", "STATSD_", "STATS_", "TRACING_", "USE_", "XDS_", "EXPIRATION_", "NEAR_LIMIT_", "QUOTA_", "SHADOW_", "STOP_CACHE_",
	}
}

// unneeded returns the variables of the service that have no effect, because Weir has no such part, or does without it.
func unneeded() []string {
	return []string{
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "DISABLE_STATS", "EXPIRATION_JITTER_MAX_SECONDS",
		"EXTRA_TAGS", "FORCE_START_WITHOUT_INITIAL_CONFIG", "GRPC_MAX_CONNECTION_AGE", "GRPC_MAX_CONNECTION_AGE_GRACE", "GRPC_SERVER_TLS_CA_CERT",
		"LIMIT_LIMIT_HEADER", "LIMIT_REMAINING_HEADER", "LIMIT_RESET_HEADER", "LIMIT_RESPONSE_HEADERS_ENABLED", "LOCAL_CACHE_SIZE_IN_BYTES",
		"MERGE_DOMAIN_CONFIG", "PROMETHEUS_MAPPER_YAML", "REDIS_PERSECOND", "REDIS_PIPELINE_LIMIT", "REDIS_PIPELINE_WINDOW", "REDIS_POOL_SIZE",
		"REDIS_TIMEOUT", "RESPONSE_DYNAMIC_METADATA", "RUNTIME_APPDIRECTORY", "RUNTIME_IGNOREDOTFILES", "RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY",
		"RUNTIME_WATCH_ROOT", "STATSD_HOST", "STATSD_PORT", "STATS_FLUSH_INTERVAL", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "TRACING_ENABLED",
		"TRACING_EXPORTER_PROTOCOL", "TRACING_SAMPLING_RATE", "TRACING_SERVICE_INSTANCE_ID", "TRACING_SERVICE_NAME", "TRACING_SERVICE_NAMESPACE",
		"USE_DOG_STATSD", "USE_DOG_STATSD_MOGRIFIERS", "USE_PROMETHEUS", "USE_STATSD", "XDS_CLIENT_BACKOFF_JITTER", "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
	}
}
