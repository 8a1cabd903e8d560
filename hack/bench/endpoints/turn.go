package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/limiter/wait"
)

const (
	// warmUp divides the duration of the turns in an extra first round, which opens connections and loads scripts.
	warmUp = 3
	// denialLife is how long a denial stays in the cache. Older denials must expire before the cache is filled again.
	denialLife = 10 * time.Second
)

// measure runs one turn of each row in each round.
func (w *world) measure(ctx context.Context, s settings, logf func(string, ...any)) (results, error) {
	measured := results{}
	for round := range s.rounds + 1 {
		for turn := range w.contenders {
			c := &w.contenders[(turn+round)%len(w.contenders)]
			length := s.slice
			if round == 0 {
				length /= warmUp
			}
			got, err := w.turn(ctx, c, s, length)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			logf("round %d of %d, %s: %.0f/s", round, s.rounds, c.name, got.perSecond())
			if round > 0 {
				measured[c.name] = append(measured[c.name], got)
			}
		}
	}
	return measured, nil
}

// usage is the processor time and the decisions of all processes so far.
type usage struct {
	client, redis time.Duration
	server        totals
}

func (w *world) usage(ctx context.Context, of *server) (u usage, err error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return usage{}, fmt.Errorf("processor time of this process: %w", err)
	}
	u.client = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	if u.redis, err = w.redisProcessor(ctx); err != nil {
		return usage{}, err
	}
	u.server, err = of.totals(ctx)
	return u, err
}

// turn measures one row in one round.
func (w *world) turn(ctx context.Context, c *contender, s settings, length time.Duration) (sample, error) {
	if c.known {
		if err := c.fillDenials(ctx, s, length); err != nil {
			return sample{}, fmt.Errorf("fill the denial cache: %w", err)
		}
	}
	runtime.GC()
	before, err := w.usage(ctx, c.server)
	if err != nil {
		return sample{}, err
	}
	var over atomic.Bool
	timer := time.AfterFunc(length, func() { over.Store(true) })
	defer timer.Stop()
	took := make([][]time.Duration, s.callers)
	group, groupCtx := errgroup.WithContext(ctx)
	begin := time.Now()
	for caller := range s.callers {
		group.Go(func() (err error) {
			took[caller], err = c.keepAsking(groupCtx, caller, s.keys, &over)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return sample{}, err
	}
	elapsed := time.Since(begin)
	after, err := w.usage(ctx, c.server)
	latencies := slices.Concat(took...)
	slices.Sort(latencies)
	used := after.server.since(before.server)
	return sample{
		requests: len(latencies), elapsed: elapsed,
		p50: latencies[len(latencies)/2], p99: latencies[len(latencies)*99/100],
		client: after.client - before.client, server: used.processor, redis: after.redis - before.redis,
		cached: used.cached / max(1, used.decisions),
	}, err
}

func (c *contender) keepAsking(ctx context.Context, caller, keys int, over *atomic.Bool) ([]time.Duration, error) {
	took := make([]time.Duration, 0, 1<<12)
	for !over.Load() {
		begin := time.Now()
		allowed, err := c.ask(ctx, caller, rand.IntN(keys))
		if err != nil {
			return nil, fmt.Errorf("after %d requests: %w", len(took), err)
		}
		if allowed != c.allowed {
			return nil, fmt.Errorf("after %d requests: allowed %v, which was not to be", len(took), allowed)
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

// fillDenials sends requests for each key until it is denied. It first waits until older cached denials have expired, unless they
// will certainly last for the length of the turn.
func (c *contender) fillDenials(ctx context.Context, s settings, length time.Duration) error {
	if time.Until(c.server.dueAt) > denialLife/2+length {
		return nil
	}
	if !wait.Sleep(ctx, time.Until(c.server.dueAt)) {
		return ctx.Err()
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for caller := range s.callers {
		group.Go(func() error {
			for key := caller; key < s.keys; key += s.callers {
				for allowed := true; allowed; {
					var err error
					if allowed, err = c.ask(groupCtx, caller, key); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	err := group.Wait()
	c.server.dueAt = time.Now().Add(denialLife)
	return err
}
