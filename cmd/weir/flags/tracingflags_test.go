package flags

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/test/fixture"
)

func TestTracingFlags_RejectInvalidOnes(t *testing.T) {
	for name, test := range map[string]struct {
		flags Tracing
		env   map[string]string
		want  string // "": valid
		on    bool
	}{
		"off":                         {},
		"a negative sample":           {flags: Tracing{Endpoint: "http://a:1", Sample: -1}, want: "--tracing-sample -1 is invalid: must not be negative"},
		"a sample without a receiver": {flags: Tracing{Sample: 1}, want: "--tracing-sample requires --tracing-endpoint, which is empty"},
		"no URL":                      {flags: Tracing{Endpoint: "collector:4317"}, want: `--tracing-endpoint "collector:4317" is invalid`},
		"another scheme":              {flags: Tracing{Endpoint: "grpc://collector:4317"}, want: "is invalid: must be a URL such as http://collector:4317, without a path"},
		"a URL":                       {flags: Tracing{Endpoint: "https://collector:4317", Sample: 5}, on: true},
		"the environment":             {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"no port":                     {flags: Tracing{Endpoint: "http://collector"}, want: `--tracing-endpoint "http://collector" is invalid`},
		"a path":                      {flags: Tracing{Endpoint: "http://collector:4318/v1/traces"}, want: "is invalid: must be a URL such as http://collector:4317, without a path"},
		"no host":                     {flags: Tracing{Endpoint: "http://:4317"}, want: "--tracing-endpoint"},
		"a port that does not exist":  {flags: Tracing{Endpoint: "http://collector:65536"}, want: "--tracing-endpoint"},
		"port 0":                      {flags: Tracing{Endpoint: "http://collector:0"}, want: "--tracing-endpoint"},
		"the last port":               {flags: Tracing{Endpoint: "http://[2001:db8::1]:65535"}, on: true},
		"a flag and a variable":       {flags: Tracing{Endpoint: "http://a:1"}, env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "a:1"}, on: true},
		"a sample and a variable":     {flags: Tracing{Sample: 5}, env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector.example"}, on: true},
		"a variable that is a prefix": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": " http://127.0.0.1:1/ "}, on: true},
		"two variables": {
			env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_ENDPOINT": "a:1"}, on: true,
		},
		"disabled in the environment": {flags: Tracing{Endpoint: "http://a:1"}, env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
		"no exporter":                 {flags: Tracing{Endpoint: "http://a:1"}, env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range test.env {
				t.Setenv(key, value)
			}
			var log fixture.LockedBuffer
			traces, err := test.flags.Open(t.Context(), prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
			if test.want == "" && (err != nil || (traces.Tracer != nil) != test.on) {
				t.Errorf("%v, on: %v, want %v", err, traces != nil && traces.Tracer != nil, test.on)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// The environment switches tracing off for all programs of a pod, so that the flags of one need not change.
func TestTracingFlags_DisabledInTheEnvironmentAreNoError(t *testing.T) {
	for name, value := range map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			f := Tracing{Endpoint: "http://127.0.0.1:4317", Sample: 10}
			var log fixture.LockedBuffer
			traces, err := f.Open(t.Context(), prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil || traces.Tracer != nil {
				t.Errorf("%v, %v, want no error and no traces", traces, err)
			}
		})
	}
}

// A cluster can set the environment of all its pods, which must start. The SDK ignores such a value, and sends the spans to localhost.
func TestTracingFlags_AnInvalidEndpointOfTheEnvironmentSwitchesTracingOff(t *testing.T) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		for _, endpoint := range []string{"collector:4317", "10.0.0.1:4317", "http://", "/x", "http://collector:4318/v1/traces", "http://collector:99999"} {
			t.Run(variable+"="+endpoint, func(t *testing.T) {
				t.Setenv(variable, endpoint)
				var log fixture.LockedBuffer
				traces, err := (&Tracing{Sample: 5}).Open(t.Context(), prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
				if err != nil || traces.Tracer != nil {
					t.Errorf("%v, %v, want no error and no traces", traces, err)
				}
				want := fmt.Sprintf("%s %q is invalid: must be a URL such as http://collector:4317", variable, endpoint)
				if text := strings.ReplaceAll(log.String(), `\"`, `"`); !strings.Contains(text, "WARN") || !strings.Contains(text, want) {
					t.Errorf("log %s, want %s", text, want)
				}
			})
		}
	}
}
