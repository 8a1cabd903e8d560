package endpoint

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules"
)

// clock returns the time that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

// endpointNames requests the paths /kind/from to /kind/before-1 and returns the set of endpoints that count them.
func endpointNames(e *Set, c *clock, kind string, from, before int) map[string]bool {
	names := map[string]bool{}
	for i := from; i < before; i++ {
		names[e.Name(fmt.Sprintf("/%s/%d", kind, i), c.now)] = true
	}
	return names
}

func TestEndpoints_CountAThousandPathsSeparately(t *testing.T) {
	c := newClock()
	e := New(time.Minute, Max)
	if got := endpointNames(e, c, "first", 0, 1000); len(got) != 1000 || got[rules.OtherEndpoints] {
		t.Fatalf("the first 1000 paths are counted as %d endpoints", len(got))
	}
	if got := endpointNames(e, c, "more", 0, 5000); len(got) != 1 || !got[rules.OtherEndpoints] {
		t.Errorf("the other paths are counted as %d endpoints, want 1", len(got))
	}
	if got := endpointNames(e, c, "first", 0, 1000); len(got) != 1000 || got[rules.OtherEndpoints] {
		t.Errorf("after the other paths, the first paths are counted as %d endpoints", len(got))
	}
}

func TestEndpoints_PeekAgreesWithTheNextRequestAndTakesNoSlot(t *testing.T) {
	c := newClock()
	e := New(time.Minute, 2)
	long := "/" + strings.Repeat("x", 2*maxEndpointText)
	check := func(path, want string) {
		t.Helper()
		for range 3 {
			if got := e.Peek(path, c.now); got != want {
				t.Errorf("a peek counts %.9s as %.9s, want %.9s", path, got, want)
			}
		}
		if got := e.Name(path, c.now); got != want {
			t.Errorf("after a peek, %.9s is counted as %.9s, want %.9s", path, got, want)
		}
	}
	e.Peek("/unused", c.now)
	check(long, long)
	check("/b", "/b")
	check("/c", "*") // begins a window
	check(long, long)
	check("/b", "/b")
	c.at = c.at.Add(time.Minute)
	check("/c", "*") // every path was used
	check("/b", "/b")
	c.at = c.at.Add(time.Minute)
	e.Peek(long, c.now) // is no use
	check("/c", "/c")
	check(long, "*")
}

func TestEndpoints_EvictUnusedPaths(t *testing.T) {
	c := newClock()
	e := New(time.Minute, Max)
	endpointNames(e, c, "junk", 0, 999)
	endpointNames(e, c, "shop", 0, 1)
	for _, later := range []time.Duration{0, 0, time.Minute - 1} { // the first request without a slot begins a window
		c.at = c.at.Add(later)
		endpointNames(e, c, "shop", 0, 1)
		if got := endpointNames(e, c, "late", 0, 1); !got[rules.OtherEndpoints] {
			t.Errorf("%v later, a path without a slot is counted as %v", later, got)
		}
	}
	c.at = c.at.Add(1)
	if got := endpointNames(e, c, "late", 0, 500); len(got) != 500 || got[rules.OtherEndpoints] {
		t.Errorf("after a window, 500 later paths are counted as %d endpoints", len(got))
	}
	if got := endpointNames(e, c, "shop", 0, 1); !got["/shop/0"] {
		t.Errorf("a path that was requested in the window is counted as %v", got)
	}
	if n := len(e.paths); n != 501 {
		t.Errorf("%d paths are stored, want 501", n)
	}
}

func TestEndpoints_CopyAboutOnePathForEachNewOne(t *testing.T) {
	e := New(time.Minute, Max)
	paths := make([]string, Max)
	for i := range paths {
		paths[i] = fmt.Sprint("/", i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, path := range paths {
		e.Name(path, time.Now)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / Max; got > 1024 {
		t.Errorf("a path allocates %d bytes, want at most 1 KiB", got)
	}
	if n := len(*e.snapshot.Load()); n != Max {
		t.Errorf("%d paths can be read without the mutex, want all", n)
	}
}

func TestEndpoints_ReadPathsWithoutTheMutex(t *testing.T) {
	e := New(time.Minute, Max)
	for range 4 {
		for i := range 3 {
			e.Name(fmt.Sprint("/", i), time.Now)
		}
	}
	for i := range 3 {
		if _, found := (*e.snapshot.Load())[fmt.Sprint("/", i)]; !found {
			t.Errorf("path %d takes the mutex after four uses", i)
		}
	}
}

func BenchmarkEndpoints_KnownPath(b *testing.B) {
	e := New(time.Minute, Max)
	endpointNames(e, newClock(), "x", 0, Max)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e.Name("/x/500", time.Now)
		}
	})
}

