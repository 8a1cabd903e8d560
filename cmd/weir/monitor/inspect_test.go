package monitor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// inspected runs an Inspector with an interval of a few milliseconds.
func inspected(t *testing.T, url string, log *fixture.LockedBuffer) (i *Inspector, done <-chan error, stop context.CancelFunc) {
	t.Helper()
	client, err := redisclient.Open(url, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	i = NewInspector(client, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(log, nil)))
	i.interval = 5 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		result <- i.Run(ctx)
		_ = client.Close()
	}()
	return i, result, stop
}

// untilEvicting waits until weir_redis_evicting has the value.
func untilEvicting(t *testing.T, i *Inspector, want float64) {
	t.Helper()
	fixture.Await(t, fmt.Sprintf("weir_redis_evicting is %v", want), func() bool { return testutil.ToFloat64(i.evicting) == want })
}

// awaitLine waits until the log has a line that matches the expression.
func awaitLine(t *testing.T, log *fixture.LockedBuffer, expression string) {
	t.Helper()
	pattern := regexp.MustCompile(expression)
	fixture.Await(t, expression, func() bool { return pattern.MatchString(log.String()) })
}

func configure(t *testing.T, server *fixture.RedisProcess, name, value string) {
	t.Helper()
	if _, err := server.Do(t.Context(), "CONFIG", "SET", name, value); err != nil {
		t.Fatal(err)
	}
}

func TestInspector_LogsChangesOfTheEvictionWarning(t *testing.T) {
	var log fixture.LockedBuffer
	server := fixture.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	i, done, stop := inspected(t, server.URL(), &log)
	defer stop()
	awaitLine(t, &log, `level=WARN msg="Redis can evict or lose counters" reason=".*(allkeys-lru)`)
	untilEvicting(t, i, 1)
	configure(t, server, "maxmemory-policy", "noeviction")
	untilEvicting(t, i, 0)
	awaitLine(t, &log, `level=INFO msg="Redis no longer evicts or loses counters for this reason" reason=".*(allkeys-lru)`)
	stop()
	if err := <-done; err != nil || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("%v, want 2 lines in the log:\n%s", err, log.String())
	}
}

func TestInspector_ReportsAWrongClockOfRedis(t *testing.T) {
	var log fixture.LockedBuffer
	server, clock := fixture.RedisWithClock(t)
	i, _, stop := inspected(t, server.URL(), &log)
	defer stop()
	for _, by := range []time.Duration{time.Hour, 0, -time.Hour} {
		if err := clock.Shift(by); err != nil {
			t.Fatal(err)
		}
		fixture.Await(t, "weir_redis_clock_skew_seconds follows", func() bool { return math.Abs(testutil.ToFloat64(i.skew)-by.Seconds()) < 1 })
	}
	awaitLine(t, &log, `level=WARN msg="the clock of Redis differs from the clock of this process: synchronize both clocks" primary=`+server.Addr()+` ahead=(1h0m0|59m59)`)
	awaitLine(t, &log, `level=INFO msg="the clock of Redis no longer differs from the clock of this process" primary=(`+server.Addr()+`)`)
	awaitLine(t, &log, `level=WARN msg="the clock of Redis differs from the clock of this process: synchronize both clocks" primary=`+server.Addr()+` ahead=-(1h0m0|59m59)`)
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("%d lines in the log, want 3: one for each change\n%s", n, log.String())
	}
}

func TestInspector_CountsEvictedKeys(t *testing.T) {
	var log fixture.LockedBuffer
	server := fixture.Redis(t, "--maxmemory-policy", "allkeys-lru")
	i, _, stop := inspected(t, server.URL(), &log)
	defer stop()
	for range 100 {
		if _, err := server.Do(t.Context(), "SET", rand.Text(), strings.Repeat("x", 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	configure(t, server, "maxmemory", "1")
	_, _ = server.Do(t.Context(), "SET", "one", "more") // fails when no key is left to evict
	fixture.Await(t, "weir_redis_evicted_keys is at least 100", func() bool { return testutil.ToFloat64(i.evicted) >= 100 })
}

func TestInspector_FailsIfRedisIsTooOld(t *testing.T) {
	server, err := miniserver.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	err = server.Register("INFO", func(c *miniserver.Peer, _ string, _ []string) { c.WriteBulk("redis_version:5.0.14\r\n") })
	if err != nil {
		t.Fatal(err)
	}
	var log fixture.LockedBuffer
	_, done, stop := inspected(t, "redis://"+server.Addr().String(), &log)
	defer stop()
	select {
	case err := <-done:
		if !errors.Is(err, redisclient.ErrTooOld) || !strings.Contains(err.Error(), "version 5.0.14 is older than 6.2") {
			t.Errorf("error %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("no error about the version")
	}
}
