// Package otlp exports the spans of package tracing to an OpenTelemetry collector, over OTLP and gRPC.
package otlp
