package limiter_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/storetest"
)

// The histories have edits of limits, refunds, and a clock that steps back. A store in memory adds nothing to the algorithms,
// so thousands of steps take less than a second.
func TestState_FollowsTheDefinitionInHistories(t *testing.T) {
	storetest.HistoriesOf(t, func(_ testing.TB, clock *storetest.Clock) storetest.Subject {
		store := memstore.New(clock.Now)
		return storetest.Subject{Store: store, Expires: func(key string) (earliest, latest limiter.Instant, ok bool) {
			at, ok := store.Expires(key)
			return at, at, ok
		}}
	}, 3000)
}
