package memstore_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
)

// scan returns the keys of a whole scan in the order in which it finds them, and the cursors. before runs before each call.
func scan(t *testing.T, s *memstore.Store, keys limiter.KeyRange, n int, before func(call int)) (found, cursors []string) {
	t.Helper()
	cursor := ""
	for call := range 1000 {
		before(call)
		page, next, err := s.Scan(t.Context(), keys, cursor, n)
		if err != nil || len(page) > n {
			t.Fatalf("from %q: %q, %v", cursor, page, err)
		}
		found = append(found, page...)
		if cursor = next; cursor == "" {
			return found, cursors
		}
		cursors = append(cursors, cursor)
	}
	t.Fatal("the scan does not end")
	return nil, nil
}

func TestScan_FindsEachKeyOfTheRangeOnce(t *testing.T) {
	s := memstore.New(newHand().Now)
	l := limitOf(t, limiter.FixedWindow, 10, time.Hour)
	for i := range 6 {
		spend(t, s, fmt.Sprintf("a:%d", i), l, 1)
		spend(t, s, fmt.Sprintf("b:%d", i), l, 1)
	}
	want := []string{"a:5", "a:4", "a:3", "a:2", "a:1", "a:0"}
	for n, cursors := range map[int][]string{1: {"11", "10", "9", "8", "7", "6", "5", "4", "3", "2", "1"}, 4: {"8", "4"}, 5: {"7", "2"}, 12: nil, 100: nil} {
		found, got := scan(t, s, limiter.KeyRange{Prefix: "a:"}, n, func(int) {})
		if !slices.Equal(found, want) || !slices.Equal(got, cursors) {
			t.Errorf("%d counters a call: %q, cursors %q, want %q, %q", n, found, got, want, cursors)
		}
	}
}

// A reset moves another counter. A scan that has begun still finds the others.
func TestScan_FindsWhatExistsDuringTheWholeScan(t *testing.T) {
	l := limitOf(t, limiter.FixedWindow, 10, time.Hour)
	for reset := range 9 {
		s := memstore.New(newHand().Now)
		for i := range 9 {
			spend(t, s, strconv.Itoa(i), l, 1)
		}
		found, _ := scan(t, s, limiter.KeyRange{}, 2, func(call int) {
			if call == 2 {
				if err := s.Reset(t.Context(), []string{strconv.Itoa(reset)}, ""); err != nil {
					t.Fatal(err)
				}
			}
		})
		for i := range 9 {
			if i != reset && !slices.Contains(found, strconv.Itoa(i)) {
				t.Errorf("%d is missing in %q after a reset of %d", i, found, reset)
			}
		}
	}
}

func TestScan_Cursors(t *testing.T) {
	s := memstore.New(newHand().Now)
	spend(t, s, "a", limitOf(t, limiter.FixedWindow, 10, time.Hour), 1)
	for cursor, want := range map[string]string{"0": "[] <nil>", "1": "[a] <nil>", "7": "[a] <nil>", "-1": `[] invalid cursor "-1"`, "x": `[] invalid cursor "x"`} {
		found, next, err := s.Scan(t.Context(), limiter.KeyRange{}, cursor, 10)
		if got := fmt.Sprint(found, " ", err); got != want || next != "" {
			t.Errorf("cursor %q: %s, next %q, want %s", cursor, got, next, want)
		}
	}
}
