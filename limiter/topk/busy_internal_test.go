package topk

import (
	"strconv"
	"testing"
	"time"
)

// neighbor returns another identifier in the same summary.
func (s *Sketch) neighbor(of string) string {
	for i := 0; ; i++ {
		if id := strconv.Itoa(i); s.Summary("shop/tenant", id) == s.Summary("shop/tenant", of) {
			return id
		}
	}
}

// A decision does not wait for a summary that another processor updates. An identifier with a counter is counted nevertheless. A request of
// another one is in the count and in the error of each identifier of the summary, so that both bounds hold.
func TestAdd_CountsWhatFindsASummaryBusyAsAnError(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := New(now)
	s.Add("shop/tenant", "acme", now)
	neighbor := s.neighbor("acme")
	for i := range s.summaries {
		s.summaries[i].busy.Lock()
	}
	for range 3 {
		s.Add("shop/tenant", "acme", now)
		s.Add("shop/tenant", neighbor, now)
	}
	for i := range s.summaries {
		s.summaries[i].busy.Unlock()
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

// A list adds the errors of both periods, and of all times at which a summary was busy.
func TestTop_AddsTheErrorsOfBothPeriods(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := New(now)
	neighbor := s.neighbor("acme")
	of := &s.summaries[s.Summary("shop/tenant", "acme")]
	miss := func() {
		of.busy.Lock()
		s.Add("shop/tenant", neighbor, now)
		of.busy.Unlock()
		s.Top(1, "", now) // takes the missed request into the period
	}
	s.Add("shop/tenant", "acme", now)
	miss()
	miss()
	now = now.Add(Period)
	s.Add("shop/tenant", "acme", now)
	miss()
	got := s.Top(10, "", now)
	if want := (Entry{Policy: "shop/tenant", Identifier: "acme", Requests: 5, Error: 3}); len(got.Identifiers) != 1 || got.Identifiers[0] != want {
		t.Errorf("%+v, want %+v", got.Identifiers, want)
	}
	if got.Unlisted != 3 {
		t.Errorf("unlisted at most %d, want 3", got.Unlisted)
	}
}
