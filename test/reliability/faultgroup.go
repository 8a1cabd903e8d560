package reliability

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// groupFaults befall servers that stand in for one another. All counters of the hot tenant lie on the one that is lost.
func groupFaults() []Fault {
	return []Fault{
		{
			Name: "Sentinel failover", What: "`kill -9` of the primary; Sentinels promote one of two replicas",
			Start: sentinel, Heals: true, Want: usual(),
		},
		{
			Name: "Cluster failover", What: "`kill -9` of one primary of three; its replica takes over",
			Start: clusterFailover, Heals: true, Want: usual(), Short: true,
		},
		{
			Name:  "Cluster, slots lost",
			What:  "`kill -9` of a primary without replica (`cluster-require-full-coverage no`), started again later; all data is lost",
			Start: clusterHole, Forgets: true, Want: usual(),
		},
	}
}

func sentinel(ctx context.Context) (Ground, error) {
	g, err := fixture.StartRedisSentinel(ctx)
	if err != nil {
		return Ground{}, err
	}
	return Ground{
		Limiters: g.URL(), Operator: g.URL(), Stop: g.Stop,
		Break: func(ctx context.Context) error {
			_, err := g.KillPrimary(ctx)
			return err
		},
		Repair: func(ctx context.Context) error {
			_, err := g.Primary(ctx)
			return err
		},
	}, nil
}

// hotKey lies in the slot of all counters of the hot tenant.
const hotKey = "{" + hotTenant + "}"

func clusterFailover(ctx context.Context) (Ground, error) {
	c, err := fixture.StartRedisCluster(ctx)
	if err != nil {
		return Ground{}, err
	}
	return Ground{
		Limiters: c.URL(), Operator: c.URL(), Stop: c.Stop,
		Break: func(ctx context.Context) error {
			_, err := c.KillPrimaryOf(ctx, hotKey)
			return err
		},
		Repair: c.WaitOK,
	}, nil
}

func clusterHole(ctx context.Context) (_ Ground, err error) {
	c, err := fixture.StartRedisCluster(ctx)
	if err != nil {
		return Ground{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	for _, node := range c.Nodes() {
		if err := do(ctx, node, "CONFIG", "SET", "cluster-require-full-coverage", "no"); err != nil {
			return Ground{}, err
		}
	}
	primary, err := c.PrimaryOf(ctx, hotKey)
	if err != nil {
		return Ground{}, err
	}
	nodes := c.Nodes() // primaries, then their replicas in the same order
	nodes[slices.Index(nodes, primary)+len(nodes)/2].Kill()
	return Ground{
		Limiters: c.URL(), Operator: c.URL(), Stop: c.Stop,
		Break: func(context.Context) error {
			primary.Kill()
			return nil
		},
		Repair: func(ctx context.Context) error {
			if err := primary.Restart(ctx); err != nil {
				return err
			}
			return c.WaitOK(ctx)
		},
	}, nil
}

// leap is a multiple of every window, so that these begin when they did.
const leap = 5 * time.Minute

// clockFaults befall the wall clock of the machine that Redis runs on.
func clockFaults() []Fault {
	return []Fault{
		{
			Name: "clock forwards", What: "the clock of Redis is set 5 min forwards, and back again; windows end immediately, and then the time of the counters does not advance",
			Start: clock(leap), Forgets: true, Want: stands(usual()),
		},
		{
			Name: "clock backwards", What: "the clock of Redis is set 5 min back, and forwards again; the time of the counters does not advance meanwhile",
			Start: clock(-leap), Want: stands(usual()),
		},
	}
}

// stands is want where time stands still for a while, and nothing is refilled.
func stands(want Expectation) Expectation {
	want.Given = 0.2
	return want
}

func clock(by time.Duration) func(context.Context) (Ground, error) {
	return func(ctx context.Context) (Ground, error) {
		r, clock, err := fixture.StartRedisWithClock(ctx)
		if err != nil {
			return Ground{}, err
		}
		return Ground{
			Limiters: r.URL(), Operator: r.URL(), Stop: r.Stop,
			Break:  func(context.Context) error { return clock.Shift(by) },
			Repair: func(context.Context) error { return clock.Shift(0) },
		}, nil
	}
}
