package redisstore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
)

func TestDecodeReply_FailsIfNumbersAreMissing(t *testing.T) {
	store := NewStore(openURL(t, "redis://127.0.0.1:1"), patience)
	charges := []limiter.Charge{{Key: "a"}, {Key: "b"}}
	whole := []int64{1_000_000, 4*7 + 1, 5, -6, 4*8 + 1 + 2, 9, -(1<<53 - 1), 10}
	for n := range whole {
		calls := []*call{{charges: charges}}
		store.decodeReply(calls, numbersReply(t, whole[:n]))
		if got := calls[0].reply; got.err == nil || got.decisions != nil {
			t.Errorf("%d of %d numbers: got %+v, want an error", n, len(whole), got)
		}
	}
	calls := []*call{{charges: charges}}
	store.decodeReply(calls, numbersReply(t, whole))
	want := result{decisions: []limiter.Decision{
		{At: 1_000_000, Remaining: 7, ResetAfter: 5 * time.Microsecond, RetryAfter: 6 * time.Microsecond},
		{At: 1_000_010, Ahead: 10 * time.Microsecond, Remaining: 8, ResetAfter: 9 * time.Microsecond, RetryAfter: limiter.Never},
	}}
	if diff := cmp.Diff(want, calls[0].reply, cmp.AllowUnexported(result{}), cmpopts.EquateErrors()); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// numbersReply returns a reply with these numbers.
func numbersReply(t *testing.T, numbers []int64) *redis.IntSliceCmd {
	t.Helper()
	cmd := redis.NewIntSliceCmd(t.Context())
	cmd.SetVal(numbers)
	return cmd
}
