package reliability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

const (
	outages       = 100
	longestOutage = 500 * time.Millisecond
	longestCalm   = 1200 * time.Millisecond // often too short for the limiters to decide with Redis again
)

// randomFault is a sequence of many short outages of all kinds that lose no counters.
func randomFault() Fault {
	return Fault{
		Name: fmt.Sprintf("%d random outages", outages),
		What: fmt.Sprintf("one after another for up to %v, with up to %v between them: SIGSTOP, lost replies, broken connections, read-only, out of memory",
			longestOutage, longestCalm),
		Start: randomOutages, Heals: true, Outages: outages,
		Want: tolerates(Fault{Want: usual()}, 60*time.Millisecond).Want, // every outage has a detection period
	}
}

// outage is one way to break Redis and to repair it.
type outage struct{ begin, end func(context.Context) error }

func randomOutages(ctx context.Context) (Setup, error) {
	r, err := fixture.StartRedis(ctx, "--maxmemory-policy", "noeviction")
	if err != nil {
		return Setup{}, err
	}
	p, err := connection.StartProxy(r.Addr())
	if err != nil {
		return Setup{}, errors.Join(err, r.Stop())
	}
	run := func(words ...string) func(context.Context) error {
		return func(ctx context.Context) error { return do(ctx, r, words...) }
	}
	set := func(change func()) func(context.Context) error {
		return func(context.Context) error { change(); return nil }
	}
	kinds := []outage{
		{func(context.Context) error { return r.Pause() }, func(context.Context) error { return r.Resume() }},
		{set(p.DropReplies), set(p.Pass)},
		{set(func() { p.CutReplies(3) }), set(p.Pass)},
		{run("REPLICAOF", "127.0.0.1", "1"), run("REPLICAOF", "NO", "ONE")},
		{run("CONFIG", "SET", "maxmemory", "1mb"), run("CONFIG", "SET", "maxmemory", "0")},
	}
	return Setup{
		Limiters: "redis://" + p.Addr(), Operator: r.URL(),
		Break:  func(ctx context.Context) error { return play(ctx, kinds) },
		Repair: func(context.Context) error { return nil }, // each outage has ended
		Stop:   func() error { return errors.Join(p.Stop(), r.Stop()) },
	}, nil
}

// play runs the same sequence of outages in every run, with pauses between the outages.
func play(ctx context.Context, kinds []outage) error {
	random := rand.New(rand.NewPCG(1, 1))
	for n := range outages {
		if n > 0 {
			if err := pause(ctx, upTo(random, longestCalm)); err != nil {
				return err
			}
		}
		kind := kinds[random.IntN(len(kinds))]
		if err := kind.begin(ctx); err != nil {
			return err
		}
		if err := errors.Join(pause(ctx, upTo(random, longestOutage)), kind.end(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func upTo(random *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(below)))
}