func TestEndpoints_KeepPathsInUse(t *testing.T) {
	c := newClock()
	e := New(time.Minute, Max)
	for range 10 {
		endpointNames(e, c, "shop", 0, Max)
		if got := endpointNames(e, c, "junk", 0, 100); len(got) != 1 || !got[rules.OtherEndpoints] {
			t.Fatalf("100 more paths are counted as %d endpoints, want 1", len(got))
		}
		c.at = c.at.Add(time.Minute)
	}
}

// Each window without a free slot counts the use of paths again.
func TestEndpoints_EvictPathsThatAreNoLongerUsed(t *testing.T) {
	c := newClock()
	e := New(time.Minute, Max)
	endpointNames(e, c, "shop", 0, Max)
	for range 3 {
		endpointNames(e, c, "late", 0, 1)
		c.at = c.at.Add(30 * time.Second)
		endpointNames(e, c, "shop", 0, Max)
		c.at = c.at.Add(30 * time.Second)
		if got := endpointNames(e, c, "late", 0, 1); !got[rules.OtherEndpoints] {
			t.Fatalf("while all paths are used, another one is counted as %v", got)
		}
	}
	c.at = c.at.Add(time.Minute) // no path was used since
	if got := endpointNames(e, c, "late", 0, 1); !got["/late/0"] {
		t.Errorf("after a window without requests, a new path is counted as %v", got)
	}
}

func TestEndpoints_StorePathsOf128Bytes(t *testing.T) {
	e := New(time.Minute, Max)
	for length, want := range map[int]int{128: 128, 129: 32} {
		e.Name("/"+strings.Repeat("x", length-1), time.Now)
		found := false
		for key := range e.paths {
			found = found || len(key) == want
		}
		if !found {
			t.Errorf("a path of %d bytes is not stored with %d bytes", length, want)
		}
	}
}

// TestEndpoints_BoundTheirNumberInEveryWindow checks the bound on counters in the store. For any requests at any times, a rule
// begins at most twice as many counters in a window as it counts paths, and one more. The counters of the previous window may still exist.
// A path that is counted separately remains so for a window after each request.
func TestEndpoints_BoundTheirNumberInEveryWindow(t *testing.T) {
	const most = 10
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		e := New(time.Minute, most)
		startedAt, requestedAt := map[string]time.Time{}, map[string]time.Time{}
		for range rapid.IntRange(1, 30).Draw(rt, "bursts") {
			from := rapid.IntRange(0, 2*most).Draw(rt, "from")
			before := from + rapid.IntRange(1, most+most/2).Draw(rt, "many")
			names := endpointNames(e, c, "p", from, before)
			for i := from; i < before; i++ {
				path := fmt.Sprint("/p/", i)
				if at, separate := requestedAt[path]; separate && c.at.Sub(at) < time.Minute && !names[path] {
					rt.Fatalf("%s is not counted separately any more, %v after a request", path, c.at.Sub(at))
				}
				delete(requestedAt, path)
				if names[path] {
					requestedAt[path] = c.at
				}
			}
			for name := range names {
				if _, known := startedAt[name]; !known || c.at.Sub(startedAt[name]) >= time.Minute {
					startedAt[name] = c.at
				}
			}
			maps.DeleteFunc(startedAt, func(_ string, at time.Time) bool { return c.at.Sub(at) >= time.Minute })
			if len(startedAt) > 2*most+1 || len(e.paths) > most {
				rt.Fatalf("%d counters in a window, %d stored paths", len(startedAt), len(e.paths))
			}
			c.at = c.at.Add(time.Duration(rapid.IntRange(0, 90).Draw(rt, "seconds")) * time.Second)
		}
	})
}

func TestEndpoints_StoreTheHashOfLongPaths(t *testing.T) {
	e := New(time.Minute, Max)
	long := "/" + strings.Repeat("x", 64<<10)
	for _, path := range []string{long, long + "y", long} {
		if got := e.Name(path, time.Now); got != path {
			t.Errorf("a path of %d bytes is counted as %.40q…", len(path), got)
		}
	}
	for key := range e.paths {
		if len(key) != 32 {
			t.Errorf("the stored key of a path has %d bytes, want 32", len(key))
		}
	}
	if n := len(e.paths); n != 2 {
		t.Errorf("%d paths are stored, want 2", n)
	}
}

func TestEndpoints_AllowConcurrentUse(t *testing.T) {
	e := New(time.Hour, Max)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 3 * Max {
				e.Name(fmt.Sprint("/", i), time.Now)
			}
		})
	}
	group.Wait()
	if n := len(e.paths); n != Max {
		t.Errorf("%d paths are stored, want %d", n, Max)
	}
}
