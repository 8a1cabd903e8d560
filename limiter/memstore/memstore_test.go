package memstore_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/storetest"
)

func TestStore_Conforms(t *testing.T) {
	storetest.Run(t, func(_ testing.TB, clock *storetest.Clock) storetest.Subject {
		store := memstore.New(clock.Now)
		return storetest.Subject{Store: store, Expires: func(key string) (earliest, latest limiter.Instant, ok bool) {
			at, ok := store.Expires(key)
			return at, at, ok
		}}
	})
}
