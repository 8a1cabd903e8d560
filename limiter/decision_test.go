package limiter_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
)

func TestCompareStrictness_OrdersStrictestFirst(t *testing.T) {
	strictestFirst := []limiter.Decision{
		{Limit: 5, RetryAfter: limiter.Never},
		{Limit: 1000, Remaining: 900, RetryAfter: time.Hour}, // a cost above what is left
		{Limit: 5, RetryAfter: time.Minute},
		{Allowed: true, Limit: 1_000_000_000, Remaining: 0},
		{Allowed: true, Limit: 1_000_000_000, Remaining: 499_999_999},
		{Allowed: true, Limit: 2, Remaining: 1},
		{Allowed: true, Limit: 1_000_000_000, Remaining: 500_000_001},
		{Allowed: true, Limit: 7, Remaining: 7},
	}
	got := slices.Clone(strictestFirst)
	slices.Reverse(got)
	slices.SortFunc(got, limiter.CompareStrictness)
	if diff := cmp.Diff(strictestFirst, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	equal := limiter.CompareStrictness(
		limiter.Decision{Allowed: true, Limit: 10, Remaining: 5}, limiter.Decision{Allowed: true, Limit: 100, Remaining: 50})
	if equal != 0 {
		t.Errorf("5 of 10 and 50 of 100 compare as %d, want 0", equal)
	}
}
