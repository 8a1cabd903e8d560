package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/limiter/tracing/otlp"
)

// tracingFlags configure OpenTelemetry traces.
type tracingFlags struct {
	endpoint string
	sample   int64
}

func (f *tracingFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.endpoint, "tracing-endpoint", "",
		"URL of an OpenTelemetry collector that receives traces over OTLP and gRPC: http://host:4317, or https:// for TLS; empty uses\n"+
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT; if these are empty too, tracing is off")
	flags.Int64Var(&f.sample, "tracing-sample", 0,
		"trace one in so many of the requests without a W3C trace context; 0 traces none of them. If there is a trace context, the caller\n"+
			"decides whether a request is traced")
}

// isOn reports whether requests are traced.
func (f *tracingFlags) isOn() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return cmp.Or(f.endpoint, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != ""
}

// open returns the exporter of traces. It exports nothing if tracing is off.
func (f *tracingFlags) open(ctx context.Context, registry prometheus.Registerer, log *slog.Logger) (*otlp.Exporter, error) {
	if f.sample < 0 {
		return nil, fmt.Errorf("--tracing-sample %d is invalid: must not be negative", f.sample)
	}
	if !f.isOn() {
		if f.sample > 0 {
			return nil, errors.New("--tracing-sample requires --tracing-endpoint, which is empty")
		}
		otlp.NewMetrics(registry) // a dashboard finds them
		return &otlp.Exporter{}, nil
	}
	if f.endpoint != "" {
		u, err := url.Parse(f.endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("--tracing-endpoint %q is invalid: must be a URL such as http://collector:4317", f.endpoint)
		}
	}
	traces, err := otlp.New(ctx, otlp.Options{Endpoint: f.endpoint, Version: version, SampleOneIn: f.sample, Log: log, Registry: registry})
	if err != nil {
		return nil, fmt.Errorf("--tracing-endpoint: %w", err)
	}
	return traces, nil
}
