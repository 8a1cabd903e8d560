package lease

import (
	"context"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// remote counts refunds.
type remote struct {
	limiter.Store

	unavailable bool
	refunds     int64
}

func (r *remote) Unavailable(string) bool { return r.unavailable }

func (r *remote) Refund(_ context.Context, refunds []limiter.Refund) error {
	r.refunds += int64(len(refunds))
	return nil
}

func TestRest_ExpiresUnitsWhileTooManyReturnsWait(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := &remote{unavailable: true}
	l := New(r, func() time.Time { return now })
	limit, err := limiter.NewLimit(limiter.FixedWindow, 1000, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	h := &held{key: "key", limit: limit, returnable: true}
	for range maxReturns + 7 {
		l.rest(h, 1)
	}
	want := func(expired, refunds int64) {
		t.Helper()
		if got := l.metrics.expired.Load(); got != expired || r.refunds != refunds || l.metrics.returned.Load() != refunds {
			t.Errorf("%d units expired and %d were returned, want %d and %d", got, r.refunds, expired, refunds)
		}
	}
	want(7, 0)
	l.Tick(t.Context())
	want(7, 0)
	l.rest(h, 5) // what waits for an unavailable counter counts
	want(12, 0)
	r.unavailable = false
	now = now.Add(retryReturn)
	l.Tick(t.Context())
	want(12, maxReturns)
	l.rest(h, 5) // waits
	want(12, maxReturns)
}
