package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
)

const (
	// warmUp is by how much the turns of a round before the first are shorter. It opens connections, loads scripts and
	// is not counted.
	warmUp = 5
	// garbage is what may be allocated before it is collected, as in a limiter with a heap of that size. Names of keys
	// make the heap of this process large, and by that alone the collector rare.
	garbage = 32 << 20
)

// opened is a contender that is ready.
type opened struct {
	contender
	decide decide
}

// measureThroughput gives every contender its turn in every round.
func measureThroughput(ctx context.Context, c *clients, contenders []contender, s settings, say func(string, ...any)) (results, error) {
	all, err := openAll(c, contenders, s, say)
	if err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(percentOfHeap(garbage)))
	profiled := &profiler{path: s.cpuProfile}
	measured := results{}
	for round := range s.rounds + 1 {
		for _, callers := range s.callers {
			for turn := range all {
				each := all[(turn+round)%len(all)] // the order begins elsewhere each time
				got, err := each.turn(ctx, c, s, callers, round == 0, profiled)
				if err != nil {
					return nil, fmt.Errorf("%s, %d callers: %w", each.name, callers, err)
				}
				say("round %d of %d, %d callers, %s: %.0f/s", round, s.rounds, callers, each.name, got.perSecond())
				if round > 0 {
					measured.add(callers, each.name, got)
				}
			}
		}
	}
	return measured, profiled.write()
}

func openAll(c *clients, contenders []contender, s settings, say func(string, ...any)) ([]opened, error) {
	var all []opened
	for _, each := range contenders {
		say("names of %d keys for %s", s.keys, each.name)
		decide, err := each.open(c, workload{limit: limitUnits, window: s.window, keys: s.keys, prefix: each.name + ":"})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", each.name, err)
		}
		all = append(all, opened{contender: each, decide: decide})
	}
	return all, nil
}

// turn is a contender's in one round; warming, a short one that is not profiled.
func (o opened) turn(ctx context.Context, c *clients, s settings, callers int, warming bool, p *profiler) (sample, error) {
	turn := slice{decide: o.decide, batch: o.batch, keys: s.keys, callers: callers, length: s.slice, seed: rand.Uint64()}
	if warming {
		turn.length /= warmUp
		return turn.run(ctx, c)
	}
	return p.during(o.name, func() (sample, error) { return turn.run(ctx, c) })
}

// percentOfHeap is what percentage of the heap that is in use now so many bytes are, for the garbage collector.
func percentOfHeap(bytes uint64) int {
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	return int(max(1, 100*bytes/heap.HeapAlloc))
}
