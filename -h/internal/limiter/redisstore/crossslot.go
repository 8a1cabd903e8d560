package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
	"github.com/weir-dev/weir/go/internal/limiter/redisstore/hashslot"
)

// chargeGroup is the charges of a call that one run of a script decides.
type chargeGroup struct {
	charges []limiter.Charge
	indexes []int // of the charges in the call
}

// inOneSlot reports whether the keys of charges have the same hash tag. Two tags can be in the same slot; they count as two slots
// nevertheless.
func inOneSlot(charges []limiter.Charge) bool {
	for i := 1; i < len(charges); i++ {
		if hashslot.Tag(charges[i].Key) != hashslot.Tag(charges[0].Key) {
			return false
		}
	}
	return true
}

// inOneRun reports whether one run of a script can decide the charges, wherever they are.
func (s *Store) inOneRun(charges []limiter.Charge) bool {
	return !s.separatesSlots() || inOneSlot(charges)
}

// separatesSlots reports whether the keys of a script must be in one slot.
func (s *Store) separatesSlots() bool {
	_, isCluster := s.client.Cluster()
	return isCluster || s.splits.Load()
}

// learnsSlots reports whether err shows that the server, which is no cluster, rejects keys in several slots. Services do that which hide a cluster
// behind one address. The Store splits its calls from then on.
func (s *Store) learnsSlots(err error) bool {
	if redisclient.Kind(err) != redisclient.KindCrossSlot {
		return false
	}
	if _, isCluster := s.client.Cluster(); isCluster {
		return false
	}
	if c := s.batchers.breaker; !s.splits.Swap(true) && c != nil {
		c.observer.SplitsBySlot(s.client.Name())
	}
	return true
}

// groupBy returns a group for each name that nameOf returns for a charge.
func groupBy(charges []limiter.Charge, nameOf func(*limiter.Charge) string) []chargeGroup {
	var groups []chargeGroup
	var names []string
	for i := range charges {
		name := nameOf(&charges[i])
		index := slices.Index(names, name)
		if index < 0 {
			index = len(groups)
			groups, names = append(groups, chargeGroup{}), append(names, name)
		}
		groups[index].charges = append(groups[index].charges, charges[i])
		groups[index].indexes = append(groups[index].indexes, i)
	}
	return groups
}

func groupBySlot(charges []limiter.Charge) []chargeGroup {
	return groupBy(charges, func(c *limiter.Charge) string { return hashslot.Tag(c.Key) })
}

// groupByNode groups charges by the node that can decide them together, or by slot while it is paused.
func (s *Store) groupByNode(deadline time.Time, charges []limiter.Charge) []chargeGroup {
	now := time.Now()
	return groupBy(charges, func(c *limiter.Charge) string {
		node := s.batchers.address(deadline, c.Key)
		if isReadInPlace(*c) || s.together.IsPaused(node, now) {
			return "{" + hashslot.Tag(c.Key)
		}
		return node
	})
}

// onOneNode reports whether one node can decide all charges together.
func (s *Store) onOneNode(deadline time.Time, charges []limiter.Charge) bool {
	first := s.batchers.address(deadline, charges[0].Key)
	return !s.together.IsPaused(first, time.Now()) && !slices.ContainsFunc(charges, func(c limiter.Charge) bool {
		return isReadInPlace(c) || s.batchers.address(deadline, c.Key) != first
	})
}

// across decides charges in several slots. At first, each node of the cluster decides all of its charges together. If a node does not have
// the keys of all of them, which it reports before anything is counted there, each slot is decided on its own.
func (s *Store) across(origin origin, mode string, charges []limiter.Charge) ([]limiter.Decision, error) {
	inGroups := s.spendGroups
	if mode == modePeek {
		inGroups = s.peekGroups
	}
	if _, isCluster := s.client.Cluster(); !isCluster { // its nodes are hidden
		return inGroups(origin, groupBySlot(charges), len(charges))
	}
	var decisions []limiter.Decision
	var err error
	if s.onOneNode(origin.deadline, charges) {
		decisions, err = s.run(origin, mode, charges)
	} else {
		decisions, err = inGroups(origin, s.groupByNode(origin.deadline, charges), len(charges))
	}
	if errors.Is(err, errSeveralSlots) {
		return inGroups(origin.later(), groupBySlot(charges), len(charges))
	}
	return decisions, err
}

// place copies the decisions of the group to their indexes in those of the call.
func (g chargeGroup) place(decisions, own []limiter.Decision) {
	for i, index := range g.indexes {
		decisions[index] = own[i]
	}
}

// isDenied reports whether an enforced charge of the group is denied.
func (g chargeGroup) isDenied(own []limiter.Decision) bool {
	for i, c := range g.charges {
		if !c.Shadow && !own[i].Allowed {
			return true
		}
	}
	return false
}

// spendGroups spends all groups at the same time. If one is denied, it refunds the others and peeks at them, in one more round trip. Until
// then, other requests see these units as spent: a limit can seem fuller than it is, never emptier.
func (s *Store) spendGroups(origin origin, groups []chargeGroup, n int) ([]limiter.Decision, error) {
	decisions := make([]limiter.Decision, n)
	var counted []chargeGroup
	var failed error
	denied := false
	for i, own := range s.runGroups(origin, modeSpend, groups) {
		switch g := groups[i]; {
		case own.err != nil:
			if failed == nil || errors.Is(failed, errSeveralSlots) {
				failed = own.err
			}
		case g.isDenied(own.decisions):
			denied = true
			g.place(decisions, own.decisions)
		default:
			counted = append(counted, g)
			g.place(decisions, own.decisions)
		}
	}
	switch {
	case errors.Is(failed, errSeveralSlots): // the call is repeated
		_, err := s.uncount(origin, counted, decisions)
		return nil, errors.Join(failed, err)
	case failed != nil:
		go s.refundGroups(counted, decisions) // the caller does not wait: the call may be at its deadline
		return nil, failed
	case denied && len(counted) > 0:
		return s.uncount(origin, counted, decisions)
	default:
		return decisions, nil
	}
}

