package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
	"github.com/weir-dev/weir/go/internal/limiter/redisstore/hashslot"
)

// maxRefunds bounds the refunds of one script, and maxLogRefunds those of logs among them, which move up to 256 entries each. Redis answers no other
// call meanwhile.
const (
	maxRefunds    = 256
	maxLogRefunds = 16
)

// Refund implements limiter.Store. Refunds on one server share a script. On a Redis Cluster, the scripts of several slots share a round trip
// to each node. Its errors are a [*limiter.RefundError]: a slot that fails does not keep the refunds of others from being made.
func (s *Store) Refund(ctx context.Context, refunds []limiter.Refund) error {
	isLatest := func(r limiter.Refund) bool { return r.Latest }
	if !slices.ContainsFunc(refunds, isLatest) {
		failed := s.refundAll(ctx, refunds)
		return failed.err()
	}
	failed := s.refundAll(ctx, slices.DeleteFunc(slices.Clone(refunds), isLatest))
	for i := range refunds {
		if refunds[i].Latest {
			failed.add(refunds[i:i+1], limiter.RefundLatest(ctx, s, refunds[i]))
		}
	}
	return failed.err()
}

func (s *Store) refundAll(ctx context.Context, refunds []limiter.Refund) (failed failedRefunds) {
	for len(refunds) > 0 {
		n := s.refundsPerScript(refunds)
		if n < len(refunds) && s.separatesSlots() {
			n = refundsPerTrip(refunds)
			s.refundAcross(ctx, refunds[:n], &failed)
		} else {
			err := s.refundInSlot(ctx, refunds[:n])
			if s.learnsSlots(err) && s.refundsPerScript(refunds) < n {
				continue // in a script for each slot
			}
			failed.add(refunds[:n], err)
		}
		refunds = refunds[n:]
	}
	return failed
}

// failedRefunds collects the errors of scripts.
type failedRefunds struct {
	keys []string
	errs []error
}

// add records the error of the script for refunds, which can be nil.
func (f *failedRefunds) add(refunds []limiter.Refund, err error) {
	if err == nil {
		return
	}
	f.errs = append(f.errs, err)
	for i := range refunds {
		f.keys = append(f.keys, refunds[i].Key)
	}
}

func (f *failedRefunds) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	return &limiter.RefundError{Keys: f.keys, Cause: errors.Join(f.errs...)}
}

// refundsPerTrip returns the number of the first refunds that share a round trip on a Redis Cluster. A node can run the scripts of a round
// trip one after another without a pause, so they have the bound of one script.
func refundsPerTrip(refunds []limiter.Refund) int {
	logs := 0
	for i, r := range refunds {
		if logs += countLog(r.Limit); i == maxRefunds || logs > maxLogRefunds {
			return i
		}
	}
	return len(refunds)
}

// refundsPerScript returns the number of the first refunds that one script can make: of distinct keys and, on a Redis Cluster, in one slot.
func (s *Store) refundsPerScript(refunds []limiter.Refund) int {
	separates := s.separatesSlots()
	keys := make(map[string]bool, len(refunds))
	logs := 0
	for i, r := range refunds {
		logs += countLog(r.Limit)
		if keys[r.Key] || i == maxRefunds || logs > maxLogRefunds || separates && hashslot.Tag(r.Key) != hashslot.Tag(refunds[0].Key) {
			return i
		}
		keys[r.Key] = true
	}
	return len(refunds)
}

func countLog(limit limiter.Limit) int {
	if limit.Traits().Log {
		return 1
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
	script, keys, args := s.refundRequest(refunds)
	return s.refunded(refunds, redisclient.RunAs(ctx, s.client, redis.NewIntSliceCmd, script, keys, args))
}

// refundAcross runs refund.lua for each slot in one round trip, with its own timeout, except for slots whose node is unavailable.
func (s *Store) refundAcross(ctx context.Context, refunds []limiter.Refund, failed *failedRefunds) {
	var inSlots [][]limiter.Refund
	for len(refunds) > 0 {
		n := s.refundsPerScript(refunds)
		if s.Unavailable(refunds[0].Key) {
			failed.add(refunds[:n], redisclient.ErrUnavailable)
		} else {
			inSlots = append(inSlots, refunds[:n])
		}
		refunds = refunds[n:]
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	commands, _ := redisclient.RunEach(ctx, s.client, s.client.Redis(), redis.NewIntSliceCmd, len(inSlots),
		func(i int) (redisclient.Script, []string, []any) { return s.refundRequest(inSlots[i]) })
	for i, cmd := range commands {
		failed.add(inSlots[i], s.refunded(inSlots[i], cmd))
	}
}

// refundRequest returns the script that makes refunds, with its keys and arguments.
func (s *Store) refundRequest(refunds []limiter.Refund) (script redisclient.Script, keys []string, args []any) {
	return s.scripts.ForRefunds(s.now(), s.invalidations, refunds)
}

// refunded returns the error of the script that makes refunds, and reports corrupt counters.
func (s *Store) refunded(refunds []limiter.Refund, cmd *redis.IntSliceCmd) error {
	corrupt, err := cmd.Result()
	if err != nil {
		return fmt.Errorf("run the refund script: %w", redisclient.WithKind(err))
	}
	if len(corrupt) > 0 {
		s.reportStartsOver(corrupt, func(i int64) string { return refunds[i].Key })
	}
	return nil
}
