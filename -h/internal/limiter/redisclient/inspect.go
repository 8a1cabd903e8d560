package redisclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// The oldest supported version: the first whose SET accepts PXAT and GET together.
const oldestMajor, oldestMinor = 6, 2

// ErrTooOld is the error of [Client.Inspect] for a Redis that lacks commands that Weir needs.
var ErrTooOld = fmt.Errorf("older than %d.%d", oldestMajor, oldestMinor)

// Inspection is the result of [Client.Inspect].
type Inspection struct {
	// Warnings describe settings that allow Redis to evict counters. They are sorted.
	Warnings []string
	// Evicted is the number of keys that Redis evicted since it started because its memory was full.
	Evicted int64
	// Primaries is the number of primaries.
	Primaries int
	// Version of the oldest primary; empty if no primary reports one.
	Version string
	// Clock is the clock that differs most from that of this process. It is the zero value if no clock differs, or no primary reports its time.
	Clock ClockSkew
	// WrongClocks are those that differ by more than MaxClockSkew, sorted by primary.
	WrongClocks []ClockSkew
}

// MaxClockSkew is the largest difference between two clocks without a warning. Clocks that are synchronized differ by less than
// a tenth of a second.
const MaxClockSkew = 5 * time.Second

// ClockSkew is the difference between the clock of a primary and that of this process.
type ClockSkew struct {
	Primary string        // host:port
	Ahead   time.Duration // of the primary; negative if it is behind, and 0 if the difference is within the duration of the call
}

// String describes the difference in whole seconds, so that it does not change with each measurement.
func (s ClockSkew) String() string {
	direction := "ahead of"
	if s.Ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("%s: its clock is %d s %s the clock of its client; synchronize both clocks", s.Primary, int(s.Ahead.Abs().Seconds()), direction)
}

// SkewOf compares a clock with that of this process before and after the call that read it. A zero time is unknown.
func SkewOf(primary string, serverTime, sent, received time.Time) ClockSkew {
	s := ClockSkew{Primary: primary}
	switch {
	case serverTime.IsZero():
	case serverTime.After(received):
		s.Ahead = serverTime.Sub(received)
	case serverTime.Before(sent):
		s.Ahead = serverTime.Sub(sent)
	}
	return s
}

// Inspect checks the version, the settings and the clock of every primary. It returns ErrTooOld if a primary is too old. Where an ACL
// hides the settings, it assumes that they are right. The first Inspect of a Client that has discovered nothing yet calls [Client.Discover], and
// returns its error.
func (c *Client) Inspect(ctx context.Context) (Inspection, error) {
	if !c.discovery.succeeded.Load() {
		if _, err := c.Discover(ctx); err != nil {
			return Inspection{}, fmt.Errorf("inspect Redis: %w", err)
		}
	}
	var mu sync.Mutex
	var merged Inspection
	err := c.ForEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		sent := time.Now().Round(0) // without the monotonic time, as the time of Redis
		info, err := primary.Info(ctx).Result()
		received := time.Now().Round(0)
		var one Inspection
		var serverTime time.Time
		switch kind := kindOf(err); {
		case kind == KindDenied, kind == KindMisconfigured, kind == KindOther: // INFO is forbidden or unknown
			err = primary.Ping(ctx).Err()
		case err == nil:
			if one, serverTime, err = parseInfo(info); err != nil {
				err = fmt.Errorf("%s: %w", primary.Options().Addr, err)
			}
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		merged.Primaries++
		if merged.Version == "" || older(one.Version, merged.Version) {
			merged.Version = one.Version
		}
		for _, warning := range one.Warnings {
			merged.Warnings = append(merged.Warnings, primary.Options().Addr+": "+warning)
		}
		merged.Evicted += one.Evicted
		skew := SkewOf(primary.Options().Addr, serverTime, sent, received)
		if skew.Ahead.Abs() > merged.Clock.Ahead.Abs() {
			merged.Clock = skew
		}
		if skew.Ahead.Abs() > MaxClockSkew {
			merged.WrongClocks = append(merged.WrongClocks, skew)
		}
		return nil
	})
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect Redis: %w", WithKind(err))
	}
	slices.Sort(merged.Warnings)
	slices.SortFunc(merged.WrongClocks, func(a, b ClockSkew) int { return strings.Compare(a.Primary, b.Primary) })
	return merged, nil
}

// Memory reads the memory of every primary. Where an ACL hides it, the limit is unknown.
func (c *Client) Memory(ctx context.Context) (limiter.Memory, error) {
	var mu sync.Mutex
	total := limiter.Memory{Rejects: true}
	err := c.ForEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		info, err := primary.Info(ctx, "memory").Result()
		switch kindOf(err) {
		case KindDenied, KindMisconfigured, KindOther: // INFO is forbidden or unknown
			info, err = "", nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		addMemory(&total, infoFields(info))
		return nil
	})
	if err != nil {
		return limiter.Memory{}, fmt.Errorf("read the memory of Redis: %w", WithKind(err))
	}
	return total, nil
}

// addMemory adds the memory of one primary, from the reply of INFO. Redis does not count the buffers of replicas against maxmemory.
func addMemory(total *limiter.Memory, fields map[string]string) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64)
		return n
	}
	most := number("maxmemory")
	switch {
	case most <= 0:
		total.Max += limiter.DefaultMemory
		total.Rejects = false
	case fields["maxmemory_policy"] != "noeviction":
		total.Max += most
		total.Rejects = false
	default:
		total.Max += most
		total.Used = max(total.Used, float64(number("used_memory")-number("mem_not_counted_for_evict"))/float64(most))
	}
}

// infoFields reads the reply of INFO.
func infoFields(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

// parseInfo reads the reply of INFO, with the time of the server.
func parseInfo(info string) (Inspection, time.Time, error) {
	fields := infoFields(info)
	found := Inspection{Version: fields["redis_version"]}
	if tooOld(found.Version) {
		return Inspection{}, time.Time{}, fmt.Errorf("version %s is %w", found.Version, ErrTooOld)
	}
	found.Evicted, _ = strconv.ParseInt(fields["evicted_keys"], 10, 64)
	policy := fields["maxmemory_policy"]
	if limit := fields["maxmemory"]; policy != "" && policy != "noeviction" && limit != "" && limit != "0" {
		found.Warnings = []string{"maxmemory-policy " + policy + " allows Redis to evict counters when its memory is full, " +
			"and so to admit more than the limits; set it to noeviction"}
	}
	var serverTime time.Time
	if micros, err := strconv.ParseInt(fields["server_time_usec"], 10, 64); err == nil {
		serverTime = time.UnixMicro(micros)
	}
	return found, serverTime, nil
}

// tooOld returns false for a version that it cannot parse.
func tooOld(version string) bool {
	return older(version, fmt.Sprintf("%d.%d", oldestMajor, oldestMinor))
}

// older compares versions by their first two numbers. It returns false if it cannot parse one of them.
func older(version, than string) bool {
	a, errA := parseVersion(version)
	b, errB := parseVersion(than)
	return errors.Join(errA, errB) == nil && slices.Compare(a, b) < 0
}

// parseVersion returns the major and the minor number.
func parseVersion(version string) ([]int, error) {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errMajor := strconv.Atoi(major)
	y, errMinor := strconv.Atoi(minor)
	return []int{x, y}, errors.Join(errMajor, errMinor)
}
