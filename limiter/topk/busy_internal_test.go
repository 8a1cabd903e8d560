package topk

import (
	"strconv"
	"testing"
	"time"
)

// A decision does not wait for a summary that another processor updates. An identifier with a counter is counted nevertheless. A request of
// another one is in the count and in the error of each identifier of the summary, so that both bounds hold.
func TestAdd_CountsWhatFindsASummaryBusyAsAnError(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := New(now)
	s.Add("shop/tenant", "acme", now)
	neighbor := "0" // in the same summary
	for i := 1; s.Summary("shop/tenant", neighbor) != s.Summary("shop/tenant", "acme"); i++ {
		neighbor = strconv.Itoa(i)
	}
	for i := range s.all {
		s.all[i].busy.Lock()
	}
	for range 3 {
		s.Add("shop/tenant", "acme", now)
		s.Add("shop/tenant", neighbor, now)
	}
	for i := range s.all {
		s.all[i].busy.Unlock()
	}
	s.Add("shop/tenant", "acme", now)
	got := s.Top(10, "", now)
	if want := (Entry{Policy: "shop/tenant", Identifier: "acme", Requests: 8, Error: 3}); len(got.Identifiers) != 1 || got.Identifiers[0] != want {
		t.Errorf("%+v, want %+v", got.Identifiers, want)
	}
	if got.Unlisted != 3 { // those of the neighbor
		t.Errorf("unlisted at most %d, want 3", got.Unlisted)
	}
}
