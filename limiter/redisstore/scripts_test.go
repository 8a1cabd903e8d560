package redisstore_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

func TestScripts_AreLoadedUnderTheirNames(t *testing.T) {
	for name, url := range map[string]string{"miniredis": "redis://" + miniredis.RunT(t).Addr(), "redis-server": fixture.Redis(t).URL()} {
		t.Run(name, func(t *testing.T) {
			loaded, err := open(t, url).LoadScripts(t.Context(), redisstore.Scripts())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range loaded {
				names = append(names, s.Name)
				if s.LoadedOn != 1 {
					t.Errorf("script %s is loaded on %d primaries, want 1", s.Name, s.LoadedOn)
				}
			}
			if diff := cmp.Diff([]string{
				"spend", "spend_compact", "refund", "spend_any_slot", "spend_compact_any_slot", "spend_one_fixed_window", "spend_one_sliding_window_counter",
				"spend_one_sliding_window_log", "spend_one_token_bucket", "spend_one_leaky_bucket",
				"spend_one_compact_fixed_window", "spend_one_compact_sliding_window_counter",
			}, names); diff != "" {
				t.Errorf("scripts (-want +got):\n%s", diff)
			}
		})
	}
}
