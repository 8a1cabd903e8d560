package redisclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
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
}

// Inspect checks the version and settings of every primary. It returns ErrTooOld if a primary is too old. Where an ACL
// hides the settings, it assumes that they are right.
func (c *Client) Inspect(ctx context.Context) (Inspection, error) {
	var mu sync.Mutex
	var all Inspection
	err := c.forEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		info, err := primary.Info(ctx).Result()
		var one Inspection
		switch kind := kindOf(err); {
		case kind == KindDenied, kind == KindMisconfigured, kind == KindOther: // INFO is forbidden or unknown
			err = primary.Ping(ctx).Err()
		case err == nil:
			if one, err = parseInfo(info); err != nil {
				err = fmt.Errorf("%s: %w", primary.Options().Addr, err)
			}
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all.Primaries++
		if all.Version == "" || older(one.Version, all.Version) {
			all.Version = one.Version
		}
		for _, warning := range one.Warnings {
			all.Warnings = append(all.Warnings, primary.Options().Addr+": "+warning)
		}
		all.Evicted += one.Evicted
		return nil
	})
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect Redis: %w", WithKind(err))
	}
	slices.Sort(all.Warnings)
	return all, nil
}

// Memory reads the memory of every primary. Where an ACL hides it, the limit is unknown.
func (c *Client) Memory(ctx context.Context) (limiter.Memory, error) {
	var mu sync.Mutex
	all := limiter.Memory{Rejects: true}
	err := c.forEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
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
		addMemory(&all, infoFields(info))
		return nil
	})
	if err != nil {
		return limiter.Memory{}, fmt.Errorf("read the memory of Redis: %w", WithKind(err))
	}
	return all, nil
}

// addMemory adds the memory of one primary, from the reply of INFO. Redis does not count the buffers of replicas against maxmemory.
func addMemory(all *limiter.Memory, fields map[string]string) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64)
		return n
	}
	most := number("maxmemory")
	switch {
	case most <= 0:
		all.Max += limiter.DefaultMemory
		all.Rejects = false
	case fields["maxmemory_policy"] != "noeviction":
		all.Max += most
		all.Rejects = false
	default:
		all.Max += most
		all.Used = max(all.Used, float64(number("used_memory")-number("mem_not_counted_for_evict"))/float64(most))
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

// parseInfo reads the reply of INFO.
func parseInfo(info string) (Inspection, error) {
	fields := infoFields(info)
	found := Inspection{Version: fields["redis_version"]}
	if tooOld(found.Version) {
		return Inspection{}, fmt.Errorf("version %s is %w", found.Version, ErrTooOld)
	}
	found.Evicted, _ = strconv.ParseInt(fields["evicted_keys"], 10, 64)
	policy := fields["maxmemory_policy"]
	if limit := fields["maxmemory"]; policy != "" && policy != "noeviction" && limit != "" && limit != "0" {
		found.Warnings = []string{"maxmemory-policy " + policy + " allows Redis to evict counters when its memory is full, " +
			"and so to admit more than the limits; set it to noeviction"}
	}
	return found, nil
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
