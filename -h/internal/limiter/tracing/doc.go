// Package tracing makes OpenTelemetry spans of sampled requests: the endpoint, what the request matches, and the round trip to Redis.
//
// Almost all requests are not sampled. For these nothing is allocated, and no span, option or attribute is created: a [Tracer] returns a nil
// [Span], whose methods do nothing. The package needs only the API of OpenTelemetry. Package otlp has the exporter.
package tracing
