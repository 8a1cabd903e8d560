package lease

import (
	"fmt"
	"hash/maphash"
	"testing"
	"time"
)

func at(d time.Duration) instant { return instant(d) }

// charges adds n charges of key, and reports whether the counter was busy at the last one.
func (d *demand) charges(n int, key string, now time.Duration) (busy bool) {
	for range n {
		busy = d.add(key, at(now))
	}
	return busy
}

func TestDemand_ACounterIsBusyFromTheFourthChargeInAboutASecond(t *testing.T) {
	const half = 500 * time.Millisecond
	for name, test := range map[string]struct {
		charges func(*demand) bool
		busy    bool
	}{
		"three charges":                {func(d *demand) bool { return d.charges(3, "a", 0) }, false},
		"four charges":                 {func(d *demand) bool { return d.charges(4, "a", 0) }, true},
		"many charges":                 {func(d *demand) bool { return d.charges(100, "a", 0) }, true},
		"one after a busy interval":    {func(d *demand) bool { d.charges(100, "a", 0); return d.charges(1, "a", half) }, false},
		"two after a busy interval":    {func(d *demand) bool { d.charges(100, "a", 0); return d.charges(2, "a", half) }, true},
		"three after an idle interval": {func(d *demand) bool { d.charges(100, "a", 0); return d.charges(3, "a", 2*half) }, false},
		"four after an idle interval":  {func(d *demand) bool { d.charges(100, "a", 0); return d.charges(4, "a", 2*half) }, true},
		"two and three":                {func(d *demand) bool { d.charges(2, "a", 0); return d.charges(3, "a", half) }, true},
		"two and two":                  {func(d *demand) bool { d.charges(2, "a", 0); return d.charges(2, "a", half) }, false},
	} {
		if got := test.charges(&demand{seed: maphash.MakeSeed()}); got != test.busy {
			t.Errorf("%s: busy is %v, want %v", name, got, test.busy)
		}
	}
}

func TestDemand_AnotherCounterOfTheSlotMustOutweighTheFirst(t *testing.T) {
	d := &demand{seed: maphash.MakeSeed()}
	slot := func(key string) uint64 { return maphash.String(d.seed, key) % demandSlots }
	other := ""
	for i := 0; other == "" || slot(other) != slot("a"); i++ {
		other = fmt.Sprint("other-", i)
	}
	d.charges(9, "a", 0) // counts as four
	if d.charges(3, other, 0) {
		t.Error("the other counter is busy immediately")
	}
	if d.charges(2, "a", 0) || !d.charges(1, "a", 0) {
		t.Error("three charges of the other counter do not cancel three of the first")
	}
	if d.charges(4+3, other, 0) || !d.charges(1, other, 0) {
		t.Error("the other counter is not busy with the fourth charge after it has cancelled the first")
	}
}
