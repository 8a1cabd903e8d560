package reliability

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter/wait"
	"github.com/weir-dev/weir/test/fixture"
)

// recoveryTimeout is how long a trial waits after the repair until all limiters decide with Redis again.
const recoveryTimeout = 15 * time.Second

// Plan is the load and the duration of a run.
type Plan struct {
	Rate   int // requests per second
	Limit  int64
	Window time.Duration
	// Warm is the time before the fault, and Hold the duration of the fault. For a fault that heals, Hold is the time of observation.
	Warm, Hold time.Duration
	// Settled is that of Trial.
	Settled time.Duration
	Seed    uint64
}

// Quick is the plan of every run of the tests: a window is longer than a fault.
func Quick() Plan {
	return Plan{
		Rate: 1200, Limit: 90, Window: 3 * time.Second, Warm: 750 * time.Millisecond, Hold: 1250 * time.Millisecond, Settled: 500 * time.Millisecond,
		Seed: 1,
	}
}

// Long is the plan for published numbers: windows end before, during and after a fault.
func Long() Plan {
	return Plan{Rate: 1500, Limit: 200, Window: 5 * time.Second, Warm: 7 * time.Second, Hold: 8 * time.Second, Settled: time.Second, Seed: 1}
}

// Run starts a Redis and runs a fault with limiter processes of the binary at weir.
func Run(ctx context.Context, weir string, f Fault, p Plan) (_ *Trial, err error) {
	setup, err := f.Start(ctx)
	if err != nil {
		return nil, fmt.Errorf("run fault %q: %w", f.Name, err)
	}
	defer func() { err = errors.Join(err, setup.Stop()) }()
	return RunOn(ctx, weir, f, setup, p)
}

// RunOn runs a fault on a Redis that has been started for it.
func RunOn(ctx context.Context, weir string, f Fault, setup Setup, p Plan) (_ *Trial, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("run fault %q: %w", f.Name, err)
		}
	}()
	all := policies(p.Limit, p.Window)
	world, err := startWorld(ctx, weir, setup, all)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, world.stop()) }()

	l := newLoad(p.Rate, world.urls, all, p.Seed)
	t := &Trial{
		Fault: f.Name, Policies: all, Limiters: limiters, HotPerSecond: hotPerSecond(p.Rate, len(all)),
		Forgets: f.Forgets, Outages: f.Outages, Settled: p.Settled, Began: micros(time.Now()),
	}
	loading, stopLoad := context.WithCancel(ctx)
	var generator sync.WaitGroup
	generator.Go(func() { l.run(loading) })
	err = t.play(ctx, f, setup, p, l.journal)
	stopLoad()
	generator.Wait()
	t.Ended, t.Answers = micros(time.Now()), l.journal.read()
	return t, err
}

// play breaks and repairs Redis under the load, and waits until the limiters have recovered.
func (t *Trial) play(ctx context.Context, f Fault, on Setup, p Plan, log *journal) error {
	if err := pause(ctx, p.Warm); err != nil {
		return err
	}
	if err := t.untilRedisDecides(ctx, log, t.Began); err != nil {
		return fmt.Errorf("before the fault: %w", err)
	}
	broken := time.Now()
	if err := on.Break(ctx); err != nil {
		return err
	}
	if !f.Heals {
		if err := pause(ctx, p.Hold); err != nil {
			return err
		}
	}
	if err := on.Repair(ctx); err != nil {
		return err
	}
	repaired := time.Now()
	t.Broken, t.Repaired, t.FaultEnd = micros(broken), micros(repaired), micros(repaired)
	if f.Heals {
		t.FaultEnd = max(t.FaultEnd, micros(broken.Add(p.Hold)))
	}
	switch err := t.untilRedisDecides(ctx, log, t.Repaired); {
	case err == nil:
		t.Settling = micros(time.Now())
	case ctx.Err() != nil:
		return err // otherwise, that the limiters have not recovered is part of the result
	}
	return pause(ctx, time.Until(time.UnixMicro(t.FaultEnd)))
}

// untilRedisDecides waits until all answers have come from Redis for the time t.Settled.
func (t *Trial) untilRedisDecides(ctx context.Context, log *journal, since int64) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	return fixture.Poll(ctx, pollInterval, func(context.Context) error {
		if last, ended := recovery(log.read(), t.Limiters, since, micros(time.Now()), t.Settled); !ended {
			return fmt.Errorf("not every limiter decides with Redis; the last answer without Redis arrived after %v", last)
		}
		return nil
	})
}

// pause waits for d while the load continues.
func pause(ctx context.Context, d time.Duration) error {
	if !wait.Sleep(ctx, d) {
		return ctx.Err()
	}
	return nil
}
