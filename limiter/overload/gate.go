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
	announced atomic.Int64 // requests that have not begun yet
	running   atomic.Int64
	rejected  atomic.Int64 // since the last measurement
	most      int64        // the limit of a process that keeps up
	log       *slog.Logger
}

// NewGate returns a Gate for a process with that number of processors.
func NewGate(processors int, log *slog.Logger) *Gate {
	g := &Gate{log: log, most: int64(processors) * perProcessor}
	g.limit.Store(g.most)
	return g
}

// Enter reports whether the process can handle a request now. If so, the caller calls Leave when it has.
func (g *Gate) Enter() bool {
	if g == nil {
		return true
	}
	if g.isFull() {
		return false
	}
	g.running.Add(1)
	return true
}

// Announce is Enter for a request that has not been read yet. If it returns true, the caller calls Begin when it handles the
// request, and Leave afterwards. A request that is never handled, because it cannot be read, is forgotten when the process
// keeps up again.
func (g *Gate) Announce() bool {
	if g == nil {
		return true
	}
	if g.isFull() {
		return false
	}
	g.announced.Add(1)
	return true
}

// Begin starts a request that was announced.
func (g *Gate) Begin() {
	if g != nil {
		g.announced.Add(-1)
		g.running.Add(1)
	}
}

// Leave ends a request.
func (g *Gate) Leave() {
	if g != nil {
		g.running.Add(-1)
	}
}

// isFull counts the requests that it rejects.
func (g *Gate) isFull() bool {
	full := g.running.Load()+g.announced.Load() >= g.limit.Load()
	if full {
		g.rejected.Add(1)
	}
	return full
}

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
	inProgress := g.running.Load() + g.announced.Load()
	before := control.limit
	limit := control.step(delay, inProgress, g.rejected.Swap(0))
	g.limit.Store(limit)
	switch {
	case before == g.most && limit != g.most:
		g.log.Warn("overloaded: rejecting some requests; add replicas or processors", "delay", delay, "limit", limit)
	case before != g.most && limit == g.most:
		g.log.Info("no longer overloaded")
	}
	if limit == g.most {
		g.announced.Store(0) // those that were never handled
		if inProgress == 0 {
			return idleInterval
		}
	}
	return busyInterval
}
