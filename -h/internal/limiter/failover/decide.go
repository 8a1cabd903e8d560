package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// decide decides charges all or nothing: on the remote store as far as it is available, and locally for the rest.
func (s *Store) decide(ctx context.Context, charges []limiter.Charge, peek bool) ([]limiter.Decision, error) {
	began := s.clock()
	remote, unavailable := s.split(charges)
	recovers := len(unavailable.charges) == 0 && s.inRecoveryWindow(began, charges)
	switch {
	case !peek && (recovers || len(unavailable.charges) > 0) && haveDebts(charges):
		return s.decideDebts(ctx, charges, began)
	case recovers:
		return s.decideWhileRecovering(ctx, charges, peek, began)
	case len(unavailable.charges) == 0:
		decisions, err := s.call(ctx, charges, peek, began)
		if canBeRepeated(err) && s.areAvailable(charges) {
			// What other requests spend meanwhile is known only there. After a lost reply the request may be counted twice, as after a
			// local decision.
			decisions, err = s.call(ctx, charges, peek, s.clock())
		}
		if err != nil {
			return s.decideWithout(charges, peek, err)
		}
		return decisions, nil
	case len(remote.charges) == 0:
		return s.decideLocally(charges, spends(peek), nil)
	default:
		return s.decideSplit(ctx, charges, remote, unavailable, peek, began)
	}
}

// canBeRepeated reports whether a call that failed is made again if its counters are available. One that has counted debts is not.
func canBeRepeated(err error) bool {
	if _, isPartial := errors.AsType[*limiter.PartialError](err); isPartial {
		return false
	}
	return errors.Is(err, limiter.ErrReplyLost) || errors.Is(err, limiter.ErrNotSent)
}

// areAvailable reports whether the counters of all charges are available.
func (s *Store) areAvailable(charges []limiter.Charge) bool {
	return !slices.ContainsFunc(charges, func(c limiter.Charge) bool { return s.isUnavailable(&c) })
}

// subset is some of the charges of a request, with their indices in it.
type subset struct {
	charges []limiter.Charge
	indices []int
}

func (s *subset) add(index int, charge limiter.Charge) {
	s.charges, s.indices = append(s.charges, charge), append(s.indices, index)
}

// copyTo copies the decisions about the subset to their places among all decisions of the request.
func (s *subset) copyTo(merged, decisions []limiter.Decision) {
	for i, index := range s.indices {
		merged[index] = decisions[i]
	}
}

// split divides charges by whether their counters are available. If all are available, both subsets are empty, and
// nothing is allocated.
func (s *Store) split(charges []limiter.Charge) (remote, unavailable subset) {
	for i := range charges {
		if s.isUnavailable(&charges[i]) {
			unavailable.add(i, charges[i])
		}
	}
	if len(unavailable.charges) == 0 {
		return remote, unavailable
	}
	next := 0 // of the unavailable
	for i := range charges {
		if next < len(unavailable.indices) && unavailable.indices[next] == i {
			next++
			continue
		}
		remote.add(i, charges[i])
	}
	return remote, unavailable
}

// decideSplit decides the unavailable subset first, because a local refund makes no call.
func (s *Store) decideSplit(
	ctx context.Context, charges []limiter.Charge, remote, unavailable subset, peek bool, began time.Time,
) ([]limiter.Decision, error) {
	merged := undecided(len(charges))
	decisions, err := s.decideLocally(unavailable.charges, spends(peek), nil)
	if err != nil {
		return nil, unavailable.reindexed(err)
	}
	unavailable.copyTo(merged, decisions)
	if !pass(unavailable.charges, decisions) {
		s.peekOthers(ctx, merged, remote, began)
		return merged, nil
	}
	answered, err := s.call(ctx, remote.charges, peek, began)
	if err == nil && pass(remote.charges, answered) {
		remote.copyTo(merged, answered)
		return merged, nil
	}
	if !peek {
		s.refund(unavailable.charges, decisions)
	}
	if err != nil { // the counters that were available no longer are
		return s.decideWithout(charges, peek, err)
	}
	if decisions, err = s.decideLocally(unavailable.charges, countsNothing, nil); err != nil {
		return nil, unavailable.reindexed(err)
	}
	unavailable.copyTo(merged, decisions)
	remote.copyTo(merged, answered)
	return merged, nil
}

