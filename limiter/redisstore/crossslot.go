package redisstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// slotGroup is the charges of a call whose keys have the same hash tag, and so are in one slot of a Redis Cluster: one
// script decides them.
type slotGroup struct {
	tag     string
	charges []limiter.Charge
	indexes []int // of the charges in the call
}

// groupBySlot splits charges that one script cannot decide, sorted by hash tag: two calls that share several slots use them
// in the same order. Two tags can be in the same slot; they are separate groups nevertheless. It returns nil if one script
// can decide all charges.
func (s *Store) groupBySlot(charges []limiter.Charge) []slotGroup {
	if _, cluster := s.client.Cluster(); !cluster || haveSameTag(charges) {
		return nil
	}
	var groups []slotGroup
	for i, c := range charges {
		tag := hashTag(c.Key)
		at := slices.IndexFunc(groups, func(g slotGroup) bool { return g.tag == tag })
		if at < 0 {
			at = len(groups)
			groups = append(groups, slotGroup{tag: tag})
		}
		groups[at].charges = append(groups[at].charges, c)
		groups[at].indexes = append(groups[at].indexes, i)
	}
	slices.SortFunc(groups, func(a, b slotGroup) int { return strings.Compare(a.tag, b.tag) })
	return groups
}

func haveSameTag(charges []limiter.Charge) bool {
	return !slices.ContainsFunc(charges, func(c limiter.Charge) bool { return hashTag(c.Key) != hashTag(charges[0].Key) })
}

// hashTag returns the part of a key that decides its slot: the text between the first "{" and the next "}".
func hashTag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// place copies the decisions of the group to their indexes in those of the call.
func (g slotGroup) place(decisions, own []limiter.Decision) {
	for i, index := range g.indexes {
		decisions[index] = own[i]
	}
}

// isDenied reports whether an enforced charge of the group is denied.
func (g slotGroup) isDenied(own []limiter.Decision) bool {
	for i, c := range g.charges {
		if !c.Shadow && !own[i].Allowed {
			return true
		}
	}
	return false
}

// spendAcross spends group by group. If a group is denied, it refunds the groups before it, and returns the decisions of a
// peek for the others. Until the refund, one or two round trips later, other requests see these units as spent: a limit can
// seem fuller than it is, never emptier.
func (s *Store) spendAcross(deadline time.Time, groups []slotGroup, n int) ([]limiter.Decision, error) {
	decisions := make([]limiter.Decision, n)
	for i, g := range groups {
		own, err := s.run(deadline, modeSpend, g.charges)
		if err != nil {
			go s.refundGroups(groups[:i], decisions) // the caller does not wait: the call may be at its deadline
			return nil, err
		}
		g.place(decisions, own)
		if g.isDenied(own) {
			s.refundUntil(deadline, groups[:i], slices.Clone(decisions))
			others := slices.Concat(groups[:i], groups[i+1:])
			if err := s.peekAcross(deadline, others, decisions); err != nil {
				return nil, err
			}
			return decisions, nil
		}
	}
	return decisions, nil
}

func (s *Store) peekAcross(deadline time.Time, groups []slotGroup, decisions []limiter.Decision) error {
	for _, g := range groups {
		own, err := s.run(deadline, modePeek, g.charges)
		if err != nil {
			return err
		}
		g.place(decisions, own)
	}
	return nil
}

// refundUntil is [Store.refundGroups] for a caller that waits until deadline. The refunds continue after it.
func (s *Store) refundUntil(deadline time.Time, groups []slotGroup, decisions []limiter.Decision) {
	refunded := make(chan struct{})
	go func() {
		defer close(refunded)
		s.refundGroups(groups, decisions)
	}()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-refunded:
	case <-timer.C:
	}
}

// refundGroups refunds the charges of groups that were allowed. A refund has its own timeout: a node that was slow before must
// not cost the units of another. It does not retry a refund that fails, because the refund may have run: the units stay spent
// until their window ends.
func (s *Store) refundGroups(groups []slotGroup, decisions []limiter.Decision) {
	for _, g := range groups {
		var refunds []limiter.Refund
		for i, c := range g.charges {
			if d := decisions[g.indexes[i]]; d.Allowed && c.Cost > 0 {
				refunds = append(refunds, limiter.Refund{Key: c.Key, Limit: c.Limit, Cost: c.Cost, At: d.At})
			}
		}
		if err := s.refundInSlot(context.Background(), refunds); err != nil {
			s.refundFailed(err)
		}
	}
}
