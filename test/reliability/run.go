package reliability

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// recoveryPatience is how long after a repair a trial waits for Redis to decide again.
const recoveryPatience = 15 * time.Second

// Plan is how a fault is played.
type Plan struct {
	Rate   int // requests per second
	Limit  int64
	Window time.Duration
	// Warm is the time before the fault, Hold that of the fault; of one that repairs itself, how long it is looked at.
	Warm, Hold time.Duration
	Seed       uint64
}

// Quick is for every run of the tests: a window is longer than a fault.
func Quick() Plan {
	return Plan{Rate: 1200, Limit: 120, Window: 4 * time.Second, Warm: 1500 * time.Millisecond, Hold: 2 * time.Second, Seed: 1}
}

// Long is for numbers to be published: windows end within a fault, and before and after it.
func Long() Plan {
	return Plan{Rate: 1500, Limit: 200, Window: 5 * time.Second, Warm: 7 * time.Second, Hold: 8 * time.Second, Seed: 1}
}

// Run plays a fault against limiters, the binary at weir.
func Run(ctx context.Context, weir string, f Fault, p Plan) (_ *Trial, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("play %q: %w", f.Name, err)
		}
	}()
	ground, err := f.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ground.Stop()) }()
	all := policies(p.Limit, p.Window)
	world, err := startWorld(ctx, weir, ground, all)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, world.stop()) }()

	l := newLoad(p.Rate, world.urls, all, p.Seed)
	t := &Trial{
		Fault: f.Name, Policies: all, Limiters: limiters, HotPerSecond: hotPerSecond(p.Rate, len(all)),
		Forgets: f.Forgets, Outages: f.Outages, Began: micros(time.Now()),
	}
	loading, stopLoad := context.WithCancel(ctx)
	var generator sync.WaitGroup
	generator.Go(func() { l.run(loading) })
	err = t.play(ctx, f, ground, p, l.journal)
	stopLoad()
	generator.Wait()
	t.Ended, t.Answers = micros(time.Now()), l.journal.read()
	return t, err
}

// play breaks and repairs the ground under the load, and waits for what follows.
func (t *Trial) play(ctx context.Context, f Fault, on Ground, p Plan, log *journal) error {
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
	if err := t.untilRedisDecides(ctx, log, t.Repaired); err != nil && ctx.Err() != nil {
		return err // that it has not recovered is a result, else
	}
	return pause(ctx, time.Until(time.UnixMicro(t.FaultEnd)))
}

// untilRedisDecides waits until every answer has come from Redis for a while.
func (t *Trial) untilRedisDecides(ctx context.Context, log *journal, since int64) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryPatience)
	defer cancel()
	return poll(ctx, func() error {
		if last, ended := recovery(log.read(), t.Limiters, since, micros(time.Now())); !ended {
			return fmt.Errorf("not every limiter decides with Redis; the last other answer came after %v", last)
		}
		return nil
	})
}

// pause waits for so long: the load goes on meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
