package redisclient_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

func testScripts() []redisclient.Script {
	return []redisclient.Script{
		redisclient.NewScript("one", "return 1"), redisclient.NewScript("key", "return KEYS[1]"),
	}
}

func TestLoadScripts_LoadsThemOnEveryPrimary(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		url       func(t *testing.T) string
		primaries int
	}{
		"redis-server": {func(t *testing.T) string { return fixture.Redis(t).URL() }, 1},
		"cluster":      {func(t *testing.T) string { return fixture.RedisCluster(t).URL() }, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t, tt.url(t))
			loaded, err := client.LoadScripts(t.Context(), testScripts())
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range loaded {
				if s.Script != testScripts()[i] {
					t.Errorf("script %d is %s, want %s", i, s.Name, testScripts()[i].Name)
				}
				if has := primariesWith(t, client, s.SHA); s.LoadedOn != tt.primaries || has != tt.primaries {
					t.Errorf("script %s (%s): loaded on %d primaries, want %d; %d have it", s.Name, s.SHA, s.LoadedOn, tt.primaries, has)
				}
			}
		})
	}
}

// primariesWith returns the number of primaries that have a script. SCRIPT EXISTS of a cluster client also asks the replicas, to which Valkey
// 9 does not propagate scripts.
func primariesWith(t *testing.T, client *redisclient.Client, sha string) int {
	t.Helper()
	var has atomic.Int64
	count := func(ctx context.Context, primary *redis.Client) error {
		exist, err := primary.ScriptExists(ctx, sha).Result()
		if err == nil && exist[0] {
			has.Add(1)
		}
		return err
	}
	var err error
	switch c := client.Redis().(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), count)
	case *redis.Client:
		err = count(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return int(has.Load())
}

func TestLoadScripts_LoadsOnlyMissingScripts(t *testing.T) {
	client := open(t, fixture.Redis(t).URL())
	calls := func() int64 { // of SCRIPT LOAD
		info := client.Redis().InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_script|load")
		return int64(len(info))
	}
	load := func() {
		t.Helper()
		if _, err := client.LoadScripts(t.Context(), testScripts()); err != nil {
			t.Fatal(err)
		}
	}
	load()
	if err := client.Redis().ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	load()
	if calls() != 0 {
		t.Error("loaded scripts again that were already loaded")
	}
	if err := client.Redis().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	load()
	if calls() == 0 {
		t.Error("did not load the scripts after SCRIPT FLUSH")
	}
}
