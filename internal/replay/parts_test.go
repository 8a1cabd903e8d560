package replay

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/internal/accesslog/format"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter"
)

func TestTimeline_KeepsAllRequestsWhileItsBucketsGrow(t *testing.T) {
	for _, step := range []time.Duration{time.Second, 7 * time.Second, time.Minute, 25 * time.Hour, 500 * 24 * time.Hour} {
		tl := newTimeline(2)
		at := time.Date(2001, 3, 4, 5, 6, 7, 0, time.UTC)
		first := at
		var times []int64
		const requests = 2000
		for i := range requests {
			times = append(times, at.Unix())
			tl.advance(limiter.At(at))
			tl.count(0, i%2 == 0)
			tl.count(1, false)
			at = at.Add(step)
		}
		var sum result.Cell
		for _, c := range tl.columns[0] {
			sum.Requests += c.Requests
			sum.Denied += c.Denied
		}
		if sum != (result.Cell{Requests: requests, Denied: requests / 2}) || len(tl.columns[0]) > maxBuckets || len(tl.columns[1]) != len(tl.columns[0]) {
			t.Errorf("%v: %+v in %d and %d buckets", step, sum, len(tl.columns[0]), len(tl.columns[1]))
		}
		want := make([]int64, len(tl.columns[0]))
		for _, second := range times {
			want[min(second/tl.seconds-tl.first, maxBuckets-1)]++
		}
		for i, c := range tl.columns[0] {
			if c.Requests != want[i] {
				t.Fatalf("%v: bucket %d has %d requests, want %d", step, i, c.Requests, want[i])
			}
		}
		if tl.start().After(first) || first.Sub(tl.start()) >= time.Duration(tl.seconds)*time.Second {
			t.Errorf("%v: begins at %v, the first request is at %v", step, tl.start(), first)
		}
	}
}

// Each length is a multiple of the one before it: otherwise a bucket would have to be divided.
func TestWidths_CanBeJoined(t *testing.T) {
	all := widths()
	for i := range all[1:] {
		if all[i+1]%all[i] != 0 {
			t.Errorf("%d is no multiple of %d", all[i+1], all[i])
		}
	}
}

func TestTop_HasTheHighestCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	counts, list := make([]uint32, 5000), newTop()
	for range 100_000 {
		number := int(random.ExpFloat64()*400) % len(counts)
		counts[number]++
		list.set(number, counts[number], string(rune('a'+number%26)))
	}
	want := slices.Clone(counts)
	slices.SortFunc(want, func(a, b uint32) int { return int(b) - int(a) })
	items := list.sorted()
	if len(items) != maxTop || len(list.places) != maxTop {
		t.Fatalf("%d items, %d places", len(items), len(list.places))
	}
	for i, item := range items {
		if item.count != want[i] || counts[item.number] != item.count {
			t.Errorf("item %d has %d, want %d; the entry has %d", i, item.count, want[i], counts[item.number])
		}
	}
}

// The reader of a log accepts lines of megabytes, and a list must not keep a hundred of their identifiers.
func TestTop_CutsIdentifiers(t *testing.T) {
	list := newTop()
	list.set(1, 2, strings.Repeat("é", 1<<20))
	list.set(2, 1, "short")
	if items := list.sorted(); items[0].identifier != strings.Repeat("é", 126)+"…" || items[1].identifier != "short" {
		t.Errorf("%d bytes, %q", len(items[0].identifier), items[1].identifier)
	}
}

func TestBins_AreContiguous(t *testing.T) {
	next := int64(0)
	for bin := range maxBin + 1 {
		from, to := binBounds(bin)
		if to < from {
			continue // small bins that have no whole number
		}
		if from != next || binOf(from) != bin || binOf(to) != bin {
			t.Fatalf("bin %d is %d … %d, want it to begin at %d", bin, from, to, next)
		}
		next = to + 1
	}
	if next < 1<<32 {
		t.Errorf("the last bin ends at %d", next-1)
	}
}

func TestLadder_EndsAboveThePeak(t *testing.T) {
	tests := []struct {
		own, peak int64
		want      []int64
	}{
		{60, 67, []int64{7, 10, 15, 20, 30, 40, 50, 60, 70}},
		{10, 3, []int64{1, 2, 3, 10}},
		{limiter.MaxUnits, 3, []int64{1, 2, 3}},
		{5, 1, []int64{1, 5}},
	}
	for _, test := range tests {
		if got := ladder(test.own, test.peak); !slices.Equal(got, test.want) {
			t.Errorf("%d and %d: %v, want %v", test.own, test.peak, got, test.want)
		}
	}
	if long := ladder(10, 100_000_000); len(long) > maxPoints+1 || long[len(long)-1] < 100_000_000 {
		t.Errorf("%v", long)
	}
}

// A script run decides several requests at one instant, and the log has them in any order.
func TestSettle_OrdersDecisionsOfOneInstant(t *testing.T) {
	decision := func(result, tenant string, tenantLeft int64, ip string, ipLeft int64) accesslog.Record {
		r := accesslog.Record{Start: start, Recorded: &accesslog.Recorded{Result: result, Policy: "shop/tenant", Identifier: tenant, Remaining: tenantLeft}}
		r.Recorded.Others = append(r.Recorded.Others, format.RecordedPolicy{Policy: "shop/ip", Identifier: ip, Remaining: ipLeft})
		return r
	}
	truth := []accesslog.Record{
		decision("allowed", "a", 3, "1", 2), decision("allowed", "b", 5, "1", 1), decision("allowed", "a", 2, "2", 8), decision("allowed", "b", 4, "1", 0),
		decision("denied", "c", 7, "1", 0), decision("allowed", "c", 6, "2", 7),
	}
	for i := range truth {
		truth[i].Line = i
	}
	for range 50 {
		shuffled := slices.Clone(truth)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		settle(shuffled)
		at := make([]int, len(truth))
		for i := range shuffled {
			at[shuffled[i].Line] = i
		}
		for _, pair := range [][2]int{{0, 1}, {1, 3}, {0, 2}, {3, 4}, {4, 5}, {2, 5}} { // of one counter
			if at[pair[0]] > at[pair[1]] {
				t.Fatalf("%v: %d is after %d", at, pair[0], pair[1])
			}
		}
	}
}
