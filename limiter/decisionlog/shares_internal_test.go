package decisionlog

import (
	"strconv"
	"testing"
	"time"
)

// admitted returns how many of n events of a domain are admitted.
func (s *shares) admitted(domain string, n int, now time.Time) (events int) {
	for range n {
		if s.admit(domain, now) {
			events++
		}
	}
	return events
}

func TestShares_OneDomainLeavesOthersTheirShare(t *testing.T) {
	s, now := newShares(100), time.Unix(1_800_000_000, 0)
	check := func(domain string, n, want int) {
		t.Helper()
		if got := s.admitted(domain, n, now); got != want {
			t.Errorf("%s: %d of %d events are admitted, want %d", domain, got, n, want)
		}
	}
	check("hostile", 1000, 100)
	check("shop", 1, 1)
	check("billing", 1000, 33)
	now = now.Add(time.Second)
	check("hostile", 1000, 33) // three domains were active
	check("shop", 1000, 33)
	check("new", 1000, 33)
	now = now.Add(time.Second)
	check("hostile", 1000, 33)
	now = now.Add(time.Second)
	check("hostile", 1000, 100)
	now = now.Add(-time.Hour) // the clock was set back
	check("hostile", 1000, 100)
}

func TestShares_AreBounded(t *testing.T) {
	s, now := newShares(20_000), time.Unix(1_800_000_000, 0)
	for second := range 3 {
		total := 0
		for i := range 3 * maxShares {
			total += s.admitted(strconv.Itoa(i), 200, now)
		}
		if most := 40_000; total > most || second > 0 && total > most/2 {
			t.Errorf("second %d: %d events are admitted", second, total)
		}
		if len(s.counts) > maxShares+1 {
			t.Errorf("%d domains are stored, want at most %d", len(s.counts), maxShares+1)
		}
		now = now.Add(time.Second)
	}
}
