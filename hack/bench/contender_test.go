package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/weir-dev/weir/test/fixture"
)

func TestContender_AdmitsExactlyItsLimit(t *testing.T) {
	clients := connections(t)
	for _, c := range contenders() {
		if c.name == baselineSet {
			continue // it has no limit
		}
		t.Run(c.name, func(t *testing.T) {
			decide, err := c.open(clients, workload{limit: 3, window: time.Hour, keys: 2, prefix: c.name + ":"})
			if err != nil {
				t.Fatal(err)
			}
			admitted := 0
			for range 10 {
				allowed, err := decide(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				if allowed {
					admitted++
				}
			}
			want := 3
			if strings.HasSuffix(c.name, "/LeakyBucket") {
				want = 4 // three in the queue, and one that is leaving
			}
			if admitted != want {
				t.Errorf("%d of 10 requests were admitted, want %d", admitted, want)
			}
			if allowed, err := decide(t.Context(), 1); !allowed || err != nil {
				t.Errorf("another key: %v, %v", allowed, err)
			}
		})
	}
}

func TestContender_HasASlidingWindow(t *testing.T) {
	t.Parallel() // it sleeps
	const window = 2 * time.Second
	clients := connections(t)
	for _, name := range []string{zsetGoRedis, zsetRueidis, "zset/autopipeline", "hash/go-redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decide, err := named(t, name).open(clients, workload{limit: 2, window: window, keys: 1, prefix: name + ":"})
			if err != nil {
				t.Fatal(err)
			}
			first := admission(t, decide, time.Now())
			second := admission(t, decide, first.Add(window/2))
			third := admission(t, decide, second)
			// A bucket of the hash is 1/60 of the window.
			if least := window - window/20; third.Sub(first) < least {
				t.Errorf("the third request was admitted %v after the first, within the window", third.Sub(first))
			}
			if third.Sub(second) >= window {
				t.Errorf("the third request was admitted %v after the second: the units did not expire separately", third.Sub(second))
			}
		})
	}
}

// admission sends requests from an instant on until one is admitted, and returns the time.
func admission(t *testing.T, decide decide, from time.Time) time.Time {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for now := range tick.C {
		if now.Before(from) {
			continue
		}
		if now.Sub(from) > timeout {
			break
		}
		allowed, err := decide(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if allowed {
			return now
		}
	}
	t.Fatalf("not admitted within %v", timeout)
	return time.Time{}
}

func TestBaseline_WritesItsBatch(t *testing.T) {
	clients := connections(t)
	decide, err := named(t, baselineSet).open(clients, workload{limit: 1, window: time.Hour, keys: 10_000, prefix: "baseline:"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decide(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if size := clients.goRedis.DBSize(t.Context()).Val(); size != baselineBatch {
		t.Errorf("%d keys, want %d", size, baselineBatch)
	}
}

func TestNames_HaveTheSameLengthForAllContenders(t *testing.T) {
	w := workload{limit: 1, window: time.Minute, keys: 12, prefix: "weir:"}
	foreign, err := w.foreignNames()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := newPolicy(w, algorithms()[0], "Tenant", workload.names)
	if err != nil {
		t.Fatal(err)
	}
	if len(foreign.at(0)) != len(policy.names.at(0)) || !strings.Contains(foreign.at(11), "{tenant-0000011}") {
		t.Errorf("%s and %s", foreign.at(11), policy.names.at(11))
	}
}

func TestRun_MeasuresEveryContender(t *testing.T) {
	profilePath := filepath.Join(t.TempDir(), "cpu")
	var out strings.Builder
	args := []string{
		"-rounds=1", "-slice=20ms", "-callers=1,4", "-keys=500", "-parts=throughput,allocations", "-cpuprofile=" + profilePath,
	}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders() {
		if strings.Count(out.String(), "\n  "+c.name+" ") < 2 {
			t.Errorf("%s is missing in:\n%s", c.name, out.String())
		}
	}
	written, err := os.Open(profilePath)
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if _, err := profile.Parse(written); err != nil {
		t.Errorf("profile: %v", err)
	}
}

func TestRun_Fails(t *testing.T) {
	quick := []string{"-parts=throughput", "-only=" + baselineSet, "-rounds=1", "-slice=10ms", "-callers=1", "-keys=1000"}
	if err := run(t.Context(), append(quick, "-strict"), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "not measured") {
		t.Errorf("with -strict, and targets were not measured: %v", err)
	}
	if err := run(t.Context(), []string{"-only=none"}, io.Discard, io.Discard); err == nil {
		t.Error("no error although -only matches no contender")
	}
	if err := run(t.Context(), []string{"-h"}, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

func TestBytesOf_MeasuresTheMemoryOfAKey(t *testing.T) {
	w := workload{limit: 100, window: time.Hour, keys: 2000, prefix: "weir:"}
	bytes, err := bytesOf(t.Context(), named(t, zsetGoRedis), w, 1)
	if err != nil {
		t.Fatal(err)
	}
	if least, most := 100.0, 500.0; bytes < least || bytes > most {
		t.Errorf("%.0f bytes per key, want %.0f … %.0f", bytes, least, most)
	}
}

func connections(t *testing.T) *clients {
	t.Helper()
	clients, err := connect(fixture.Redis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clients.close() })
	return clients
}

func named(t *testing.T, name string) contender {
	t.Helper()
	for _, c := range contenders() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no contender %s", name)
	return contender{}
}
