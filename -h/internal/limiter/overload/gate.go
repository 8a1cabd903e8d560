// Package overload rejects requests when the process has more of them than it can answer in time.
//
// Without a bound, each request that is too many delays all others, until no answer arrives before the caller gives up. A
// [Gate] measures how long goroutines wait for a processor, and bounds the number of requests in progress as long as
// that takes too long. docs/adr/0043 has the reasons.
package overload

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// perProcessor is how many requests a processor can have in progress, whatever the delay. It takes a processor much less than
// 100 ms to handle as many, so this bound matters only in the first moments of an overload.
const perProcessor = 1024

// The pauses between two measurements: while there are requests, and while the process is idle.
const (
	busyInterval = 10 * time.Millisecond
	idleInterval = 100 * time.Millisecond
)

// Gate admits requests. Each admitted request calls either Enter, or Announce and then Begin, and finally Leave. A nil Gate
// admits everything. A Gate is safe for concurrent use.
type Gate struct {
	limit     atomic.Int64
	announced atomic.Pointer[announced]
	running   atomic.Int64
	rejected  atomic.Int64 // since the last measurement
	most      int64        // the limit of a process that keeps up
	shares    Shares
	log       *slog.Logger
}

// announced counts the requests that were announced and have not begun: those since the last measurement, and those of the interval
// before it. Older ones do not count. Their callers are slow, or they will never begin.
type announced struct{ current, previous *atomic.Int64 }

func (a *announced) count() int64 { return a.current.Load() + a.previous.Load() }

// Announcement is a request that was announced.
type Announcement struct {
	counter *atomic.Int64
	share   *Share
	weight  int64
}

// Share returns the Share of a new connection. A request of a connection that has less than its part of the limit in progress is admitted, whatever
// the other connections have in progress.
func (g *Gate) Share() *Share {
	if g == nil {
		return nil
	}
	return g.shares.Share()
}

// NewGate returns a Gate for a process with that number of processors.
func NewGate(processors int, log *slog.Logger) *Gate {
	g := &Gate{log: log, most: int64(processors) * perProcessor}
	g.limit.Store(g.most)
	g.announced.Store(&announced{new(atomic.Int64), new(atomic.Int64)})
	return g
}

// Enter reports whether the process can handle a request now. If so, the caller calls Leave when it has.
func (g *Gate) Enter() bool {
	if g == nil {
		return true
	}
	if !g.admits(nil, 1) {
		return false
	}
	g.running.Add(1)
	return true
}

// Announce is Enter for a request that has not been read yet. If it returns true, the caller calls Begin when it has read the
// request, or Withdraw if it cannot read it. A request for which it calls neither is forgotten.
func (g *Gate) Announce() (Announcement, bool) { return g.AnnounceOf(nil) }

// AnnounceOf is Announce for a request of a connection. Its share does not forget: the caller calls BeginHeavy and then End, or Withdraw.
func (g *Gate) AnnounceOf(share *Share) (Announcement, bool) {
	if g == nil {
		return Announcement{}, true
	}
	if !g.admits(share, 1) {
		return Announcement{}, false
	}
	a := Announcement{g.announced.Load().current, share, 1}
	a.counter.Add(1)
	a.add(1)
	return a, true
}

// add changes what the connection of a request has in progress.
func (a *Announcement) add(n int64) {
	if a.share != nil {
		a.share.Add(n)
	}
}

// Begin reports whether the process can handle a request that was announced. If so, the caller calls Leave when it has. It rejects
// only requests that were announced so long ago that they are forgotten.
func (g *Gate) Begin(a Announcement) bool { return g.BeginHeavy(&a, 1) }

// BeginHeavy is Begin for a request that counts as several. The caller calls End when it has handled it. It rejects heavy requests too.
func (g *Gate) BeginHeavy(a *Announcement, weight int64) bool {
	if g == nil {
		return true
	}
	now := g.announced.Load()
	forgotten := a.counter != now.current && a.counter != now.previous
	more := weight - 1
	if forgotten {
		more = weight // it does not count yet
	}
	if more > 0 && !g.admits(a.share, more) {
		g.Withdraw(*a)
		return false
	}
	g.running.Add(weight)
	a.add(weight)
	g.Withdraw(*a)
	a.weight = weight
	return true
}

// End ends a request for which BeginHeavy returned true.
func (g *Gate) End(a Announcement) {
	if g != nil {
		g.running.Add(-a.weight)
		a.add(-a.weight)
	}
}

// Withdraw ends a request that was announced and does not begin.
func (g *Gate) Withdraw(a Announcement) {
	if a.counter != nil {
		a.counter.Add(-1)
		a.add(-1)
	}
}

// admits reports whether there is room for a request with a weight: in the limit, or else in the part of its connection.
func (g *Gate) admits(share *Share, weight int64) bool {
	limit, total := g.limit.Load(), g.inProgress()+weight
	if total <= limit || share != nil && share.fits(weight, total, limit, g.most) {
		return true
	}
	g.rejected.Add(1)
	return false
}

// Leave ends a request.
func (g *Gate) Leave() {
	if g != nil {
		g.running.Add(-1)
	}
}

func (g *Gate) inProgress() int64 { return g.running.Load() + g.announced.Load().count() }

// Run adapts the limit to the measured delay until ctx is done.
func (g *Gate) Run(ctx context.Context, delay func() time.Duration) {
	control := newController(g.most)
	timer := time.NewTimer(idleInterval)
	defer timer.Stop()
	defer g.limit.Store(g.most)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(g.adapt(control, delay()))
	}
}

// adapt applies one measurement, and returns the time until the next one.
func (g *Gate) adapt(control *controller, delay time.Duration) time.Duration {
	inProgress := g.inProgress()
	g.announced.Store(&announced{current: new(atomic.Int64), previous: g.announced.Load().current})
	previous := control.limit
	limit := control.step(delay, inProgress, g.rejected.Swap(0))
	g.limit.Store(limit)
	switch {
	case previous == g.most && limit != g.most:
		g.log.Warn("overloaded: rejecting some requests; add replicas or processors", "delay", delay, "limit", limit)
	case previous != g.most && limit == g.most:
		g.log.Info("no longer overloaded")
	}
	if limit == g.most && inProgress == 0 {
		return idleInterval
	}
	return busyInterval
}
