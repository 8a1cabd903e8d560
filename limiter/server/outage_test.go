package server

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOutageLog(t *testing.T) {
	type event struct {
		after  time.Duration // the one before
		failed bool
	}
	const fails, answers = true, false
	const failing = "level=ERROR msg=\"the store fails; requests that a policy matches get 503\" error=refused "
	const again = "level=INFO msg=\"the store works again\" "
	tests := map[string]struct {
		events []event
		want   string
	}{
		"nothing to say while all is well": {[]event{{0, answers}, {time.Second, answers}}, ""},
		"one line at the beginning, one at the end": {
			[]event{{0, fails}, {time.Second, fails}, {time.Second, fails}, {2 * time.Second, answers}, {time.Second, answers}},
			failing + "failed=1 for=0s\n" + again + "failed=3 for=2s\n",
		},
		"a line every ten seconds while it lasts": {
			[]event{{0, fails}, {9 * time.Second, fails}, {time.Second, fails}, {9 * time.Second, fails}},
			failing + "failed=1 for=0s\n" + failing + "failed=3 for=10s\n",
		},
		"successes in between do not end it": {
			[]event{{0, fails}, {time.Millisecond, answers}, {time.Millisecond, fails}, {time.Millisecond, answers}},
			failing + "failed=1 for=0s\n",
		},
		"the next outage is told at once, however soon it comes": {
			[]event{{0, fails}, {2 * time.Second, answers}, {time.Second, fails}, {8 * time.Second, fails}, {2 * time.Second, fails}},
			failing + "failed=1 for=0s\n" + again + "failed=1 for=0s\n" + failing + "failed=1 for=0s\n" + failing + "failed=3 for=10s\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			withoutTime := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}
			outage := outageLog{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime}))}
			now := noon
			for _, e := range test.events {
				now = now.Add(e.after)
				if e.failed {
					outage.failure(now, errors.New("refused"))
				} else {
					outage.success(now)
				}
			}
			if diff := cmp.Diff(test.want, log.String()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}