// peekOthers adds the decisions of the remote store to those of a request that is denied locally: one of them may have the longest wait. Without
// an answer they stay undecided.
func (s *Store) peekOthers(ctx context.Context, merged []limiter.Decision, others subset, began time.Time) {
	if len(others.charges) == 0 {
		return
	}
	if decisions, err := s.call(ctx, others.charges, true, began); err == nil {
		others.copyTo(merged, decisions)
	}
}

// reindexed is an error about the subset's charges as one about the request's.
func (s *subset) reindexed(err error) error {
	if refused, ok := errors.AsType[*limiter.RefusedError](err); ok {
		refused.Charge = s.indices[refused.Charge]
	}
	return err
}

// refund takes back what decideLocally has counted.
func (s *Store) refund(charges []limiter.Charge, decisions []limiter.Decision) {
	counted := countedLocally(charges)
	selected := make([]limiter.Decision, len(counted.charges))
	for i, index := range counted.indices {
		selected[i] = decisions[index]
	}
	s.local.Refund(counted.charges, selected)
}

// decideWhileRecovering decides on the remote store and charges this replica's share as well: other replicas may still be
// in local mode and admit their shares.
func (s *Store) decideWhileRecovering(ctx context.Context, charges []limiter.Charge, peek bool, began time.Time) ([]limiter.Decision, error) {
	counted := countedLocally(charges)
	reserve := s.local.Reserve
	if peek {
		reserve = s.local.Peek
	}
	reserved := madeLocally(reserve(counted.charges))
	if !pass(counted.charges, reserved) {
		merged := undecided(len(charges))
		s.peekOthers(ctx, merged, subset{charges, indices(len(charges))}, began)
		for i, index := range counted.indices {
			if merged[index].Origin == limiter.Undecided || limiter.CompareStrictness(reserved[i], merged[index]) < 0 {
				merged[index] = reserved[i]
			}
		}
		return merged, nil
	}
	decisions, err := s.call(ctx, charges, peek, began)
	if (err != nil || !pass(charges, decisions)) && !peek {
		s.local.Refund(counted.charges, reserved)
	}
	if err != nil {
		return s.decideWithout(charges, peek, err)
	}
	return decisions, nil
}

// decideWithout decides charges after an error of the remote store. Whether the remote store has counted them or not, this
// replica now decides without it, and the next answer of the remote store includes what it has counted. A call that this
// process did not make is no such error.
func (s *Store) decideWithout(charges []limiter.Charge, peek bool, err error) ([]limiter.Decision, error) {
	if partial, ok := errors.AsType[*limiter.PartialError](err); ok {
		return s.decideRest(charges, partial)
	}
	if !errors.Is(err, limiter.ErrOverloaded) {
		return s.decideLocally(charges, spends(peek), err)
	}
	for i := range charges {
		if charges[i].OnStoreFailure == limiter.DenyOnFailure && !charges[i].Shadow {
			return nil, &limiter.RefusedError{Charge: i, Cause: err}
		}
	}
	return nil, err
}

// counting is which of the charges that local mode counts are counted.
type counting int

const (
	countsNothing counting = iota // a peek
	countsDebts                   // the request is denied
	countsAll
)

// spends returns what a request counts that is not denied elsewhere.
func spends(peek bool) counting {
	if peek {
		return countsNothing
	}
	return countsAll
}

