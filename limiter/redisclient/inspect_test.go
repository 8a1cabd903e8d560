package redisclient_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

func TestInspect_WarnsOfEviction(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string // part of the only warning; "" if there is no warning
	}{
		"the default configuration":       {nil, ""},
		"bounded memory and no eviction":  {[]string{"--maxmemory", "100mb"}, ""},
		"eviction without a memory limit": {[]string{"--maxmemory-policy", "allkeys-lru"}, ""},
		"eviction of counters":            {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, "maxmemory-policy allkeys-lru"},
		"eviction of keys that expire":    {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, "maxmemory-policy volatile-ttl"},
		"eviction, and INFO is forbidden": {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--user", "default", "on", "nopass", "~*", "&*", "+@all", "-info"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found, err := open(t, fixture.Redis(t, test.args...).URL()).Inspect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, hidden := strings.CutSuffix(strings.Join(test.args, " "), "-info"); found.Primaries != 1 || (found.Version == "") != hidden {
				t.Errorf("%d primaries, want 1; version %q, want it hidden: %t", found.Primaries, found.Version, hidden)
			}
			warnings := found.Warnings
			if got := strings.Join(warnings, "\n"); (test.want == "") != (got == "") || !strings.Contains(got, test.want) || len(warnings) > 1 {
				t.Errorf("warnings %q, want %q", got, test.want)
			}
		})
	}
}

func TestInspect_AssumesTheBestIfTheServerReportsNothing(t *testing.T) {
	found, err := open(t, "redis://"+miniredis.RunT(t).Addr()).Inspect(t.Context())
	if err != nil || len(found.Warnings) > 0 || found.Evicted != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestOlder_ComparesMajorAndMinor(t *testing.T) {
	for _, test := range []struct {
		version, than string
		older         bool
	}{
		{"6.2.1", "7.0.15", true},
		{"7.0.15", "6.2.1", false},
		{"7.0.15", "7.0.14", false},
		{"7.2.0", "7.10.0", true},
		{"", "7.0.15", false},
		{"unstable", "7.0.15", false},
	} {
		if got := redisclient.Older(test.version, test.than); got != test.older {
			t.Errorf("Older(%q, %q) = %t, want %t", test.version, test.than, got, test.older)
		}
	}
}

func TestInspect_FailsWithoutRedis(t *testing.T) {
	server := fixture.Redis(t)
	server.Kill()
	_, err := open(t, server.URL()).Inspect(t.Context())
	wantKind(t, err, "unreachable")
}

func TestInspect_RejectsVersionsThatAreTooOld(t *testing.T) {
	for version, old := range map[string]bool{
		"2.8.24": true, "5.0.14": true, "6.0.16": true, "6.2.0": false, "6.2": false, "7.0.15": false, "8.8.0": false, "10.0.1": false,
		"255.255.255": false, "unstable": false, "": false,
	} {
		_, _, err := redisclient.ParseInfo("# Server\r\nredis_version:" + version + "\r\nos:Linux\r\n")
		if errors.Is(err, redisclient.ErrTooOld) != old {
			t.Errorf("%q: %v", version, err)
		}
		if old && !strings.Contains(err.Error(), "version "+version+" is older than 6.2") {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestMemory_IsThatOfThePrimaries(t *testing.T) {
	const hundred = 100 << 20
	for name, test := range map[string]struct {
		args []string
		want limiter.Memory // Used is 1 if it is more than 0
	}{
		"no maxmemory":               {nil, limiter.Memory{Max: limiter.DefaultMemory}},
		"no eviction":                {[]string{"--maxmemory", "100mb"}, limiter.Memory{Max: hundred, Used: 1, Rejects: true}},
		"eviction":                   {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, limiter.Memory{Max: hundred}},
		"INFO is forbidden":          {[]string{"--maxmemory", "100mb", "--user", "default", "on", "nopass", "~*", "&*", "+@all", "-info"}, limiter.Memory{Max: limiter.DefaultMemory}},
		"eviction without maxmemory": {[]string{"--maxmemory-policy", "allkeys-lru"}, limiter.Memory{Max: limiter.DefaultMemory}},
	} {
		got, err := open(t, fixture.Redis(t, test.args...).URL()).Memory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Used > 0 && got.Used < 0.1 {
			got.Used = 1
		}
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestMemory_FailsWithoutRedis(t *testing.T) {
	server := fixture.Redis(t)
	server.Kill()
	_, err := open(t, server.URL()).Memory(t.Context())
	wantKind(t, err, "unreachable")
}

func TestAddMemory_HasTheFullestOfSeveralPrimaries(t *testing.T) {
	all := limiter.Memory{Rejects: true}
	for _, used := range []string{"30", "90", "60"} {
		redisclient.AddMemory(&all, map[string]string{
			"maxmemory": "100", "maxmemory_policy": "noeviction", "used_memory": used, "mem_not_counted_for_evict": "10",
		})
	}
	if want := (limiter.Memory{Max: 300, Used: 0.8, Rejects: true}); all != want {
		t.Errorf("%+v, want %+v", all, want)
	}
	redisclient.AddMemory(&all, nil)
	if want := (limiter.Memory{Max: 300 + limiter.DefaultMemory, Used: 0.8}); all != want {
		t.Errorf("with one whose limit is unknown: %+v, want %+v", all, want)
	}
}

func TestInspect_ComparesTheClocks(t *testing.T) {
	server, clock := fixture.RedisWithClock(t)
	client := open(t, server.URL())
	for _, test := range []struct {
		shift time.Duration
		want  string // of WrongClocks
	}{
		{0, "[]"},
		{3 * time.Second, "[]"},
		{time.Hour + 500*time.Millisecond, "[" + server.Addr() + ": its clock is 3600 s ahead of the clock of its client; synchronize both clocks]"},
		{-time.Minute - 500*time.Millisecond, "[" + server.Addr() + ": its clock is 60 s behind the clock of its client; synchronize both clocks]"},
	} {
		if err := clock.Shift(test.shift); err != nil {
			t.Fatal(err)
		}
		found, err := client.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(found.WrongClocks); got != test.want {
			t.Errorf("shifted by %v: %s, want %s", test.shift, got, test.want)
		}
		if off := (found.Clock.Ahead - test.shift).Abs(); off > 100*time.Millisecond {
			t.Errorf("shifted by %v: the clock is ahead by %v", test.shift, found.Clock.Ahead)
		}
	}
}
