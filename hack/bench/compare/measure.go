package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-dev/weir/hack/bench/rlsload"
)

// warmUp divides the duration of the turns of a first round that is not counted.
const warmUp = 3

// sample is the result of one turn.
type sample struct {
	*rlsload.Result

	limiter, redis time.Duration // CPU time
}

// results are the samples of both revisions for each load, one per round.
type results map[string]*[2][]sample

// measure gives both revisions a turn with each load in each round. The revision that begins alternates.
func (w *world) measure(ctx context.Context, s settings, progress func(string, ...any)) (results, error) {
	measured := results{}
	for round := range s.rounds + 1 {
		length := s.slice
		if round == 0 {
			length /= warmUp
		}
		for _, l := range w.loads {
			if measured[l.name] == nil {
				measured[l.name] = &[2][]sample{}
			}
			var rates [2]float64
			for turn := range 2 {
				side := (turn + round) % 2
				got, err := w.setups[l.nodes][side].turn(ctx, l.generate(s.keys), length)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", l.name, err)
				}
				if rates[side] = got.PerSecond(); round > 0 {
					measured[l.name][side] = append(measured[l.name][side], got)
				}
			}
			progress("round %d of %d, %s: base %.0f/s, head %.0f/s", round, s.rounds, l.name, rates[base], rates[head])
		}
	}
	return measured, nil
}

func (s *setup) turn(ctx context.Context, l rlsload.Load, length time.Duration) (sample, error) {
	limiterBefore, redisBefore, err := s.cpu(ctx)
	if err != nil {
		return sample{}, err
	}
	result, err := s.client.Run(ctx, l, length)
	if err != nil {
		return sample{}, err
	}
	if result.Decided() == 0 {
		return sample{}, fmt.Errorf("no request was decided, %d failed", result.Failed+result.Shed)
	}
	limiter, redis, err := s.cpu(ctx)
	return sample{Result: result, limiter: limiter - limiterBefore, redis: redis - redisBefore}, err
}

// cpu returns the CPU time that the limiter and Redis have used.
func (s *setup) cpu(ctx context.Context) (limiter, redis time.Duration, err error) {
	if limiter, err = s.limiter.CPU(ctx); err != nil {
		return 0, 0, err
	}
	redis, err = s.redis.CPU(ctx)
	return limiter, redis, err
}
