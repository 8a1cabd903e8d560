package storetest

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// definition is a counter as docs/concepts/algorithms.md defines it, slow and in exact fractions: it keeps everything that was
// counted and refunded, and computes every answer from that. It shares no code with the algorithms of package limiter.
//
// The counter has its own time. It is the given time, unless the clock stepped back to before the time at which the counter
// last changed. A log changes when it counts its newest unit, a bucket when it counts or refunds a unit. Windows are
// aligned, so the time of a window algorithm only never goes back to an earlier window. If the counter's own time is more than
// one window ahead, or if a charge would have to wait for longer than the limit can make it wait, the counter starts over.
type definition struct {
	algorithm limiter.Algorithm
	window    int64     // us
	counted   []counted // in the order of their times
	latest    limiter.Instant
	opened    limiter.Instant // when the last window began that begins with its first unit
}

// firstRequestWindow is the algorithm that the build tag sixthalgorithm adds.
const firstRequestWindow limiter.Algorithm = "FirstRequestWindow"

// counted is units that were counted at one instant of the counter's time. In a bucket, units can be negative: a refund.
type counted struct {
	countedAt limiter.Instant
	units     int64
	limit     limiter.Limit // at that time
}

func newDefinition(limit limiter.Limit) *definition {
	return &definition{algorithm: limit.Algorithm(), window: limit.Window().Microseconds()}
}

func (d *definition) isBucket() bool {
	return d.algorithm == limiter.TokenBucket || d.algorithm == limiter.LeakyBucket
}

// time returns the counter's own time at a time of the clock.
func (d *definition) time(now limiter.Instant) limiter.Instant {
	if len(d.counted) == 0 {
		return now
	}
	switch {
	case d.algorithm == limiter.SlidingWindowLog:
		return max(now, d.counted[len(d.counted)-1].countedAt)
	case d.isBucket():
		return max(now, d.latest)
	case d.algorithm == firstRequestWindow:
		return max(now, d.opened)
	default:
		return max(now, limiter.Instant(d.index(d.latest)*d.window))
	}
}

// seen returns the counter as it is at a time of the clock: a new one if its own time is more than one window ahead.
func (d *definition) seen(now limiter.Instant) *definition {
	if d.time(now)-now > limiter.Instant(d.window) {
		return &definition{algorithm: d.algorithm, window: d.window}
	}
	return d
}

// seenBy is seen, or a new counter if it is ahead and a charge would have to wait too long.
func (d *definition) seenBy(now limiter.Instant, c limiter.Charge) *definition {
	seen := d.seen(now)
	if seen.time(now) > now && seen.blocksTooLong(now, c) {
		return &definition{algorithm: d.algorithm, window: d.window}
	}
	return seen
}

// blocksTooLong reports whether a charge would have to wait for longer than a counter that is not ahead can make it wait.
func (d *definition) blocksTooLong(now limiter.Instant, c limiter.Charge) bool {
	if required(c) > c.Limit.Capacity() {
		return false
	}
	longest := d.longestWait(c.Limit)
	if d.admits(now, c.Limit, required(c)) {
		return d.algorithm == limiter.LeakyBucket && c.Units() > 0 && d.used(now+longest, c.Limit).Sign() > 0
	}
	indebted := d
	if c.Debt && c.Cost > 0 {
		indebted = d.clone()
		indebted.countDebt(now, c.Limit, c.Units())
	}
	return !indebted.admits(now+longest, c.Limit, required(c))
}

// longestWait returns the time that everything that the limit holds needs to leave the counter.
func (d *definition) longestWait(limit limiter.Limit) limiter.Instant {
	switch {
	case d.isBucket():
		drain := new(big.Rat).Mul(big.NewRat(limit.Capacity(), limit.Units()), big.NewRat(d.window, 1))
		return limiter.Instant(-floor(drain.Neg(drain)))
	case d.algorithm == limiter.SlidingWindowCounter:
		return limiter.Instant(2 * d.window)
	default:
		return limiter.Instant(d.window)
	}
}

