package bound_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/storetest"
)

// As long as no rule has too many counters, the layer changes nothing.
func TestCounters_Conform(t *testing.T) {
	storetest.Run(t, storetest.Over(inMemory, func(next limiter.Store, clock *storetest.Clock) limiter.Store {
		return bound.New(bound.Identifiers{Max: 1_000_000}, clock.Now).Above(next, nil)
	}))
}

func inMemory(clock func() time.Time) *memstore.Store { return memstore.New(clock) }
