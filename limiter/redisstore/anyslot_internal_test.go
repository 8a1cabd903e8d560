package redisstore

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// runCounter counts the runs of scripts on a node: those for any slots, which declare no key, and the others.
type runCounter struct{ together, apart atomic.Int64 }

func (c *runCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *runCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *runCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			c.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (c *runCounter) count(cmd redis.Cmder) {
	switch {
	case cmd.Name() != "evalsha":
	case cmd.Args()[2] == 0:
		c.together.Add(1)
	default:
		c.apart.Add(1)
	}
}

func TestSendToNode_OnlyCallsWithALargeLogTakeARunOfTheirOwn(t *testing.T) {
	t.Parallel()
	group, err := fixture.StartRedisPrimaries(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Stop() })
	client := openURL(t, group.URL())
	if _, err := client.LoadScripts(t.Context(), Scripts()); err != nil {
		t.Fatal(err)
	}
	charge := func(identifier string, algorithm limiter.Algorithm, units int64) limiter.Charge {
		limit, err := limiter.NewLimit(algorithm, units, 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return limiter.Charge{Key: limiter.NewKeySpace("weir:", "Tenant", "a/"+string(algorithm), limit).Key(identifier, ""), Limit: limit, Cost: 1}
	}
	large := charge("large", limiter.SlidingWindowLog, 257)
	calls := []*call{{charges: []limiter.Charge{large}}}
	for i := range 5 {
		calls = append(calls, &call{charges: []limiter.Charge{charge(strconv.Itoa(i), limiter.SlidingWindowLog, 256)}})
	}
	calls = append(calls, &call{charges: []limiter.Charge{charge("large", limiter.FixedWindow, 9), charge("large", limiter.SlidingWindowLog, 300)}})
	calls[6].charges[1].Key += "b"
	nodes, _ := client.Cluster()
	node, err := nodes.MasterForKey(t.Context(), large.Key)
	if err != nil {
		t.Fatal(err)
	}
	runs, store, spent := &runCounter{}, NewStore(client, patience), map[string]int64{}
	node.AddHook(runs)
	for _, test := range []struct {
		calls           []*call
		together, apart int64
	}{
		{calls, 1, 2},
		{[]*call{calls[0], calls[6]}, 0, 2},
		{[]*call{calls[0], calls[1]}, 0, 2}, // the script for one charge is shorter
		{calls[1:3], 1, 0},
	} {
		runs.together.Store(0)
		runs.apart.Store(0)
		for _, c := range test.calls {
			c.mode, c.deadline, c.reply = modeSpend, time.Now().Add(patience), result{}
		}
		store.send(test.calls)
		if together, apart := runs.together.Load(), runs.apart.Load(); together != test.together || apart != test.apart {
			t.Errorf("%d calls: %d runs for several calls and %d for one, want %d and %d", len(test.calls), together, apart, test.together, test.apart)
		}
		for _, c := range test.calls {
			for i, d := range c.reply.decisions {
				key := c.charges[i].Key
				spent[key]++
				if want := c.charges[i].Limit.Units() - spent[key]; d.Remaining != want || c.reply.err != nil {
					t.Errorf("%s: %+v, %v, want %d units to remain", key, d, c.reply.err, want)
				}
			}
			if len(c.reply.decisions) != len(c.charges) {
				t.Errorf("%s: no decision: %v", c.key(), c.reply.err)
			}
		}
	}
}

func TestSendTogether_FailsWithoutANode(t *testing.T) {
	limit, err := limiter.NewLimit(limiter.FixedWindow, 9, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var calls []*call
	for _, key := range []string{"{a}", "{b}"} {
		calls = append(calls, &call{mode: modeSpend, charges: []limiter.Charge{{Key: key, Limit: limit, Cost: 1}}, deadline: time.Now().Add(patience)})
	}
	NewStore(openURL(t, "redis://127.0.0.1:1?cluster=true"), patience).send(calls)
	for _, c := range calls {
		if !redisclient.IsOutage(c.reply.err) {
			t.Errorf("%s: %+v, want an outage", c.key(), c.reply)
		}
	}
}
