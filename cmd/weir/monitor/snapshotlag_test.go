package monitor

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

func TestSnapshotLag_IsMeasuredPeriodically(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	data, revision := rules.Encode(rules.Set{})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var active atomic.Pointer[string]
	active.Store(&revision)
	l := NewSnapshotLag(path, func() string { return *active.Load() }, prometheus.NewPedanticRegistry())
	l.interval = time.Millisecond
	done := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		l.Run(ctx)
		close(done)
	}()
	defer func() { stop(); <-done }()
	active.Store(new("sha256:edited"))
	fixture.Await(t, "a lag", func() bool { return testutil.ToFloat64(l.seconds) > 0 })
	active.Store(&revision)
	fixture.Await(t, "no lag", func() bool { return testutil.ToFloat64(l.seconds) == 0 })
}