func (d *definition) clone() *definition {
	clone := *d
	clone.counted = slices.Clone(d.counted)
	return &clone
}

// index returns the number of the aligned window of an instant.
func (d *definition) index(instant limiter.Instant) int64 { return int64(instant) / d.window }

// used returns the units that count at a time of the clock, under a limit that may have been edited since they were counted.
func (d *definition) used(now limiter.Instant, limit limiter.Limit) *big.Rat {
	instant := d.time(now)
	switch {
	case d.isBucket():
		return d.level(instant, limit)
	case d.algorithm == limiter.SlidingWindowLog:
		return d.sum(func(c counted) bool { return c.countedAt > instant-limiter.Instant(d.window) && c.countedAt <= instant })
	case d.algorithm == limiter.FixedWindow:
		return d.sum(func(c counted) bool { return d.index(c.countedAt) == d.index(instant) })
	case d.algorithm == firstRequestWindow:
		return d.sum(func(counted) bool { return instant < d.closes() })
	default:
		current := d.sum(func(c counted) bool { return d.index(c.countedAt) == d.index(instant) })
		previous := d.sum(func(c counted) bool { return d.index(c.countedAt) == d.index(instant)-1 })
		elapsed := int64(instant) % d.window
		return current.Add(current, previous.Mul(previous, big.NewRat(d.window-elapsed, d.window)))
	}
}

// closes is when the window ends that began with its first unit.
func (d *definition) closes() limiter.Instant { return d.opened + limiter.Instant(d.window) }

func (d *definition) sum(counts func(counted) bool) *big.Rat {
	var units int64
	for _, c := range d.counted {
		if counts(c) {
			units += c.units
		}
	}
	return new(big.Rat).SetInt64(units)
}

// level returns the units in a bucket at an instant of its time. After the last change it drains at the rate of the limit,
// from no more than what the limit holds, and is empty at the latest at the time that the limit of that change set.
func (d *definition) level(instant limiter.Instant, limit limiter.Limit) *big.Rat {
	level, changed, empty := new(big.Rat), limiter.Instant(0), new(big.Rat)
	drained := func(now limiter.Instant, limit limiter.Limit) *big.Rat {
		if new(big.Rat).SetInt64(int64(now)).Cmp(empty) >= 0 {
			return new(big.Rat)
		}
		left := new(big.Rat).SetInt64(limit.Capacity())
		if level.Cmp(left) < 0 {
			left.Set(level)
		}
		rate := big.NewRat(limit.Units(), d.window)
		left.Sub(left, rate.Mul(rate, new(big.Rat).SetInt64(int64(now-changed))))
		if left.Sign() < 0 {
			return new(big.Rat)
		}
		return left
	}
	for _, c := range d.counted {
		level = drained(c.countedAt, c.limit)
		level.Add(level, new(big.Rat).SetInt64(c.units))
		changed = c.countedAt
		end := new(big.Rat).Mul(level, big.NewRat(d.window, c.limit.Units()))
		end.Add(end, new(big.Rat).SetInt64(int64(changed)))
		if c.units > 0 || end.Cmp(empty) < 0 { // a refund does not extend it
			empty = end
		}
	}
	return drained(instant, limit)
}

// admits reports whether a cost is within the limit at a time of the clock.
func (d *definition) admits(now limiter.Instant, limit limiter.Limit, cost int64) bool {
	used := d.used(now, limit)
	if most, bounded := limit.MaxDelay(); bounded && cost > 0 && d.used(now.Add(most), limit).Sign() > 0 {
		return false
	}
	return used.Add(used, new(big.Rat).SetInt64(cost)).Cmp(new(big.Rat).SetInt64(limit.Capacity())) <= 0
}

// spend counts units.
func (d *definition) spend(now limiter.Instant, limit limiter.Limit, units int64) {
	instant := d.time(now)
	if d.algorithm == firstRequestWindow && (len(d.counted) == 0 || instant >= d.closes()) {
		d.counted, d.opened = nil, instant
	}
	d.counted = append(d.counted, counted{instant, units, limit})
	d.latest = max(d.latest, instant)
}

