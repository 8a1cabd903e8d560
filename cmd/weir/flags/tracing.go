package flags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter/tracing/otlp"
)

// Tracing configures OpenTelemetry traces.
type Tracing struct {
	Endpoint string
	Sample   int64
}

// Add adds the flags.
func (f *Tracing) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Endpoint, "tracing-endpoint", "",
		"URL of an OpenTelemetry collector that receives traces over OTLP and gRPC: http://host:4317, or https:// for TLS; empty uses\n"+
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT; if these are empty too, tracing is off")
	flags.Int64Var(&f.Sample, "tracing-sample", 0,
		"trace one in so many of the requests without a W3C trace context; 0 traces none of them. If there is a trace context, the caller\n"+
			"decides whether a request is traced")
}

// Open returns the exporter of traces. It exports nothing if tracing is off, or if the environment has an invalid endpoint.
func (f *Tracing) Open(ctx context.Context, registry prometheus.Registerer, log *slog.Logger) (*otlp.Exporter, error) {
	if f.Sample < 0 {
		return nil, fmt.Errorf("--tracing-sample %d is invalid: must not be negative", f.Sample)
	}
	source, endpoint := f.receiver()
	if endpoint == "" && f.Sample > 0 {
		return nil, errors.New("--tracing-sample requires --tracing-endpoint, which is empty")
	}
	if endpoint == "" || isDisabled() {
		return noTraces(registry), nil
	}
	if !isReceiver(endpoint, f.Endpoint != "") {
		err := fmt.Errorf("%s %q is invalid: must be a URL such as http://collector:4317, without a path", source, endpoint)
		if f.Endpoint != "" {
			return nil, err
		}
		// A cluster can set the environment of all its pods. A limiter that does not start would be worse than one without traces.
		log.Warn("Tracing is off", "error", err)
		return noTraces(registry), nil
	}
	traces, err := otlp.New(ctx, otlp.Options{Endpoint: f.Endpoint, Version: cli.Version(), SampleOneIn: f.Sample, Log: log, Registry: registry})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return traces, nil
}

// noTraces returns an exporter that exports nothing. It registers the metrics all the same: a dashboard finds them.
func noTraces(registry prometheus.Registerer) *otlp.Exporter {
	otlp.NewMetrics(registry)
	return &otlp.Exporter{}
}

// receiver returns the URL of the collector, "" without one, and the name of the flag or variable that sets it.
func (f *Tracing) receiver() (source, endpoint string) {
	if f.Endpoint != "" {
		return "--tracing-endpoint", f.Endpoint
	}
	for _, source = range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} { // the first of them has precedence
		if endpoint = strings.TrimSpace(os.Getenv(source)); endpoint != "" {
			return source, endpoint
		}
	}
	return "", ""
}

// isDisabled reports whether the environment switches tracing off, whatever the flags are.
func isDisabled() bool {
	return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none"
}

// endpointPattern is that of the field endpoint of a Limiter.
var endpointPattern = regexp.MustCompile(`^https?://([a-zA-Z0-9]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$`)

// isReceiver reports whether spans can be sent to a URL. The SDK accepts others, and sends the spans to localhost or to no host. A flag has a
// port; without one, gRPC uses 443, which is usual in the environment.
func isReceiver(endpoint string, isFlag bool) bool {
	if isFlag && !endpointPattern.MatchString(endpoint) {
		return false
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16)
	return err == nil && port > 0
}