// decideLocally decides each charge by its OnStoreFailure. The cause is the error of the remote store, nil if it was not
// called.
func (s *Store) decideLocally(charges []limiter.Charge, counts counting, cause error) ([]limiter.Decision, error) {
	s.outages.logUnobserved(cause)
	decisions, refused := make([]limiter.Decision, len(charges)), -1
	for i := range charges {
		c := &charges[i]
		switch {
		case c.OnStoreFailure == limiter.LocalOnFailure: // below
		case c.OnStoreFailure == limiter.DenyOnFailure && !c.Shadow:
			if refused < 0 {
				refused = i
			}
			counts = min(counts, countsDebts)
		default: // as if nothing had been spent
			decisions[i] = c.Limit.NewState().Decide(limiter.At(s.clock()), c.Limit, c.Needed())
			decisions[i].Origin = limiter.OriginLocal
			if !decisions[i].Allowed && !c.Shadow { // it costs more than its limit
				counts = min(counts, countsDebts)
			}
		}
	}
	if counted := countedLocally(charges); len(counted.charges) > 0 {
		counted.copyTo(decisions, madeLocally(s.spendLocally(counted.charges, counts)))
	}
	if refused >= 0 {
		return nil, &limiter.RefusedError{Charge: refused, Cause: cause}
	}
	return decisions, nil
}

// spendLocally decides charges that local mode counts.
func (s *Store) spendLocally(charges []limiter.Charge, counts counting) []limiter.Decision {
	if counts != countsNothing {
		s.reportLater()
	}
	if counts == countsAll {
		return s.local.Spend(charges)
	}
	decisions := s.local.Peek(charges)
	for i := range charges {
		if counts == countsDebts && charges[i].CountsAlways() {
			decisions[i] = s.local.Spend(charges[i : i+1])[0]
		}
	}
	return decisions
}

// call decides charges on the remote store.
func (s *Store) call(ctx context.Context, charges []limiter.Charge, peek bool, began time.Time) ([]limiter.Decision, error) {
	s.reportUsage(ctx, charges)
	op, spend := "spend", s.remote.Spend
	if peek {
		op, spend = "peek", s.remote.Peek
	}
	decisions, err := spend(ctx, charges)
	if !errors.Is(err, limiter.ErrOverloaded) { // no call was made
		s.observe(op, s.clock().Sub(began), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s on %d counters: %w", op, len(charges), err)
	}
	if !peek {
		s.learn(charges, decisions, began)
	}
	return decisions, nil
}

// learn copies the remote store's decisions to the local counters. In the recovery window it does not: then other replicas
// may have spent units that the remote store does not know yet.
func (s *Store) learn(charges []limiter.Charge, decisions []limiter.Decision, began time.Time) {
	if s.inRecoveryWindow(began, charges) {
		return
	}
	for i := range charges {
		if charges[i].OnStoreFailure == limiter.LocalOnFailure {
			s.local.Learn(charges[i:i+1], decisions[i:i+1])
		}
	}
}

// countedLocally is the subset of charges that local mode counts.
func countedLocally(charges []limiter.Charge) subset {
	var counted subset
	for i := range charges {
		if charges[i].OnStoreFailure == limiter.LocalOnFailure {
			counted.add(i, charges[i])
		}
	}
	return counted
}

// indices returns those of n charges.
func indices(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// undecided returns n decisions that are yet to be made.
func undecided(n int) []limiter.Decision {
	decisions := make([]limiter.Decision, n)
	for i := range decisions {
		decisions[i].Origin = limiter.Undecided
	}
	return decisions
}

// madeLocally marks decisions as made locally.
func madeLocally(decisions []limiter.Decision) []limiter.Decision {
	for i := range decisions {
		decisions[i].Origin = limiter.OriginLocal
	}
	return decisions
}

// pass reports whether all enforced charges are allowed.
func pass(charges []limiter.Charge, decisions []limiter.Decision) bool {
	for i := range charges {
		if !charges[i].Shadow && !decisions[i].Allowed {
			return false
		}
	}
	return true
}
