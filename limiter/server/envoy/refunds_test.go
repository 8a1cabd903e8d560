package envoy

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-dev/weir/test/fixture"
)

// A client that can reach the port and has no units left must not be able to give itself new ones.
func TestRateLimit_RejectsRefundsUnlessTheyAreAllowed(t *testing.T) {
	var log fixture.LockedBuffer
	w := serve(t, Options{Engine: newEngine(t, noon(), per("m", 10, time.Minute, "generic_key")), Log: slog.New(slog.NewTextHandler(&log, nil))})
	wantSummary(t, w.ask(t, counting(10, "generic_key=m")), "OK: OK 0")
	for range 2 {
		_, err := w.rls.ShouldRateLimit(t.Context(), request(refunding(10, "generic_key=m")))
		wantError(t, err, codes.PermissionDenied, "descriptors[0].is_negative_hits: refunds are forbidden on this endpoint")
	}
	wantSummary(t, w.ask(t, counting(1, "generic_key=m")), "OVER_LIMIT: OVER_LIMIT 0")
	mixed := w.ask(t, counting(1, "generic_key=other"), refunding(10, "generic_key=m")) // the rest is decided
	wantSummary(t, mixed, "OK: OK 9, OK -")
	wantDefects(t, mixed, "refund")
	wantSummary(t, w.ask(t, counting(1, "generic_key=m")), "OVER_LIMIT: OVER_LIMIT 0")
	if lines := strings.Count(log.String(), "a call refunds units, which this endpoint forbids"); lines != 1 || !strings.Contains(log.String(), "caller=127.0.0.1:") {
		t.Errorf("%d lines about the rejected calls, want 1 with the caller:\n%s", lines, log.String())
	}
}
