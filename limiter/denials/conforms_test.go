package denials_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/storetest"
)

func TestCache_Conforms(t *testing.T) {
	var subjects []storetest.Subject
	factory := storetest.Over(inMemory, func(next limiter.Store, clock *storetest.Clock) limiter.Store {
		known := denials.NewCache(1000, clock.Now)
		return known.Answers(known.Learns(next))
	})
	storetest.Run(t, func(tb testing.TB, clock *storetest.Clock) storetest.Subject {
		subjects = append(subjects, factory(tb, clock))
		return subjects[len(subjects)-1]
	})
	known := 0
	for _, s := range subjects {
		known += s.Decided()[limiter.OriginDenial]
	}
	if known < 100 {
		t.Errorf("only %d denials were known: this test has proved little", known)
	}
}

func inMemory(clock func() time.Time) *memstore.Store { return memstore.New(clock) }
