package reliability

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// groupFaults are faults of several servers that replicate each other. All counters of the hot tenant are on the server that fails.
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

func sentinel(ctx context.Context) (Setup, error) {
	g, err := fixture.StartRedisSentinel(ctx)
	if err != nil {
		return Setup{}, err
	}
	return Setup{
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

// hotKey is in the slot of all counters of the hot tenant.
const hotKey = "{" + hotTenant + "}"

func clusterFailover(ctx context.Context) (Setup, error) {
	c, err := fixture.StartRedisCluster(ctx)
	if err != nil {
		return Setup{}, err
	}
	return Setup{
		Limiters: c.URL(), Operator: c.URL(), Stop: c.Stop,
		Break: func(ctx context.Context) error {
			_, err := c.KillPrimaryOf(ctx, hotKey)
			return err
		},
		Repair: c.WaitOK,
	}, nil
}

func clusterHole(ctx context.Context) (_ Setup, err error) {
	c, err := fixture.StartRedisCluster(ctx)
	if err != nil {
		return Setup{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	for _, node := range c.Nodes() {
		if err := do(ctx, node, "CONFIG", "SET", "cluster-require-full-coverage", "no"); err != nil {
			return Setup{}, err
		}
	}
	primary, err := c.PrimaryOf(ctx, hotKey)
	if err != nil {
		return Setup{}, err
	}
	nodes := c.Nodes() // primaries, then their replicas in the same order
	nodes[slices.Index(nodes, primary)+len(nodes)/2].Kill()
	return Setup{
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

// leap is a multiple of every window, so that windows keep their boundaries.
const leap = 5 * time.Minute

// clockFaults are steps of the wall clock of the machine on which Redis runs.
func clockFaults() []Fault {
	return []Fault{
		{
			Name:  "clock forwards",
			What:  "the clock of Redis is set 5 min forwards, and back again; windows end immediately, and end again when counters of the wrong time start over",
			Start: clock(leap), Forgets: true, Want: withoutRefill(usual()),
		},
		{
			Name:  "clock backwards",
			What:  "the clock of Redis is set 5 min back, and forwards again; counters of the wrong time start over, and then windows end immediately",
			Start: clock(-leap), Forgets: true, Want: withoutRefill(usual()),
		},
	}
}

// withoutRefill returns want for a fault during which the time of Redis does not advance, so that limits are not refilled.
func withoutRefill(want Expectation) Expectation {
	want.Given = 0.2
	return want
}

func clock(by time.Duration) func(context.Context) (Setup, error) {
	return func(ctx context.Context) (Setup, error) {
		r, clock, err := fixture.StartRedisWithClock(ctx)
		if err != nil {
			return Setup{}, err
		}
		return Setup{
			Limiters: r.URL(), Operator: r.URL(), Stop: r.Stop,
			Break:  func(context.Context) error { return clock.Shift(by) },
			Repair: func(context.Context) error { return clock.Shift(0) },
		}, nil
	}
}
