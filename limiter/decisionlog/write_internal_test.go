package decisionlog

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// lastRecord is a context that ends when its user begins to wait for its end. At the same moment, the last record is queued.
type lastRecord struct {
	context.Context //nolint:containedctx // this is a context

	queue chan<- Record
	end   context.CancelFunc
}

func (c *lastRecord) Done() <-chan struct{} {
	if c.Err() == nil {
		c.queue <- Record{}
		c.end()
	}
	return c.Context.Done()
}

func TestWrite_WritesTheRecordsThatAreQueuedAtItsEnd(t *testing.T) {
	const times = 100
	var out bytes.Buffer
	l, err := New(Options{Identifiers: Counted, Handler: slog.NewJSONHandler(&out, nil)}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		ctx, end := context.WithCancel(t.Context())
		l.write(&lastRecord{ctx, l.queue, end})
	}
	if n := bytes.Count(out.Bytes(), []byte{'\n'}); n != times {
		t.Errorf("%d of %d records were written", n, times)
	}
}
