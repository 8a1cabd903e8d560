package topk_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/topk"
)

const policy = "shop/tenant"

func entry(policy, identifier string, requests, errors int64) topk.Entry {
	return topk.Entry{Policy: policy, Identifier: identifier, Requests: requests, Error: errors}
}

func certain(e topk.Entry) int64 { return e.Requests - e.Error }

func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// expectBounds compares a list with the true numbers of requests by policy and identifier.
func expectBounds(t rapid.TB, list topk.List, truth map[string]int64) {
	t.Helper()
	listed := map[string]bool{}
	for i, e := range list.Identifiers {
		key := e.Policy + " " + e.Identifier
		listed[key] = true
		if n := truth[key]; n > e.Requests || n < e.Requests-e.Error {
			t.Errorf("%s: %d requests with an error of %d, in truth %d", key, e.Requests, e.Error, n)
		}
		if i > 0 && certain(list.Identifiers[i-1]) < certain(e) {
			t.Errorf("%s is after an identifier with fewer certain requests", key)
		}
	}
	for key, n := range truth {
		if !listed[key] && n > list.Unlisted {
			t.Errorf("%s has %d requests and is not listed; unlisted ones have at most %d", key, n, list.Unlisted)
		}
	}
}

// The identifiers of a case are in four of the summaries, so that a few thousand requests fill them.
func TestTop_KeepsItsBounds(t *testing.T) {
	full := 0
	rapid.Check(t, func(t *rapid.T) {
		now := epoch()
		s := topk.New(now)
		ids := crowd(s, rapid.SampledFrom([]int{1, 30, 100, 400}).Draw(t, "identifiers"))
		var before, recent map[string]int64
		for range rapid.IntRange(1, 4).Draw(t, "periods") {
			before, recent = recent, map[string]int64{}
			random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
			for range rapid.SampledFrom([]int{0, 100, 1000, 3000}).Draw(t, "requests") {
				id := ids[int(float64(len(ids))*random.Float64()*random.Float64()*random.Float64())]
				s.Add(policy, id, now)
				recent[policy+" "+id]++
			}
			now = now.Add(topk.Period)
		}
		now = now.Add(-topk.Period)
		for key, n := range before {
			recent[key] += n
		}
		if s.Top(10_000, "", now).Unlisted > 0 {
			full++
		}
		expectBounds(t, s.Top(rapid.SampledFrom([]int{1, 10, 100, 10_000}).Draw(t, "n"), "", now), recent)
	})
	if full < 20 {
		t.Errorf("%d cases filled a summary, want at least 20", full)
	}
}

// crowd returns n identifiers that share four of the summaries.
func crowd(s *topk.Sketch, n int) []string {
	ids := make([]string, 0, n)
	for i := 0; len(ids) < n; i++ {
		if id := strconv.Itoa(i); s.Summary(policy, id) < 4 {
			ids = append(ids, id)
		}
	}
	return ids
}

// zipf draws identifiers as the clients of an interface are distributed: few make most of the requests.
func zipf(n int, exponent float64, identifiers uint64) []string {
	draw := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), exponent, 1, identifiers-1)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("tenant-%d", draw.Uint64())
	}
	return ids
}

// A hot identifier is counted by several processors, and others share its summary. An identifier without a counter can find the summary busy,
// and this is in the error of all others there: it must not list them before identifiers with more requests.
func TestTop_ListsBusyIdentifiersBeforeTheNeighborsOfAHotOne(t *testing.T) {
	s := topk.New(epoch())
	for i := range 4000 {
		s.Add(policy, fmt.Sprint("once-", i), epoch())
	}
	for range 100 {
		for i := range 20 {
			s.Add(policy, fmt.Sprint("busy-", i), epoch())
		}
	}
	const goroutines, requests = 8, 20_000
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for range requests {
				s.Add(policy, "hot", epoch())
			}
		})
	}
	group.Wait()
	list := s.Top(21, "", epoch())
	if hot := list.Identifiers[0]; hot.Identifier != "hot" || hot.Requests < goroutines*requests {
		t.Errorf("first is %+v, want hot with at least %d requests", hot, goroutines*requests)
	}
	for _, e := range list.Identifiers[1:] {
		if !strings.HasPrefix(e.Identifier, "busy-") {
			t.Errorf("%+v is among the first 21", e)
		}
	}
}

func TestMerge_ListsWhatIsCertainFirst(t *testing.T) {
	got := topk.Merge(1, topk.List{Identifiers: []topk.Entry{entry("p", "bystander", 900, 899), entry("p", "busy", 100, 0)}})
	if len(got.Identifiers) != 1 || got.Identifiers[0] != entry("p", "busy", 100, 0) || got.Unlisted != 900 {
		t.Errorf("%+v, want busy, and at most 900 requests of others", got)
	}
}

