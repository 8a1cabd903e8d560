package redischeck

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// Measurement is the result of [Measure] for one primary.
type Measurement struct {
	Clock redisclient.ClockSkew
	Trips []time.Duration // of calls, sorted
}

// Measure sends n calls to each primary, one after another, and returns how long they took and what the clocks show, sorted by address. The
// clock is compared in the fastest call, so that its error is at most the duration of that call.
func Measure(ctx context.Context, c *redisclient.Client, n int) ([]Measurement, error) {
	var mu sync.Mutex
	var all []Measurement
	err := c.ForEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		m := Measurement{Clock: redisclient.ClockSkew{Primary: c.Address(primary)}}
		if err := primary.Ping(ctx).Err(); err != nil { // connects
			return err
		}
		fastest := time.Duration(-1)
		for range n {
			sent := time.Now().Round(0)
			began := time.Now()
			reply, err := primary.Do(ctx, "time").StringSlice()
			took := time.Since(began)
			if err != nil {
				return err
			}
			m.Trips = append(m.Trips, took)
			if fastest < 0 || took < fastest {
				fastest = took
				m.Clock = redisclient.SkewOf(m.Clock.Primary, timeOf(reply), sent, sent.Add(took))
			}
		}
		slices.Sort(m.Trips)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, m)
		return nil
	})
	if err != nil {
		return nil, redisclient.WithKind(fmt.Errorf("measure round trips: %w", err))
	}
	slices.SortFunc(all, func(a, b Measurement) int { return strings.Compare(a.Clock.Primary, b.Clock.Primary) })
	return all, nil
}

// timeOf reads the reply of TIME: the seconds since the epoch, and the microseconds of the current second. It returns the zero time for any other reply.
// Envoy does not forward TIME, and replies with the microseconds since the epoch.
func timeOf(reply []string) time.Time {
	if len(reply) != 2 {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(reply[0], 10, 64)
	micros, errMicros := strconv.ParseInt(reply[1], 10, 64)
	if err != nil || errMicros != nil || micros < 0 || micros >= time.Second.Microseconds() {
		return time.Time{}
	}
	return time.Unix(seconds, micros*time.Microsecond.Nanoseconds())
}

// FullCoverage reports whether a node of a Redis Cluster rejects calls while another one is unavailable, the setting
// cluster-require-full-coverage. It is false if Redis is no cluster, or if the user must not read the settings.
func FullCoverage(ctx context.Context, c *redisclient.Client) bool {
	if _, ok := c.Cluster(); !ok {
		return false
	}
	var mu sync.Mutex
	full := false
	_ = c.ForEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error { // without permission, it is unknown
		value, _ := redisclient.Setting(primary.Do(ctx, "config", "get", "cluster-require-full-coverage"))
		mu.Lock()
		defer mu.Unlock()
		full = full || value == "yes"
		return nil
	})
	return full
}
