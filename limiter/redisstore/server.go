package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The oldest version whose SET knows PXAT and GET together.
const oldestMajor, oldestMinor = 6, 2

// ErrTooOld is the error of [Client.Inspect] about a Redis that lacks commands Weir needs.
var ErrTooOld = fmt.Errorf("older than %d.%d", oldestMajor, oldestMinor)

// Inspect looks at every primary. It is ErrTooOld if one is, and else warns, for people, of what may go wrong: a
// memory policy by which Redis may drop counters. What Redis does not let us see is taken to be right.
func (c *Client) Inspect(ctx context.Context) (warnings []string, err error) {
	var mu sync.Mutex
	err = c.forEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		info, err := primary.Info(ctx).Result()
		if kindOf(err) == kindDenied || kindOf(err) == kindOther {
			return primary.Ping(ctx).Err() // INFO is forbidden, or unknown
		}
		if err != nil {
			return err
		}
		warning, err := judge(info)
		if err != nil {
			return fmt.Errorf("%s: %w", primary.Options().Addr, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if warning != "" {
			warnings = append(warnings, primary.Options().Addr+": "+warning)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("inspect Redis: %w", withKind(err))
	}
	return warnings, nil
}

// judge reads a reply of INFO.
func judge(info string) (warning string, err error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	if version := fields["redis_version"]; tooOld(version) {
		return "", fmt.Errorf("version %s is %w", version, ErrTooOld)
	}
	policy := fields["maxmemory_policy"]
	if limit := fields["maxmemory"]; policy == "" || policy == "noeviction" || limit == "" || limit == "0" {
		return "", nil
	}
	return "maxmemory-policy " + policy + " lets Redis drop counters when its memory is full, which forgets what was spent; " +
		"set it to noeviction", nil
}

// tooOld is false for a version that it cannot read.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errMajor := strconv.Atoi(major)
	y, errMinor := strconv.Atoi(minor)
	if errors.Join(errMajor, errMinor) != nil {
		return false
	}
	return x < oldestMajor || (x == oldestMajor && y < oldestMinor)
}
