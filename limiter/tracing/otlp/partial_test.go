package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/weir-dev/weir/test/fixture"
)

// choosy is a collector that rejects some spans of each batch.
type choosy struct {
	collectorv1.UnimplementedTraceServiceServer

	rejected int64
	message  string
}

func (c choosy) Export(context.Context, *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	return &collectorv1.ExportTraceServiceResponse{
		PartialSuccess: &collectorv1.ExportTracePartialSuccess{RejectedSpans: c.rejected, ErrorMessage: c.message},
	}, nil
}

func TestExporter_CountsWhatACollectorAcceptsPartially(t *testing.T) {
	for _, test := range []struct {
		collector          choosy
		exported, rejected float64
		log                string // "": nothing is logged
	}{
		{choosy{}, 100, 0, ""},
		{choosy{message: "note"}, 100, 0, "rejected=0 spans=100 message=note"},
		{choosy{rejected: 1, message: "note"}, 99, 1, "rejected=1 spans=100 message=note"},
		{choosy{rejected: 1}, 99, 1, "rejected=1 spans=100"},
		{choosy{rejected: 1000}, 0, 100, "rejected=100 spans=100"},
		{choosy{rejected: -1}, 100, 0, ""},
	} {
		t.Run(fmt.Sprint(test.collector.rejected, test.collector.message), func(t *testing.T) {
			var config net.ListenConfig
			l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer()
			collectorv1.RegisterTraceServiceServer(s, test.collector)
			go func() { _ = s.Serve(l) }()
			t.Cleanup(s.Stop)
			var log fixture.LockedBuffer
			e, registry, stop := start(t, Options{Endpoint: "http://" + l.Addr().String(), Log: slog.New(slog.NewTextHandler(&log, nil))})
			for range 100 {
				trace(e)
			}
			stop()
			exported, dropped := value(t, registry, "weir_trace_spans_total", ""), value(t, registry, "weir_trace_dropped_total", "export")
			if exported != test.exported || dropped != test.rejected {
				t.Errorf("exported %v, dropped %v, want %v and %v", exported, dropped, test.exported, test.rejected)
			}
			if got := log.String(); !strings.Contains(got, test.log) || test.log == "" && got != "" {
				t.Errorf("the log is %q, want %q", got, test.log)
			}
		})
	}
}

// The timeout of an export is longer than the end of a process.
func TestExporter_LostSpansAtTheEndAreLoggedAndCounted(t *testing.T) {
	var config net.ListenConfig
	silent, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	var log fixture.LockedBuffer
	e, registry, stop := start(t, Options{Endpoint: "http://" + silent.Addr().String(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 100 {
		trace(e)
	}
	stop()
	n := value(t, registry, "weir_trace_dropped_total", "export")
	if lines := strings.Count(log.String(), "before the process ended"); n != 100 || lines != 1 || !strings.Contains(log.String(), "spans=100") {
		t.Errorf("100 spans are lost: counted %v, log %q", n, log.String())
	}
}