// refund refunds units that were counted at an instant, and returns how many: at most those that still count. Of a bucket,
// these are the whole units that cannot have drained since then.
func (d *definition) refund(now limiter.Instant, limit limiter.Limit, units int64, spentAt limiter.Instant) (refunded int64) {
	if d.seen(now) != d {
		return 0
	}
	instant := d.time(now)
	if d.isBucket() {
		refunded = d.refundBucket(instant, limit, units, spentAt)
	} else {
		for i := range d.counted {
			c := &d.counted[i]
			if d.canRefund(c.countedAt, spentAt, instant) {
				taken := min(units-refunded, c.units)
				c.units -= taken
				refunded += taken
			}
		}
		d.counted = slices.DeleteFunc(d.counted, func(c counted) bool { return c.units == 0 })
	}
	if refunded > 0 && d.algorithm == limiter.SlidingWindowLog {
		// What has expired now does not count again, even if no unit is left that is as new as now.
		d.counted = slices.DeleteFunc(d.counted, func(c counted) bool { return c.countedAt <= instant-limiter.Instant(d.window) })
	}
	if refunded > 0 {
		d.latest = max(d.latest, instant)
	}
	if refunded > 0 && d.used(instant, limit).Sign() == 0 {
		d.counted, d.latest = nil, 0
	}
	return refunded
}

// canRefund reports whether units counted at an instant still count, and are those of a refund for an instant. A window
// algorithm keeps only the window of its units.
func (d *definition) canRefund(counted, spent, now limiter.Instant) bool {
	switch d.algorithm {
	case limiter.SlidingWindowLog:
		return counted == spent && counted > now-limiter.Instant(d.window)
	case limiter.FixedWindow:
		return d.index(counted) == d.index(spent) && d.index(counted) == d.index(now)
	case firstRequestWindow:
		return spent >= d.opened && spent < d.closes() && now < d.closes()
	default:
		return d.index(counted) == d.index(spent) && d.index(counted) >= d.index(now)-1
	}
}

