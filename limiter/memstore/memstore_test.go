package memstore_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/storetest"
)

func subject(_ testing.TB, clock *storetest.Clock) storetest.Subject {
	store := memstore.New(clock.Now)
	return storetest.Subject{Store: store, Expires: func(key string) (earliest, latest limiter.Instant, ok bool) {
		at, ok := store.Expires(key)
		return at, at, ok
	}}
}

func TestStore_Conforms(t *testing.T) { storetest.Run(t, subject) }

// Random histories find here what the algorithms of package limiter do wrong: ten times as many take less than a second.
func TestStore_ConformsInLongHistories(t *testing.T) { storetest.HistoriesOf(t, subject, 3000) }
