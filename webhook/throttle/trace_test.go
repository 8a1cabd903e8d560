package throttle

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/limiter/tracing"
)

// The audit log of the API server names the trace, and the trace names the review, which the API server logs too.
func TestHandler_TracesSampledWrites(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	recorder := tracetest.NewSpanRecorder()
	tracer := tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)), tracing.Options{MaxPerSecond: 10})
	h := NewHandler(newEngine(t, atNoon(), limit("a", 1, time.Hour)), newTestSettings(t, defaultOptions()), Telemetry{Tracer: tracer})
	send := func(flags, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, Path+"?timeout=2s", strings.NewReader(body))
		r.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-"+flags)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	body := string(bytes.TrimSpace(reviewBody(t, "create")))
	if got, named := readReview(t, send("00", body).Body).AuditAnnotations["trace-id"]; named || len(recorder.Started()) != 0 {
		t.Errorf("a write that is not sampled has the trace %q", got)
	}
	response := readReview(t, send("01", body).Body)
	if got := response.AuditAnnotations["trace-id"]; got != trace {
		t.Errorf("the audit log names the trace %q, want %q", got, trace)
	}
	send("01", "{}")
	var got []string
	for _, s := range recorder.Ended() {
		line := s.Name()
		for _, a := range s.Attributes() {
			switch a.Key {
			case "weir.admission.uid", "weir.result", "http.response.status_code":
				line += " " + a.Value.String()
			}
		}
		got = append(got, line)
	}
	want := []string{"match", "spend", "/v1/throttle denied " + string(response.UID) + " 200", "/v1/throttle 400"}
	if !slices.Equal(got, want) {
		t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
