package otlp

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/otlptest"
)

// start returns an Exporter, its metrics, and a function that stops it.
func start(t *testing.T, o Options) (e *Exporter, registry *prometheus.Registry, stop func()) {
	t.Helper()
	registry = prometheus.NewPedanticRegistry()
	o.Registry, o.Version, o.SampleOneIn = registry, "v1.2.3", 1
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return e, registry, stop
}

func trace(e *Exporter) {
	_, span := e.Tracer.HTTP(httptest.NewRequest(http.MethodPost, "/v1/check", http.NoBody), "/v1/check", "check", time.Now())
	span.EndHTTP(http.StatusOK)
}

func value(t *testing.T, registry *prometheus.Registry, metric, reason string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == metric && (reason == "" || m.GetLabel()[0].GetValue() == reason) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", metric, reason)
	return 0
}

func TestExporter_SendsWhatIsQueuedWhenItEnds(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=limiter-0,service.name=edge")
	collector := otlptest.StartCollector(t)
	e, registry, stop := start(t, Options{Endpoint: collector.URL})
	for range 100 {
		trace(e)
	}
	stop()
	if n := collector.Count(); n != 100 || value(t, registry, "weir_trace_spans_total", "") != 100 {
		t.Errorf("the collector has %d spans, counted are %v, want 100", n, value(t, registry, "weir_trace_spans_total", ""))
	}
	for name, want := range map[string]string{"service.name": "edge", "service.version": "v1.2.3", "k8s.pod.name": "limiter-0", "telemetry.sdk.language": "go"} {
		if got := collector.Resource()[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// A caller can choose the text of some attributes.
func TestExporter_CutsLongAttributes(t *testing.T) {
	collector := otlptest.StartCollector(t)
	e, _, stop := start(t, Options{Endpoint: collector.URL})
	_, span := e.Tracer.HTTP(httptest.NewRequest(http.MethodPost, "/v1/check", http.NoBody), "/v1/check", "check", time.Now())
	span.Set(attribute.String("weir.admission.uid", strings.Repeat("x", 300)))
	span.EndHTTP(http.StatusOK)
	stop()
	if got := len(collector.Spans(span.TraceID())[0].Attributes["weir.admission.uid"]); got != 256 {
		t.Errorf("an attribute has %d bytes, want 256", got)
	}
}

func TestExporter_ReadsTheEnvironment(t *testing.T) {
	collector := otlptest.StartCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	e, _, stop := start(t, Options{})
	trace(e)
	stop()
	if n := collector.Count(); n != 1 {
		t.Errorf("the collector has %d spans, want 1", n)
	}
	if got := collector.Resource()["service.name"]; got != "weir-limiter" {
		t.Errorf("service.name is %q", got)
	}
}

// A collector that accepts connections and never answers delays no request, and each span is counted once.
func TestExporter_CountsTheSpansThatDoNotFitIntoTheQueue(t *testing.T) {
	var config net.ListenConfig
	silent, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	e, registry, stop := start(t, Options{Endpoint: "http://" + silent.Addr().String()})
	const excess = 1000
	processor := e.queue
	began := time.Now()
	for range maxSpans + excess {
		_, span := e.provider.Tracer("test").Start(t.Context(), "span")
		span.End()
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d spans took %v", maxSpans+excess, took)
	}
	if waiting, dropped := processor.exporter.waiting.Load(), value(t, registry, "weir_trace_dropped_total", "queue"); waiting != maxSpans || dropped != excess {
		t.Errorf("%d spans wait, and %v are dropped, want %d and %d", waiting, dropped, maxSpans, excess)
	}
	began = time.Now()
	stop()
	if took := time.Since(began); took > 10*time.Second { // two, and a process that the machine delays
		t.Errorf("the end waited %v for the collector", took)
	}
	if got := value(t, registry, "weir_trace_dropped_total", "export"); got != maxSpans || processor.exporter.waiting.Load() != 0 {
		t.Errorf("%v spans failed and %d wait at the end, want %d and 0", got, processor.exporter.waiting.Load(), maxSpans)
	}
}

func TestExporter_ReportsThatTheCollectorIsUnavailable(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50") // milliseconds
	address, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var log fixture.LockedBuffer
	e, registry, stop := start(t, Options{Endpoint: "http://" + address, Log: slog.New(slog.NewTextHandler(&log, nil))})
	trace(e)
	stop()
	if dropped := value(t, registry, "weir_trace_dropped_total", "export"); dropped != 1 || value(t, registry, "weir_trace_spans_total", "") != 0 {
		t.Errorf("%v spans failed, want 1", dropped)
	}
	if !strings.Contains(log.String(), "spans were not exported; check the OpenTelemetry collector") {
		t.Errorf("the log does not report it:\n%s", &log)
	}
}

func TestExporter_ZeroValueTracesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := &Exporter{}
	e.Run(ctx)
	trace(e)
}