// The error is compared with what a full count of a million identifiers finds.
func TestTop_OfAZipfLoad(t *testing.T) {
	const requests = 200_000
	for _, exponent := range []float64{1.05, 1.2, 1.5} {
		s, truth := topk.New(epoch()), map[string]int64{}
		for _, id := range zipf(requests, exponent, 1_000_000) {
			s.Add(policy, id, epoch())
			truth[policy+" "+id]++
		}
		list := s.Top(100, "", epoch())
		expectBounds(t, list, truth)
		counts := make([]int64, 0, len(truth))
		for _, n := range truth {
			counts = append(counts, n)
		}
		slices.Sort(counts)
		slices.Reverse(counts)
		var largest int64
		found := 0
		for _, e := range list.Identifiers {
			n := truth[e.Policy+" "+e.Identifier]
			largest = max(largest, e.Requests-n)
			if n >= counts[99] {
				found++
			}
		}
		t.Logf("exponent %.2f: %d of the 100 largest of %d found; largest error %d (%.4f %% of the requests); the 100th has %d; unlisted at most %d",
			exponent, found, len(truth), largest, 100*float64(largest)/requests, counts[99], list.Unlisted)
		if largest > requests/1000 {
			t.Errorf("exponent %.2f: the largest error is %d, more than 0.1 %% of the requests", exponent, largest)
		}
		if want := 95; found < want {
			t.Errorf("exponent %.2f: %d of the 100 largest found, want at least %d", exponent, found, want)
		}
	}
}

func TestTop_CoversTwoPeriods(t *testing.T) {
	s, now := topk.New(epoch()), epoch()
	for range 3 {
		s.Add(policy, "acme", now)
	}
	want := func(requests int64, since time.Duration) {
		t.Helper()
		var got int64
		if list := s.Top(10, "", now); len(list.Identifiers) > 0 {
			got = list.Identifiers[0].Requests
		}
		if got != requests || !s.Since(now).Equal(epoch().Add(since)) {
			t.Errorf("%v: %d requests since %v, want %d since %v", now.Sub(epoch()), got, s.Since(now).Sub(epoch()), requests, since)
		}
	}
	want(3, 0)
	now = epoch().Add(119 * time.Second)
	s.Add(policy, "acme", now)
	want(4, 0)
	now = epoch().Add(120 * time.Second)
	want(1, time.Minute)
	if end := s.PeriodEnd(now); !end.Equal(epoch().Add(180 * time.Second)) {
		t.Errorf("the period ends at %v", end)
	}
	now = epoch().Add(180 * time.Second)
	want(0, 2*time.Minute)
}

// A processor can have read the clock before another one began a period.
func TestAdd_CountsLateRequestsInTheCurrentPeriod(t *testing.T) {
	s, late := topk.New(epoch()), epoch().Add(topk.Period-1)
	s.Add(policy, "acme", epoch().Add(topk.Period))
	s.Add(policy, "acme", late)
	s.Add(policy, "acme", late)
	if got := s.Top(10, "", epoch().Add(topk.Period)).Identifiers; !slices.Equal(got, []topk.Entry{entry(policy, "acme", 3, 0)}) {
		t.Errorf("%+v, want 3 requests of acme", got)
	}
}

// What a period could not list is no error of later periods.
func TestTop_ForgetsTheErrorsOfEarlierPeriods(t *testing.T) {
	s, now := topk.New(epoch()), epoch()
	for _, id := range crowd(s, 400) {
		s.Add(policy, id, now)
	}
	if s.Top(10_000, "", now).Unlisted == 0 {
		t.Error("no summary was full")
	}
	now = now.Add(2 * topk.Period)
	s.Add(policy, "acme", now)
	if got := s.Top(10, "", now); got.Unlisted != 0 || !slices.Equal(got.Identifiers, []topk.Entry{entry(policy, "acme", 1, 0)}) {
		t.Errorf("%+v, want one request of acme and no errors", got)
	}
}

