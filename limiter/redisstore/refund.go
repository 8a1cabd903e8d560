package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// maxRefundUnits bounds the units of the limits of the logs in one script. A refund moves the units of a log that were spent after it, and
// Redis answers no other call meanwhile.
const maxRefundUnits = limiter.MaxLogUnits

// Refund implements limiter.Store. Refunds on one server share a script.
func (s *Store) Refund(ctx context.Context, refunds []limiter.Refund) error {
	var errs []error
	for len(refunds) > 0 {
		n := s.refundsPerCall(refunds)
		errs = append(errs, s.refundInSlot(ctx, refunds[:n]))
		refunds = refunds[n:]
	}
	return errors.Join(errs...)
}

// refundsPerCall returns the number of the first refunds that one script can make: of distinct keys and, on a Redis Cluster, in one slot.
func (s *Store) refundsPerCall(refunds []limiter.Refund) int {
	_, cluster := s.client.Cluster()
	keys := make(map[string]bool, len(refunds))
	units := int64(0)
	for i, r := range refunds {
		units += logUnits(r.Limit)
		if keys[r.Key] || i > 0 && units > maxRefundUnits || cluster && hashTag(r.Key) != hashTag(refunds[0].Key) {
			return i
		}
		keys[r.Key] = true
	}
	return len(refunds)
}

// logUnits is the greatest number of units that a refund can move.
func logUnits(limit limiter.Limit) int64 {
	if limit.Algorithm() == limiter.SlidingWindowLog {
		return limit.Units()
	}
	return 0
}

// refundInSlot runs refund.lua, with its own timeout, for refunds whose keys are in one slot.
func (s *Store) refundInSlot(ctx context.Context, refunds []limiter.Refund) error {
	if len(refunds) == 0 {
		return nil
	}
	if s.Unavailable(refunds[0].Key) {
		return redisclient.ErrUnavailable
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	keys := make([]string, len(refunds))
	args := append(make([]any, 0, 2+argumentsWidth*len(refunds)), s.now(), s.invalidations)
	for i, r := range refunds {
		keys[i] = r.Key
		args = append(appendLimit(args, r.Limit), r.Units(), int64(r.At))
	}
	corrupt, err := redisclient.RunAs(ctx, s.client, redis.NewIntSliceCmd, s.refund, keys, args).Result()
	if err != nil {
		return fmt.Errorf("run the refund script: %w", err)
	}
	if len(corrupt) > 0 {
		s.reportCorrupt(corrupt, func(i int64) string { return keys[i] })
	}
	return nil
}

// Reset implements limiter.Store.
func (s *Store) Reset(ctx context.Context, keys []string) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	pipe := s.client.Redis().Pipeline()
	for _, key := range keys { // one command per key: on a cluster they are in different slots
		pipe.Unlink(ctx, key)
		if s.invalidations != "" {
			pipe.Publish(ctx, s.invalidations, key)
		}
	}
	_, err := pipe.Exec(ctx)
	s.client.RefreshTopology(ctx, err)
	if err != nil {
		return fmt.Errorf("reset %d counters: %w", len(keys), redisclient.WithKind(err))
	}
	return nil
}
