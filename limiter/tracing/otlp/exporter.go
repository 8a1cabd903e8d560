package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/weir-dev/weir/limiter/tracing"
)

const (
	// maxTraces is the number of traces per second of a process: callers decide what is sampled, and each trace takes about 20 µs.
	maxTraces = 1000
	// maxSpans is the number of spans that wait for the collector, or are on their way to it.
	maxSpans = 8192
	// maxText is the number of characters of an attribute. Callers choose some of them.
	maxText = 256
	// stopTimeout bounds the time that spans take to be exported when the process ends.
	stopTimeout = 2 * time.Second
	// logInterval is the time between two log lines about failed exports.
	logInterval = time.Minute
)

// Options of an Exporter.
type Options struct {
	// Endpoint is the URL of the collector: http:// or, with TLS, https://. Empty reads the environment variables of OpenTelemetry.
	Endpoint string
	// Version of this program.
	Version string
	// SampleOneIn traces one in so many of the requests without a trace context. 0 traces none of them.
	SampleOneIn int64
	Log         *slog.Logger
	// Registry of the metrics.
	Registry prometheus.Registerer
}

// Exporter exports the spans of a Tracer. Its zero value exports nothing.
type Exporter struct {
	// Tracer makes the spans. It is nil if tracing is off.
	Tracer   *tracing.Tracer
	provider *sdk.TracerProvider
	queue    *queue
}

// Metrics of exporters. They exist also while tracing is off.
type Metrics struct {
	exported              prometheus.Counter
	rate, queue, failures prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	exported := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "weir_trace_spans_total",
		Help: "Spans that the OpenTelemetry collector received.",
	})
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_trace_dropped_total",
		Help: "What the OpenTelemetry collector did not receive, by reason: rate (sampled requests above 1000 per second, which were not traced), queue " +
			"(spans that did not fit into the queue) or export (spans whose export failed, that the collector rejected, or that waited when the process ended).",
	}, []string{"reason"})
	registry.MustRegister(exported, dropped)
	return &Metrics{
		exported: exported, rate: dropped.WithLabelValues("rate"), queue: dropped.WithLabelValues("queue"), failures: dropped.WithLabelValues("export"),
	}
}

// New returns an Exporter. It does not connect yet, and a collector that is unavailable is no error.
func New(ctx context.Context, o Options) (*Exporter, error) {
	metrics := NewMetrics(o.Registry)
	options := []otlptracegrpc.Option{otlptracegrpc.WithDialOption(grpc.WithChainUnaryInterceptor(readPartialSuccess))}
	if o.Endpoint != "" {
		options = append(options, otlptracegrpc.WithEndpointURL(o.Endpoint))
	}
	client, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter: %w", err)
	}
	process, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "weir-limiter"), attribute.String("service.version", o.Version),
	), resource.WithFromEnv()) // the environment replaces the name
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	queue := newQueue(&exporter{client: client, metrics: metrics, log: o.Log, sometimes: &rate.Sometimes{First: 1, Interval: logInterval}})
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxText
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithRawSpanLimits(limits), sdk.WithResource(process), sdk.WithSpanProcessor(queue))
	tracer := tracing.New(provider, tracing.Options{SampleOneIn: o.SampleOneIn, MaxPerSecond: maxTraces, Skipped: metrics.rate.Inc})
	return &Exporter{Tracer: tracer, provider: provider, queue: queue}, nil
}

// Run exports spans until ctx is done, and then those that wait, for at most two seconds.
func (e *Exporter) Run(ctx context.Context) {
	<-ctx.Done()
	if e.provider == nil {
		return
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	_ = e.provider.Shutdown(stopping) // what fails is logged
	e.queue.exporter.abandon()
}
