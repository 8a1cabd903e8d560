package redisclient_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

func TestRun_PassesAllKeysAndArguments(t *testing.T) {
	client := open(t, fixture.Redis(t).URL())
	script := redisclient.NewScript("all", "return #KEYS .. ' ' .. table.concat(KEYS, ',') .. ' ' .. table.concat(ARGV, ',')")
	for _, n := range []struct{ keys, args int }{{1, 0}, {1, 1}, {20, 0}, {0, 20}, {20, 20}} {
		var keys []string
		var args []any
		for i := range n.keys {
			keys = append(keys, fmt.Sprint("k", i))
		}
		for i := range n.args {
			args = append(args, fmt.Sprint("a", i))
		}
		want := fmt.Sprintf("%d %s %s", n.keys, strings.Join(keys, ","), strings.Trim(strings.ReplaceAll(fmt.Sprint(args), " ", ","), "[]"))
		if got, err := client.Run(t.Context(), script, keys, args...).Text(); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

// The nodes do not have the script at first. Each call runs once, on the node that has its key.
func TestRunEach_RunsEachScriptOnceWhereItsKeyIs(t *testing.T) {
	client := open(t, fixture.RedisCluster(t).URL())
	cluster, ok := client.Cluster()
	if !ok {
		t.Fatal("not a cluster")
	}
	if err := cluster.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error { return c.ConfigResetStat(ctx).Err() }); err != nil {
		t.Fatal(err)
	}
	script := redisclient.NewScript("count", "return redis.call('INCRBY', KEYS[1], ARGV[1])")
	const n = 50
	for round := range 3 {
		commands, _ := redisclient.RunEach(t.Context(), client, cluster, redis.NewCmd, n, func(i int) (redisclient.Script, []string, []any) {
			return script, []string{fmt.Sprint("key-", i)}, []any{i}
		})
		for i, cmd := range commands {
			if got, err := cmd.Int(); err != nil || got != i*(round+1) {
				t.Errorf("round %d, script %d: %d, %v, want %d", round, i, got, err, i*(round+1))
			}
		}
	}
	for i := range n {
		if got, err := client.Run(t.Context(), script, []string{fmt.Sprint("key-", i)}, 1).Int(); err != nil || got != 3*i+1 {
			t.Errorf("Run: %d, %v, want %d", got, err, 3*i+1)
		}
	}
	err := cluster.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		failures, err := c.Info(ctx, "errorstats").Result()
		if err != nil {
			return err
		}
		if strings.Contains(failures, "errorstat_MOVED") {
			t.Errorf("%s received scripts for keys of another node:\n%s", c.Options().Addr, failures)
		}
		commands, err := c.Info(ctx, "commandstats").Result()
		// An ACL can forbid COMMAND, and its reply is long.
		if strings.Contains(commands, "cmdstat_command:") {
			t.Errorf("%s received COMMAND:\n%s", c.Options().Addr, commands)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
