package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

const (
	// pause is the time between two rounds of Run while there are leases.
	pause = 50 * time.Millisecond
	// returnsPerCall bounds the refunds in one call of the store.
	returnsPerCall = 128
	// retryReturn is when units are returned that could not be returned because their counter was unavailable.
	retryReturn = time.Second
	// maxReturns bounds the returns that wait: for unavailable counters, and for a store that is slower than leases end.
	maxReturns = 100_000
)

// Run ends leases and returns their units until ctx is done. Then it ends all leases. No lease must be made after that.
func (l *Leases) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if l.schedule.empty() {
			select {
			case <-ctx.Done():
			case <-l.schedule.wake:
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			l.Tick(ctx)
		}
	}
	l.endAll(context.WithoutCancel(ctx))
}

// Tick does what is due now. Run calls it; tests call it with a clock of their own.
func (l *Leases) Tick(ctx context.Context) {
	now := l.toInstant(l.clock())
	for _, e := range l.schedule.dueBy(now) {
		if next, keep := l.expire(e, now); keep {
			l.schedule.add(next, e)
		}
	}
	l.sendReturns(ctx, now)
}

// expire ends the lease of an entry if it is due, and removes the entry if it is idle. Otherwise it returns when to look again.
func (l *Leases) expire(e *entry, now instant) (next instant, keep bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next = now.add(e.maxAge)
	if h := e.lease.Load(); h != nil {
		if now < h.expiresAt {
			return h.expiresAt, true
		}
		l.end(h)
	}
	if e.spending || e.touched.add(2*e.maxAge) > now {
		return next, true
	}
	e.removed = true
	l.entries.Delete(e.key)
	l.count.Add(-1)
	return 0, false
}

// end ends a lease and schedules the return of what is left.
func (l *Leases) end(h *held) {
	if rest, first := h.end(); first {
		l.metrics.admitted.Add(h.size - rest)
		l.rest(h, rest)
	}
}

// rest schedules the return of units of a lease that has ended.
func (l *Leases) rest(h *held, units int64) {
	if units <= 0 {
		return
	}
	if !h.returnable {
		l.metrics.expired.Add(units)
		return
	}
	l.giveUp(giveUp{
		Refund:    limiter.Refund{Key: h.key, Limit: h.limit, Cost: units, At: h.countedAt},
		uselessAt: h.began.add(h.limit.Window()),
	})
}

// giveUp schedules the return of units. If too many returns wait, the units expire.
func (l *Leases) giveUp(units giveUp) {
	if !l.schedule.give(units) {
		l.metrics.expired.Add(units.Cost)
	}
}

// sendReturns returns units to the store. A return that fails is not repeated, because it may have been counted.
func (l *Leases) sendReturns(ctx context.Context, now instant) {
	var refunds []limiter.Refund
	for _, g := range l.schedule.returnsBy(now) {
		switch {
		case g.uselessAt <= now:
			l.metrics.expired.Add(g.Cost)
		case l.remote.Unavailable(g.Key):
			g.tryAt = now.add(retryReturn)
			l.giveUp(g)
		default:
			refunds = append(refunds, g.Refund)
		}
	}
	for len(refunds) > 0 {
		n := min(returnsPerCall, len(refunds))
		failed := failedKeys(refunds[:n], l.remote.Refund(ctx, refunds[:n]))
		for _, r := range refunds[:n] {
			if slices.Contains(failed, r.Key) {
				l.metrics.expired.Add(r.Cost)
			} else {
				l.metrics.returned.Add(r.Cost)
			}
		}
		refunds = refunds[n:]
	}
}

// failedKeys returns the keys of the refunds that err, the error of a call of the store, concerns.
func failedKeys(refunds []limiter.Refund, err error) (keys []string) {
	if some, ok := errors.AsType[*limiter.RefundError](err); ok {
		return some.Keys
	}
	for i := range refunds {
		if err != nil {
			keys = append(keys, refunds[i].Key)
		}
	}
	return keys
}

// endAll ends all leases and returns their units.
func (l *Leases) endAll(ctx context.Context) {
	for _, value := range l.entries.Range {
		e := value.(*entry) //nolint:forcetypeassert // all its values have this type
		e.mu.Lock()
		e.removed = true
		if h := e.lease.Load(); h != nil {
			l.end(h)
		}
		e.mu.Unlock()
	}
	l.sendReturns(ctx, l.toInstant(l.clock()))
}
