package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is the result of one turn of a contender.
type sample struct {
	decisions, denied int64
	elapsed           time.Duration
	latency           time.Duration // the median of its calls; 0 with more than one caller
	used              usage
}

// perSecond returns the decisions per second.
func (s sample) perSecond() float64 { return float64(s.decisions) / s.elapsed.Seconds() }

// perMillion returns the seconds of CPU time for a million decisions.
func (s sample) perMillion(used time.Duration) float64 {
	return used.Seconds() / float64(s.decisions) * 1e6
}

// turn is a period in which one contender decides.
type turn struct {
	decide  decide
	batch   int
	keys    int
	callers int
	length  time.Duration
	seed    uint64

	over   atomic.Bool
	calls  atomic.Int64
	denied atomic.Int64
}

// run lets the callers decide requests for random keys until the end of the turn. It first collects the garbage of other turns.
func (s *turn) run(ctx context.Context, c *clients) (sample, error) {
	runtime.GC()
	before, err := used(ctx, c)
	if err != nil {
		return sample{}, err
	}
	var latencies []time.Duration
	group, groupCtx := errgroup.WithContext(ctx)
	timer := time.AfterFunc(s.length, func() { s.over.Store(true) })
	defer timer.Stop()
	begin := time.Now()
	for caller := range uint64(max(1, s.callers/s.batch)) {
		random := rand.New(rand.NewPCG(s.seed, caller))
		group.Go(func() (err error) {
			if s.callers == 1 {
				latencies, err = s.decideTimed(groupCtx, random)
				return err
			}
			return s.decideUntilOver(groupCtx, random)
		})
	}
	if err := group.Wait(); err != nil {
		return sample{}, err
	}
	elapsed := time.Since(begin)
	after, err := used(ctx, c)
	return sample{
		decisions: s.calls.Load() * int64(s.batch), denied: s.denied.Load() * int64(s.batch), elapsed: elapsed,
		latency: medianDuration(latencies), used: after.since(before),
	}, err
}

func (s *turn) decideUntilOver(ctx context.Context, random *rand.Rand) error {
	var calls, denied int64
	for !s.over.Load() && ctx.Err() == nil {
		allowed, err := s.decide(ctx, random.IntN(s.keys))
		if err != nil {
			return fmt.Errorf("after %d calls: %w", calls, err)
		}
		calls++
		if !allowed {
			denied++
		}
	}
	s.calls.Add(calls)
	s.denied.Add(denied)
	return ctx.Err()
}

// decideTimed is decideUntilOver for a single caller, and returns the durations of its calls.
func (s *turn) decideTimed(ctx context.Context, random *rand.Rand) ([]time.Duration, error) {
	var latencies []time.Duration
	decide := s.decide
	s.decide = func(ctx context.Context, i int) (bool, error) {
		begin := time.Now()
		allowed, err := decide(ctx, i)
		latencies = append(latencies, time.Since(begin))
		return allowed, err
	}
	err := s.decideUntilOver(ctx, random)
	return latencies, err
}

func medianDuration(durations []time.Duration) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	return durations[len(durations)/2]
}
