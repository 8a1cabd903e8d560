package lease_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/storetest"
)

// Charges without terms have no leases, and the layers change nothing. What leases guarantee is in docs/concepts/leases.md.
func TestLayers_ConformWithoutTerms(t *testing.T) {
	storetest.Run(t, storetest.Over(inMemory, func(next limiter.Store, clock *storetest.Clock) limiter.Store {
		leases := lease.New(reliable{next}, clock.Now)
		return leases.Admit(leases.Borrow(next))
	}))
}

func inMemory(clock func() time.Time) *memstore.Store { return memstore.New(clock) }
