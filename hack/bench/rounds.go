package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
)

const (
	// warmUp is the factor by which turns of the warm-up round are shorter. It opens connections and loads scripts, and is not
	// counted.
	warmUp = 5
	// garbage is the number of bytes that may be allocated between garbage collections, as in a limiter with a heap of that
	// size. The names of keys make the heap of this process large: collections would be rare.
	garbage = 32 << 20
)

// opened is a contender that is ready to decide.
type opened struct {
	contender
	decide decide
}

// measureThroughput gives every contender its turn in every round.
func measureThroughput(ctx context.Context, c *clients, contenders []contender, s settings, progress func(string, ...any)) (results, error) {
	all, err := openAll(c, contenders, s, progress)
	if err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(percentOfHeap(garbage)))
	profiled := &profiler{path: s.cpuProfile}
	measured := results{}
	for round := range s.rounds + 1 {
		for _, callers := range s.callers {
			for turn := range all {
				each := all[(turn+round)%len(all)] // each round starts with another contender
				got, err := each.turn(ctx, c, s, callers, round == 0, profiled)
				if err != nil {
					return nil, fmt.Errorf("%s, %d callers: %w", each.name, callers, err)
				}
				progress("round %d of %d, %d callers, %s: %.0f/s", round, s.rounds, callers, each.name, got.perSecond())
				if round > 0 {
					measured.add(callers, each.name, got)
				}
			}
		}
	}
	return measured, profiled.write()
}

func openAll(c *clients, contenders []contender, s settings, progress func(string, ...any)) ([]opened, error) {
	var all []opened
	for _, each := range contenders {
		progress("names of %d keys for %s", s.keys, each.name)
		decide, err := each.open(c, workload{limit: limitUnits, window: s.window, keys: s.keys, prefix: each.name + ":"})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", each.name, err)
		}
		all = append(all, opened{contender: each, decide: decide})
	}
	return all, nil
}

// turn runs the turn of a contender in one round. A warm-up turn is shorter and not profiled.
func (o opened) turn(ctx context.Context, c *clients, s settings, callers int, warming bool, p *profiler) (sample, error) {
	turn := turn{decide: o.decide, batch: o.batch, keys: s.keys, callers: callers, length: s.slice, seed: rand.Uint64()}
	if warming {
		turn.length /= warmUp
		return turn.run(ctx, c)
	}
	return p.during(o.name, func() (sample, error) { return turn.run(ctx, c) })
}

// percentOfHeap returns bytes in percent of the heap in use, for the garbage collector.
func percentOfHeap(bytes uint64) int {
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	return int(max(1, 100*bytes/heap.HeapAlloc))
}
