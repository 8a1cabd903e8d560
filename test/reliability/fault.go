package reliability

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

// Fault is a way in which Redis fails.
type Fault struct {
	Name string
	// What is done, and what is lost, for the documentation.
	What string
	// Start starts a Redis for this fault.
	Start func(context.Context) (Setup, error)
	// Heals means that Redis recovers without repair; Repair waits until it has.
	Heals bool
	// Forgets means that Redis loses counters, not only those of the last second.
	Forgets bool
	// Outages is their number if the fault consists of several.
	Outages int
	Want    Expectation
	// Short faults are run by every run of the tests.
	Short bool
}

// Setup is a Redis that can be broken.
type Setup struct {
	// Limiters is the Redis URL for limiters, Operator that for publishing rules.
	Limiters, Operator string
	Break              func(context.Context) error
	// Repair returns when Redis itself serves all clients again.
	Repair func(context.Context) error
	Stop   func() error
}

// Faults are all faults, in the order of the documentation.
func Faults() []Fault {
	return slices.Concat([]Fault{control()}, serverFaults(), networkFaults(), groupFaults(), clockFaults(), []Fault{randomFault()})
}

// Short are the faults that every run of the tests runs.
func Short() []Fault {
	return slices.DeleteFunc(Faults(), func(f Fault) bool { return !f.Short })
}

// control changes nothing: its result shows what is not caused by a fault.
func control() Fault {
	return Fault{Name: "no fault", What: "nothing, for comparison", Start: server(nothing, nothing), Heals: true, Want: usual()}
}

// serverFaults are faults of a single redis-server without persistence, unless they enable it.
func serverFaults() []Fault {
	return []Fault{
		{
			Name: "killed", What: "`kill -9` of redis-server, started again later; all data is lost",
			Start: server(kill, restart), Forgets: true, Want: usual(), Short: true,
		},
		{
			Name: "killed, with AOF", What: "the same; the data of the last second is lost (`appendfsync everysec`)",
			Start: server(kill, restart, "--appendonly", "yes"), Want: usual(),
		},
		{
			Name: "restarted empty", What: "`kill -9` and started again immediately; all data is lost",
			Start: server(restart, nothing), Heals: true, Forgets: true, Want: usual(),
		},
		{
			Name: "stopped (SIGSTOP)", What: "connections stay open, and Redis answers nothing until SIGCONT",
			Start: server(stop, proceed), Want: usual(), Short: true,
		},
		{
			Name: "read-only", What: "made a replica of an address without a server (`REPLICAOF`), then a primary again (`REPLICAOF NO ONE`)",
			Start: server(command("REPLICAOF", "127.0.0.1", "1"), command("REPLICAOF", "NO", "ONE")), Want: usual(), Short: true,
		},
		{
			Name: "out of memory", What: "`maxmemory` below the memory in use, `noeviction`; then no limit again",
			Start: server(command("CONFIG", "SET", "maxmemory", "1mb"), command("CONFIG", "SET", "maxmemory", "0"), "--maxmemory-policy", "noeviction"),
			Want:  usual(),
		},
		{
			Name: "FLUSHALL", What: "all keys are deleted; Redis continues to answer",
			Start: server(command("FLUSHALL"), nothing), Heals: true, Forgets: true, Want: usual(),
		},
	}
}

// networkFaults are faults of a proxy between the limiters and Redis.
func networkFaults() []Fault {
	slow := func(delay time.Duration) Fault {
		return Fault{
			Name: "latency " + delay.String(), What: "every reply of Redis is delayed by this time",
			Start: network(func(p *connection.Proxy) { p.DelayReplies(delay) }), Want: usual(),
		}
	}
	return []Fault{
		{
			Name: "half-open", What: "connections are accepted and requests reach Redis; the replies are lost",
			Start: network(func(p *connection.Proxy) { p.DropReplies() }), Want: usual(), Short: true,
		},
		tolerates(slow(10*time.Millisecond), 40*time.Millisecond), // Redis continues to decide; a decision takes two and a half round trips
		slow(100 * time.Millisecond),
		slow(time.Second),
	}
}

// tolerates returns f with another bound of the p99, for a fault that delays every decision.
func tolerates(f Fault, p99 time.Duration) Fault {
	f.Want.P99 = p99
	return f
}

type action func(context.Context, *fixture.RedisProcess) error

func nothing(context.Context, *fixture.RedisProcess) error       { return nil }
func restart(ctx context.Context, r *fixture.RedisProcess) error { return r.Restart(ctx) }
func stop(_ context.Context, r *fixture.RedisProcess) error      { return r.Pause() }
func proceed(_ context.Context, r *fixture.RedisProcess) error   { return r.Resume() }
func kill(_ context.Context, r *fixture.RedisProcess) error      { r.Kill(); return nil }
func do(ctx context.Context, r *fixture.RedisProcess, c ...string) error {
	_, err := r.Do(ctx, c...)
	return err
}

func command(words ...string) action {
	return func(ctx context.Context, r *fixture.RedisProcess) error { return do(ctx, r, words...) }
}

// server returns the setup of one redis-server.
func server(breaks, repairs action, args ...string) func(context.Context) (Setup, error) {
	return func(ctx context.Context) (Setup, error) {
		r, err := fixture.StartRedis(ctx, args...)
		if err != nil {
			return Setup{}, err
		}
		return Setup{
			Limiters: r.URL(), Operator: r.URL(), Stop: r.Stop,
			Break:  func(ctx context.Context) error { return breaks(ctx, r) },
			Repair: func(ctx context.Context) error { return repairs(ctx, r) },
		}, nil
	}
}

// network returns the setup of one redis-server behind a proxy.
func network(breaks func(*connection.Proxy)) func(context.Context) (Setup, error) {
	return func(ctx context.Context) (Setup, error) {
		r, err := fixture.StartRedis(ctx)
		if err != nil {
			return Setup{}, err
		}
		p, err := connection.StartProxy(r.Addr())
		if err != nil {
			return Setup{}, errors.Join(err, r.Stop())
		}
		return Setup{
			Limiters: "redis://" + p.Addr(), Operator: r.URL(),
			Break:  func(context.Context) error { breaks(p); return nil },
			Repair: func(context.Context) error { p.Pass(); return nil },
			Stop:   func() error { return errors.Join(p.Stop(), r.Stop()) },
		}, nil
	}
}