func (d *definition) refundBucket(instant limiter.Instant, limit limiter.Limit, units int64, spentAt limiter.Instant) int64 {
	level := d.level(instant, limit)
	if level.Sign() == 0 || spentAt > instant { // spent before the counter started over
		return 0
	}
	drained := big.NewRat(limit.Units(), d.window)
	drained.Mul(drained, new(big.Rat).SetInt64(int64(max(0, instant-spentAt))))
	left := new(big.Rat).SetInt64(min(units, limit.Capacity()))
	if left.Sub(left, drained); left.Sign() <= 0 {
		return 0
	}
	refunded := floor(left)
	if refunded == 0 {
		return 0
	}
	if new(big.Rat).SetInt64(refunded).Cmp(level) >= 0 {
		d.counted, d.latest = nil, 0
		return refunded
	}
	d.counted = append(d.counted, counted{instant, -refunded, limit})
	return refunded
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

// check returns an error unless a decision is right for a cost, before anything is counted.
func (d *definition) check(now limiter.Instant, limit limiter.Limit, cost int64, got limiter.Decision) error {
	if err := d.checkState(now, limit, got); err != nil {
		return err
	}
	return d.checkDecided(now, limit, cost, got)
}

// checkDecided returns an error unless the parts of a decision are right that depend on the cost.
func (d *definition) checkDecided(now limiter.Instant, limit limiter.Limit, cost int64, got limiter.Decision) error {
	if want := d.admits(now, limit, cost); got.Allowed != want {
		return fmt.Errorf("cost %d is allowed: %t, by definition %t: %v units of %d are used", cost, got.Allowed, want, d.used(now, limit), limit.Capacity())
	}
	if err := d.checkDelay(now, limit, cost, got); err != nil {
		return err
	}
	switch {
	case got.Allowed:
		if got.RetryAfter != 0 {
			return fmt.Errorf("allowed with retry after %v, want 0", got.RetryAfter)
		}
	case cost > limit.Capacity():
		if got.RetryAfter != limiter.Never {
			return fmt.Errorf("cost %d of %d is never allowed, but retry after is %v", cost, limit.Capacity(), got.RetryAfter)
		}
	default:
		retry := now.Add(got.RetryAfter)
		if got.RetryAfter <= 0 || got.RetryAfter == limiter.Never || !d.admits(retry, limit, cost) || d.admits(retry-1, limit, cost) {
			return fmt.Errorf("retry after %v is not the shortest wait after which cost %d is allowed", got.RetryAfter, cost)
		}
		return d.checkLowered(now, limit, got)
	}
	return nil
}

// checkState returns an error unless the parts of a decision are right that do not depend on a cost.
func (d *definition) checkState(now limiter.Instant, limit limiter.Limit, got limiter.Decision) error {
	used := d.used(now, limit)
	free := new(big.Rat).SetInt64(limit.Capacity())
	remaining := max(0, floor(free.Sub(free, used)))
	full := now.Add(got.ResetAfter)
	switch {
	case got.Limit != limit.Units():
		return fmt.Errorf("limit %d, want %d", got.Limit, limit.Units())
	case got.At != d.time(now):
		return fmt.Errorf("decided at %d, by definition %d", got.At, d.time(now))
	case got.Ahead != got.At.Sub(now):
		return fmt.Errorf("ahead by %v, but decided at %d", got.Ahead, got.At)
	case got.Remaining != remaining:
		return fmt.Errorf("remaining %d, by definition %d: %v units of %d are used", got.Remaining, remaining, used, limit.Capacity())
	case got.ResetAfter < 0, d.used(full, limit).Sign() > 0, got.ResetAfter > 0 && d.used(full-1, limit).Sign() == 0:
		return fmt.Errorf("reset after %v is not the shortest time after which no unit is used", got.ResetAfter)
	}
	return nil
}

// checkDelay returns an error unless the delay of a decision is right: until a leaky bucket is empty.
func (d *definition) checkDelay(now limiter.Instant, limit limiter.Limit, cost int64, got limiter.Decision) error {
	turn := now.Add(got.Delay)
	waits := d.algorithm == limiter.LeakyBucket && got.Allowed && cost > 0
	if got.Delay < 0 || !waits && got.Delay != 0 ||
		waits && (d.used(turn, limit).Sign() > 0 || got.Delay > 0 && d.used(turn-1, limit).Sign() == 0) {
		return fmt.Errorf("delay %v is not the shortest time after which all units before it have left", got.Delay)
	}
	return nil
}

// checkLowered returns an error if a bucket blocks for longer than its burst takes to drain, whatever the burst was before.
func (d *definition) checkLowered(now limiter.Instant, limit limiter.Limit, got limiter.Decision) error {
	if !d.isBucket() {
		return nil
	}
	wait := got.RetryAfter - got.At.Sub(now) // by the time of the counter
	longest := new(big.Rat).Mul(big.NewRat(limit.Capacity(), limit.Units()), big.NewRat(d.window, 1))
	if new(big.Rat).SetInt64(int64((wait-time.Microsecond)/time.Microsecond)).Cmp(longest) >= 0 {
		return fmt.Errorf("blocks for %v, longer than %d units take to drain", wait, limit.Capacity())
	}
	return nil
}

// checkSpend returns an error unless the decisions of a Spend are right, and counts what was allowed. counters are those of
// the charges.
func checkSpend(now limiter.Instant, charges []limiter.Charge, counters []*definition, got []limiter.Decision) error {
	counts, seen := true, make([]*definition, len(charges))
	for i, c := range charges {
		seen[i] = counters[i].seenBy(now, c)
		counts = counts && (c.Shadow || seen[i].admits(now, c.Limit, required(c)))
	}
	for i, c := range charges {
		var err error
		switch admitted, units := seen[i].admits(now, c.Limit, required(c)), c.Units(); {
		case c.Debt && units > 0:
			*counters[i] = *seen[i]
			err = counters[i].checkDebt(now, c, units, admitted, got[i])
		case counts && units > 0 && admitted:
			*counters[i] = *seen[i]
			err = counters[i].checkCounted(now, c.Limit, units, got[i])
		default:
			err = seen[i].check(now, c.Limit, required(c), got[i])
		}
		if err != nil {
			return fmt.Errorf("charge %d: %w", i, err)
		}
	}
	return nil
}

// checkCounted counts units, and returns an error unless the decision that counted them is right.
func (d *definition) checkCounted(now limiter.Instant, limit limiter.Limit, units int64, got limiter.Decision) error {
	if !got.Allowed || got.RetryAfter != 0 {
		return fmt.Errorf("cost %d is denied, by definition allowed: %v units of %d are used", units, d.used(now, limit), limit.Capacity())
	}
	if err := d.checkDelay(now, limit, units, got); err != nil {
		return err
	}
	d.spend(now, limit, units)
	return d.checkState(now, limit, got)
}

// checkPeek returns an error unless the decisions of a Peek are right.
func checkPeek(now limiter.Instant, charges []limiter.Charge, counters []*definition, got []limiter.Decision) error {
	for i, c := range charges {
		if err := counters[i].seenBy(now, c).checkPeeked(now, c, got[i]); err != nil {
			return fmt.Errorf("charge %d: %w", i, err)
		}
	}
	return nil
}

// checkPeeked returns an error unless the decision of a Peek is right. The wait after a denied debt is that of a Spend, which counts it.
func (d *definition) checkPeeked(now limiter.Instant, c limiter.Charge, got limiter.Decision) error {
	if !c.Debt || c.Cost <= 0 || d.admits(now, c.Limit, required(c)) {
		return d.check(now, c.Limit, required(c), got)
	}
	if err := d.checkState(now, c.Limit, got); err != nil {
		return err
	}
	counted := d.clone()
	counted.countDebt(now, c.Limit, c.Units())
	return counted.checkDecided(now, c.Limit, required(c), got)
}

// required is the number of units that must be within the limit: one for a debt, however much it costs, unless it is a whole one.
func required(c limiter.Charge) int64 {
	if c.Debt && c.Cost > 0 && !c.Whole {
		return 1
	}
	return c.Units()
}

// checkDebt counts the units of a debt, and returns an error unless the decision that counted them is right. A window counts at most
// MaxUnits. A debt that was denied waits until what it requires is left again, with its own units counted.
func (d *definition) checkDebt(now limiter.Instant, c limiter.Charge, units int64, admitted bool, got limiter.Decision) error {
	limit := c.Limit
	d.countDebt(now, limit, units)
	if !admitted {
		return d.check(now, limit, required(c), got)
	}
	if !got.Allowed || got.RetryAfter != 0 {
		return fmt.Errorf("a debt is denied, by definition allowed before it was counted: %v units of %d are used", d.used(now, limit), limit.Capacity())
	}
	return d.checkState(now, limit, got)
}

// countDebt counts the units of a debt, up to MaxUnits in a window.
func (d *definition) countDebt(now limiter.Instant, limit limiter.Limit, units int64) {
	instant := d.time(now)
	inWindow := d.sum(func(c counted) bool { return d.index(c.countedAt) == d.index(instant) })
	if units = min(units, limiter.MaxUnits-inWindow.Num().Int64()); units > 0 {
		d.spend(now, limit, units)
	}
}

// checkExpiry returns an error unless a counter that was just written expires when its units stop counting.
func (d *definition) checkExpiry(now limiter.Instant, limit limiter.Limit, earliest, latest limiter.Instant, exists bool) error {
	free := d.used(now, limit).Sign() == 0
	switch {
	case free && exists && latest > now:
		return fmt.Errorf("no unit counts, and the counter exists until %v later", latest.Sub(now))
	case !free && !exists:
		return fmt.Errorf("%v units count, and the counter does not exist", d.used(now, limit))
	case !free && (d.used(latest, limit).Sign() > 0 || earliest > now && d.used(earliest-1, limit).Sign() == 0):
		return fmt.Errorf("the counter expires between %v and %v later, not when its units stop counting", earliest.Sub(now), latest.Sub(now))
	}
	return nil
}
