package redisstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
)

// group is the part of a call whose keys share a hash tag, and so a slot of a Redis Cluster: one script run decides it.
type group struct {
	tag     string
	charges []limiter.Charge
	places  []int // of the charges in the call
}

// groups splits charges that one script run cannot decide, in the order of their tags: two calls that meet in several
// slots meet in the same order. Two tags may share a slot; they are asked apart all the same. It is nil when one run
// can decide them all.
func (s *Store) groups(charges []limiter.Charge) []group {
	if _, cluster := s.client.rdb.(*redis.ClusterClient); !cluster || oneTag(charges) {
		return nil
	}
	var groups []group
	for i, c := range charges {
		tag := hashTag(c.Key)
		at := slices.IndexFunc(groups, func(g group) bool { return g.tag == tag })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{tag: tag})
		}
		groups[at].charges = append(groups[at].charges, c)
		groups[at].places = append(groups[at].places, i)
	}
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.tag, b.tag) })
	return groups
}

func oneTag(charges []limiter.Charge) bool {
	return !slices.ContainsFunc(charges, func(c limiter.Charge) bool { return hashTag(c.Key) != hashTag(charges[0].Key) })
}

// hashTag is the part of a key that decides its slot: what stands between the first brace and the next.
func hashTag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// put writes the group's decisions where they belong in the call's.
func (g group) put(decisions, own []limiter.Decision) {
	for i, place := range g.places {
		decisions[place] = own[i]
	}
}

// denied says whether an enforced charge of the group is denied.
func (g group) denied(own []limiter.Decision) bool {
	for i, c := range g.charges {
		if !c.Shadow && !own[i].Allowed {
			return true
		}
	}
	return false
}

// spendAcross spends group by group. When one denies, what the groups before it were charged is taken back, and the
// call's decisions are those of a peek. In between, others may find these units spent: for the length of a round trip
// or two a limit may seem fuller than it is, and never emptier.
func (s *Store) spendAcross(deadline time.Time, groups []group, n int) ([]limiter.Decision, error) {
	decisions := make([]limiter.Decision, n)
	for i, g := range groups {
		own, err := s.run(deadline, "spend", g.charges)
		if err != nil {
			// It is perhaps at its deadline: the caller does not wait for this.
			go s.takeBack(time.Now().Add(s.timeout), groups[:i], decisions)
			return nil, err
		}
		g.put(decisions, own)
		if g.denied(own) {
			s.takeBack(deadline, groups[:i], decisions)
			others := slices.Concat(groups[:i], groups[i+1:])
			if err := s.peekAcross(deadline, others, decisions); err != nil {
				return nil, err
			}
			return decisions, nil
		}
	}
	return decisions, nil
}

func (s *Store) peekAcross(deadline time.Time, groups []group, decisions []limiter.Decision) error {
	for _, g := range groups {
		own, err := s.run(deadline, "peek", g.charges)
		if err != nil {
			return err
		}
		g.put(decisions, own)
	}
	return nil
}

// takeBack refunds what groups were charged. A refund that fails is not sent again, since it may have been carried out:
// the units stay spent until their window ends.
func (s *Store) takeBack(deadline time.Time, groups []group, decisions []limiter.Decision) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	for _, g := range groups {
		var refunds []limiter.Refund
		for i, c := range g.charges {
			if d := decisions[g.places[i]]; d.Allowed && c.Cost > 0 {
				refunds = append(refunds, limiter.Refund{Key: c.Key, Limit: c.Limit, Cost: c.Cost, At: d.At})
			}
		}
		if err := s.refundGroup(ctx, refunds); err != nil {
			s.refundFailed(err)
		}
	}
}