// The commands read the list as JSON.
func TestTop_OfNoRequestsIsAnEmptyList(t *testing.T) {
	for name, list := range map[string]topk.List{"sketch": topk.New(epoch()).Top(10, "", epoch()), "merged": topk.Merge(10)} {
		if text, err := json.Marshal(list); err != nil || string(text) != `{"identifiers":[],"unlisted":0}` {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

func TestTop_SelectsAPolicy(t *testing.T) {
	s := topk.New(epoch())
	for range 5 {
		s.Add("shop/a", "acme", epoch())
	}
	s.Add("shop/b", "acme", epoch())
	s.Add("shop/b", "beta", epoch())
	s.Add("shop/b", "acme", epoch())
	list := s.Top(1, "shop/b", epoch())
	want := topk.List{Identifiers: []topk.Entry{{Policy: "shop/b", Identifier: "acme", Requests: 2}}, Unlisted: 1}
	if len(list.Identifiers) != 1 || list.Identifiers[0] != want.Identifiers[0] || list.Unlisted != want.Unlisted {
		t.Errorf("%+v, want %+v", list, want)
	}
	if all := s.Top(10, "", epoch()); len(all.Identifiers) != 3 || all.Identifiers[0].Policy != "shop/a" || all.Unlisted != 0 {
		t.Errorf("%+v", all)
	}
}

func TestTop_CutsLongIdentifiers(t *testing.T) {
	s := topk.New(epoch())
	for id, want := range map[string]string{
		"":                               "",
		strings.Repeat("a", 63):          strings.Repeat("a", 63),
		strings.Repeat("b", 64):          strings.Repeat("b", 60) + "…",
		strings.Repeat("c", 59) + "éééé": strings.Repeat("c", 59) + "…",
	} {
		s.Add(id, id, epoch())
		if got := s.Top(1, id, epoch()).Identifiers; id != "" && (len(got) != 1 || got[0].Identifier != want) {
			t.Errorf("%q: %+v, want %q", id, got, want)
		}
	}
}

// Requests that find a summary busy are in the error.
func TestAdd_KeepsItsBoundsFromSeveralProcessors(t *testing.T) {
	s := topk.New(epoch())
	const goroutines, requests = 8, 4_000
	var group sync.WaitGroup
	for i := range goroutines {
		group.Go(func() {
			for j := range requests {
				s.Add(policy, "acme", epoch())
				if j%1000 == 0 {
					s.Top(10, "", epoch())
				}
				s.Add(policy, fmt.Sprint(i, j), epoch())
			}
		})
	}
	group.Wait()
	first := s.Top(1, "", epoch()).Identifiers[0]
	t.Logf("%+v", first)
	// How many find a summary busy depends on the processors: TestAdd_CountsWhatFindsASummaryBusyAsAnError counts them exactly.
	if n := int64(goroutines * requests); first.Identifier != "acme" || first.Requests < n || first.Requests-first.Error > n {
		t.Errorf("%+v, want bounds around %d requests of acme", first, n)
	}
}

// Counters change their identifiers while other processors count.
func TestAdd_KeepsItsBoundsWhileCountersChangeIdentifiers(t *testing.T) {
	s := topk.New(epoch())
	ids, truths := crowd(s, 100), [4]map[string]int64{}
	var group sync.WaitGroup
	for i := range truths {
		truths[i] = map[string]int64{}
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 20_000 {
				id := ids[int(float64(len(ids))*random.Float64()*random.Float64())]
				s.Add(policy, id, epoch())
				truths[i][policy+" "+id]++
			}
		})
	}
	group.Wait()
	sum := map[string]int64{}
	for _, truth := range truths {
		for key, n := range truth {
			sum[key] += n
		}
	}
	expectBounds(t, s.Top(1000, "", epoch()), sum)
}

func TestSketch_TakesOneMebibyteAndAllocatesNothing(t *testing.T) {
	if size := unsafe.Sizeof(topk.Sketch{}); size > 1<<20 { //nolint:exhaustruct // its size
		t.Errorf("a sketch has %d bytes", size)
	}
	s, ids, i := topk.New(epoch()), zipf(10_000, 1.05, 1_000_000), 0
	if got := testing.AllocsPerRun(len(ids)-1, func() {
		s.Add(policy, ids[i], epoch())
		i++
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestMerge_KeepsTheBounds(t *testing.T) {
	truth := map[string]int64{}
	var lists []topk.List
	ids := zipf(40_000, 1.1, 100_000)
	for replica := range 3 {
		s := topk.New(epoch())
		for i, id := range ids {
			if i%3 == replica || i%7 == 0 { // each has other requests of most identifiers
				s.Add(policy, id, epoch())
				truth[policy+" "+id]++
			}
		}
		lists = append(lists, s.Top(100, "", epoch()))
	}
	merged := topk.Merge(50, lists...)
	expectBounds(t, merged, truth)
	if len(merged.Identifiers) != 50 {
		t.Errorf("%d identifiers", len(merged.Identifiers))
	}
}

func TestMerge_AddsWhatAnotherListCannotRuleOut(t *testing.T) {
	got := topk.Merge(2,
		topk.List{Identifiers: []topk.Entry{entry("p", "a", 10, 1), entry("p", "b", 9, 0), entry("p", "c", 5, 0)}, Unlisted: 4},
		topk.List{Identifiers: []topk.Entry{entry("p", "a", 20, 2), entry("q", "b", 3, 0)}, Unlisted: 2},
		topk.List{},
	)
	want := []topk.Entry{entry("p", "a", 30, 3), entry("p", "b", 11, 2)}
	if !slices.Equal(got.Identifiers, want) || got.Unlisted != 7 {
		t.Errorf("%+v", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	for name, identifiers := range map[string]uint64{"one identifier": 2, "a million identifiers": 1_000_000} {
		s, ids, now := topk.New(epoch()), zipf(1<<16, 1.05, identifiers), epoch()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Add(policy, ids[i&(1<<16-1)], now)
			}
		})
		b.Run(name+" in parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for i := 0; p.Next(); i++ {
					s.Add(policy, ids[i&(1<<16-1)], now)
				}
			})
		})
	}
}
