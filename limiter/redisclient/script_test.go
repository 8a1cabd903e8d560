package redisclient_test

import (
	"slices"
	"testing"

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
			client := open(t, tt.url(t))
			loaded, err := client.LoadScripts(t.Context(), testScripts())
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range loaded {
				if s.Script != testScripts()[i] {
					t.Errorf("script %d is %s, want %s", i, s.Name, testScripts()[i].Name)
				}
				exist := client.Redis().ScriptExists(t.Context(), s.SHA).Val()
				if s.LoadedOn != tt.primaries || !slices.Equal(exist, []bool{true}) {
					t.Errorf("script %s (%s): loaded on %d primaries, want %d; SCRIPT EXISTS returns %v", s.Name, s.SHA, s.LoadedOn, tt.primaries, exist)
				}
			}
		})
	}
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
