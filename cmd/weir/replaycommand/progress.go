package replaycommand

import (
	"fmt"
	"io"
	"time"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/internal/replay"
	"github.com/weir-dev/weir/internal/terminal"
)

// progressInterval is the time between two lines about the progress.
const progressInterval = 5 * time.Second

// showProgress prints lines about the progress until end is called. A replay that is shorter than the interval prints nothing.
func showProgress(notes io.Writer, reader *accesslog.Reader, r *replay.Replay) (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				terminal.Println(notes, progress(r.Requests(), reader.Stats(), now.Sub(began)))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// progress returns, for example, "4200000 requests, 840000/s, 31 % of the log, about 12s left".
func progress(requests int64, stats accesslog.Stats, took time.Duration) string {
	text := fmt.Sprintf("%d requests, %.0f/s", requests, float64(requests)/took.Seconds())
	if stats.TotalBytes > 0 && stats.Bytes > 0 {
		part := min(float64(stats.Bytes)/float64(stats.TotalBytes), 1)
		left := time.Duration(float64(took) * (1 - part) / part)
		text += fmt.Sprintf(", %.0f %% of the log, about %v left", 100*part, left.Round(time.Second))
	}
	return text
}
