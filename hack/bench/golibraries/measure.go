package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// keys is the number of clients.
const keys = 10_000

// decide decides a request of a client, whose number is below keys.
type decide func(ctx context.Context, client int) error

// contender is a library to compare.
type contender struct {
	name string
	// open returns a decide for each caller.
	open func() (each func() decide, closes func(), err error)
}

// measured has the results of a contender, one of each round.
type measured struct {
	name                       string
	decide                     func() decide
	micros, allocations, bytes []float64
}

// turn lets callers decide for a time. It keeps the results if the turn counts.
func (m *measured) turn(ctx context.Context, callers int, length time.Duration, counts bool) error {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make([]int, callers)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for caller := range callers {
		decide, random := m.decide(), rand.New(rand.NewPCG(uint64(caller), 1)) // the same clients for each contender
		group.Go(func() error {
			const unclocked = 16 // decisions between two looks at the clock
			for time.Since(began) < length {
				for range unclocked {
					if err := decide(ctx, random.IntN(keys)); err != nil {
						return err
					}
				}
				done[caller] += unclocked
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if !counts {
		return nil
	}
	var sum float64
	for _, n := range done {
		sum += float64(n)
	}
	m.micros = append(m.micros, float64(took.Nanoseconds())/1000/sum)
	m.allocations = append(m.allocations, float64(after.Mallocs-before.Mallocs)/sum)
	m.bytes = append(m.bytes, float64(after.TotalAlloc-before.TotalAlloc)/sum)
	return nil
}

func span(numbers []float64) (low, high float64) { return slices.Min(numbers), slices.Max(numbers) }
