package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The oldest version whose SET knows PXAT and GET together.
const oldestMajor, oldestMinor = 6, 2

// ErrTooOld is the error of [Client.Inspect] about a Redis that lacks commands Weir needs.
var ErrTooOld = fmt.Errorf("older than %d.%d", oldestMajor, oldestMinor)

// Inspection is what a look at the primaries shows.
type Inspection struct {
	// Warnings, for people, of settings by which Redis may drop counters. They are in order.
	Warnings []string
	// Evicted is how many keys Redis has dropped for want of memory since it started.
	Evicted int64
	// Primaries is how many there are.
	Primaries int
	// Version of the oldest of them, empty if none tells.
	Version string
}

// Inspect looks at every primary. It is ErrTooOld if one is. What Redis does not let us see is taken to be right.
func (c *Client) Inspect(ctx context.Context) (Inspection, error) {
	var mu sync.Mutex
	var all Inspection
	err := c.forEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		info, err := primary.Info(ctx).Result()
		var one Inspection
		switch kind := kindOf(err); {
		case kind == kindDenied, kind == kindUnfit, kind == kindOther: // INFO is forbidden, or unknown
			err = primary.Ping(ctx).Err()
		case err == nil:
			if one, err = judge(info); err != nil {
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
		return Inspection{}, fmt.Errorf("inspect Redis: %w", withKind(err))
	}
	slices.Sort(all.Warnings)
	return all, nil
}

// judge reads a reply of INFO.
func judge(info string) (Inspection, error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	found := Inspection{Version: fields["redis_version"]}
	if tooOld(found.Version) {
		return Inspection{}, fmt.Errorf("version %s is %w", found.Version, ErrTooOld)
	}
	found.Evicted, _ = strconv.ParseInt(fields["evicted_keys"], 10, 64)
	policy := fields["maxmemory_policy"]
	if limit := fields["maxmemory"]; policy != "" && policy != "noeviction" && limit != "" && limit != "0" {
		found.Warnings = []string{"maxmemory-policy " + policy + " lets Redis drop counters when its memory is full, " +
			"which forgets what was spent; set it to noeviction"}
	}
	return found, nil
}

// tooOld is false for a version that it cannot read.
func tooOld(version string) bool {
	return older(version, fmt.Sprintf("%d.%d", oldestMajor, oldestMinor))
}

// older compares versions by their first two numbers. One that it cannot read is not older than another.
func older(version, than string) bool {
	a, errA := numbersOf(version)
	b, errB := numbersOf(than)
	return errors.Join(errA, errB) == nil && slices.Compare(a, b) < 0
}

func numbersOf(version string) ([]int, error) {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errMajor := strconv.Atoi(major)
	y, errMinor := strconv.Atoi(minor)
	return []int{x, y}, errors.Join(errMajor, errMinor)
}