// runGroups decides all groups at the same time.
func (s *Store) runGroups(origin origin, mode string, groups []chargeGroup) []result {
	results := make([]result, len(groups))
	if mode == modeSpend && slices.ContainsFunc(groups, func(g chargeGroup) bool { return s.Unavailable(g.charges[0].Key) }) {
		for i := range results { // nothing is counted in vain on the other nodes
			results[i].err = redisclient.ErrUnavailable
		}
		return results
	}
	done := make(chan struct{}, len(groups))
	for i := 1; i < len(groups); i++ {
		go func() {
			results[i].decisions, results[i].err = s.run(origin, mode, groups[i].charges)
			done <- struct{}{}
		}()
	}
	results[0].decisions, results[0].err = s.run(origin, mode, groups[0].charges)
	for range len(groups) - 1 {
		<-done
	}
	return results
}

func (s *Store) peekGroups(origin origin, groups []chargeGroup, n int) ([]limiter.Decision, error) {
	decisions := make([]limiter.Decision, n)
	for i, own := range s.runGroups(origin, modePeek, groups) {
		if own.err != nil {
			return nil, own.err
		}
		groups[i].place(decisions, own.decisions)
	}
	return decisions, nil
}

// uncount refunds groups that were counted, and replaces their decisions by those of a peek. It returns at the deadline; the refunds
// continue after it.
func (s *Store) uncount(origin origin, counted []chargeGroup, decisions []limiter.Decision) ([]limiter.Decision, error) {
	outcome := make(chan result, 1)
	go func() {
		refunded := slices.Clone(decisions)
		err := s.refundAndPeek(counted, refunded)
		outcome <- result{refunded, err}
	}()
	timer := time.NewTimer(time.Until(origin.deadline))
	defer timer.Stop()
	select {
	case r := <-outcome:
		return r.decisions, r.err
	case <-timer.C:
		return nil, redisclient.WithKind(fmt.Errorf("refund a denied request: %w", context.DeadlineExceeded))
	}
}

// refundAndPeek refunds groups and peeks at them, in one round trip to each node.
func (s *Store) refundAndPeek(counted []chargeGroup, decisions []limiter.Decision) error {
	if len(counted) == 0 {
		return nil
	}
	var slots []chargeGroup // with indexes in decisions
	for _, g := range counted {
		if s.Unavailable(g.charges[0].Key) {
			s.refundFailed(redisclient.ErrUnavailable)
			return redisclient.ErrUnavailable
		}
		for _, slot := range groupBySlot(g.charges) {
			for i, index := range slot.indexes {
				slot.indexes[i] = g.indexes[index]
			}
			slots = append(slots, slot)
		}
	}
	ctx, cancel := s.withTimeout(context.Background())
	defer cancel()
	peeks := make([]*call, len(slots))
	for i, slot := range slots {
		peeks[i] = &call{mode: modePeek, charges: slot.charges}
	}
	commands, isLate := redisclient.RunEach(ctx, s.client, s.client.Redis(), redis.NewIntSliceCmd, 2*len(slots),
		func(i int) (redisclient.Script, []string, []any) {
			if i%2 == 0 {
				return s.refundRequest(slots[i/2].refunds(decisions))
			}
			return s.request(peeks[i/2 : i/2+1])
		})
	var errs []error
	for i, slot := range slots {
		if err := s.refunded(slot.refunds(decisions), commands[2*i]); err != nil {
			s.refundFailed(err)
		}
		if isLate[2*i] { // after the peek
			commands[2*i+1] = s.runScript(ctx, peeks[i:i+1])
		}
		s.decodeReply(peeks[i:i+1], commands[2*i+1])
		if err := peeks[i].reply.err; err != nil {
			errs = append(errs, err)
			continue
		}
		slot.place(decisions, peeks[i].reply.decisions)
	}
	return errors.Join(errs...)
}

// refunds returns the refunds of the charges that were counted.
func (g chargeGroup) refunds(decisions []limiter.Decision) []limiter.Refund {
	var refunds []limiter.Refund
	for i, c := range g.charges {
		if d := decisions[g.indexes[i]]; d.Allowed && c.Cost > 0 {
			refunds = append(refunds, limiter.Refund{Key: c.Key, Limit: c.Limit, Cost: c.Cost, At: d.At})
		}
	}
	return refunds
}

// refundGroups refunds the charges of groups that were counted. A refund has its own timeout: a node that was slow before must not cost
// the units of another. It does not retry a refund that fails, because the refund may have run: the units stay spent until their window
// ends.
func (s *Store) refundGroups(groups []chargeGroup, decisions []limiter.Decision) {
	var refunds []limiter.Refund
	for _, g := range groups {
		refunds = append(refunds, g.refunds(decisions)...)
	}
	for _, err := range s.refundAll(context.Background(), refunds).errs {
		s.refundFailed(err)
	}
}
