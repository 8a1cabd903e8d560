package engine_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
)

// BenchmarkSwap activates an edit of one of n policies in 100 namespaces. Each policy has decided requests. It reports what the process holds meanwhile,
// compared with what it holds when idle.
func BenchmarkSwap(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			versions := editedSets(n)
			e, _ := newLayered(memstore.New(time.Now), engine.SourceMemory, prometheus.NewRegistry(),
				store.Layers{Bound: bound.New(bound.Identifiers{Max: 1000}, time.Now)})
			swap := func(i int) *matching.Index {
				x, err := matching.Update(e.Index(), versions[i%2], strconv.Itoa(i), "weir:")
				if err != nil {
					b.Fatal(err)
				}
				e.Swap(x)
				return x
			}
			swap(0)
			for i := range n {
				c := request(1, acme())
				c.Request.Domain, c.Request.Path = fmt.Sprintf("n%d", i%100), fmt.Sprint("/", i)
				if answer, err := e.Check(b.Context(), c); err != nil || len(answer.Results) != 1 {
					b.Fatal(answer, err)
				}
			}
			e.Decided() // as a heartbeat does: the first decisions of all policies are not those of an edit
			b.ReportAllocs()
			i := 1
			for b.Loop() {
				swap(i)
				i++
			}
			previous := e.Index()
			swap(i)
			swapping := heldBytes()
			runtime.KeepAlive(previous)
			b.ReportMetric(swapping/heldBytes(), "held/idle")
			runtime.KeepAlive(e)
		})
	}
}

// editedSets returns two versions of n policies in 100 namespaces, of which one policy differs.
func editedSets(n int) (versions [2]*rules.Sharded) {
	for i := range versions {
		list := make([]rules.Rule, n)
		for j := range list {
			list[j] = rule(fmt.Sprintf("n%d/p%05d", j%100, j), 1000)
			list[j].Match.Paths = []rules.PathMatch{{Type: rules.PathExact, Value: fmt.Sprint("/", j)}}
		}
		list[n/2].Units += int64(i)
		versions[i] = rules.Split(rules.Set{Rules: list})
	}
	for i, shard := range versions[1].Shards {
		if reflect.DeepEqual(shard, versions[0].Shards[i]) {
			versions[1].Shards[i] = versions[0].Shards[i]
		}
	}
	return versions
}

// BenchmarkCheck_WhileRulesAreSwapped decides 5000 requests a second among 10 000 policies, in turns without edits and with 20 edits a second. It reports
// the 99th percentile of the time from when a request is due until it is decided.
func BenchmarkCheck_WhileRulesAreSwapped(b *testing.B) {
	const policies, interval, round = 10_000, 200 * time.Microsecond, 2 * time.Second
	versions := editedSets(policies)
	e, _ := newLayered(memstore.New(time.Now), engine.SourceMemory, prometheus.NewRegistry(), store.Layers{})
	swap := func(i int) {
		x, err := matching.Update(e.Index(), versions[i%2], strconv.Itoa(i), "weir:")
		if err != nil {
			b.Error(err)
			return
		}
		e.Swap(x)
	}
	swap(0)
	var took [2][]time.Duration // quiet, swapping
	for b.Loop() {
		for swapping := range took {
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				tick := time.NewTicker(50 * time.Millisecond)
				defer tick.Stop()
				for i := 1; swapping == 1; i++ {
					select {
					case <-stop:
						return
					case <-tick.C:
						swap(i)
					}
				}
			}()
			began := time.Now()
			for i := 0; time.Since(began) < round; i++ {
				due := began.Add(time.Duration(i) * interval)
				for time.Now().Before(due) {
					runtime.Gosched()
				}
				c := request(1, acme())
				c.Request.Domain, c.Request.Path = fmt.Sprintf("n%d", i%100), fmt.Sprint("/", i%policies)
				if answer, err := e.Check(b.Context(), c); err != nil || len(answer.Results) != 1 {
					b.Fatal(answer, err)
				}
				took[swapping] = append(took[swapping], time.Since(due))
			}
			close(stop)
			<-stopped
		}
	}
	p99 := func(of []time.Duration) float64 {
		slices.Sort(of)
		return float64(of[len(of)*99/100].Nanoseconds())
	}
	b.ReportMetric(p99(took[0]), "quiet-p99-ns")
	b.ReportMetric(p99(took[1]), "swapping-p99-ns")
}

func heldBytes() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
