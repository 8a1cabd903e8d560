package source

import (
	"context"
	"log/slog"
	"time"
)

// deregisterTimeout is the timeout of the last call of a limiter that shuts down.
const deregisterTimeout = time.Second

// Heartbeat reports periodically that a limiter is alive, and its active revision.
type Heartbeat struct {
	interval   time.Duration
	beat       func(context.Context) error
	deregister func(context.Context) error
	log        *slog.Logger
	now        chan struct{}
}

// NewHeartbeat returns a heartbeat that calls beat every interval, and deregister at the end.
func NewHeartbeat(interval time.Duration, beat, deregister func(context.Context) error, log *slog.Logger) *Heartbeat {
	return &Heartbeat{interval: interval, beat: beat, deregister: deregister, log: log, now: make(chan struct{}, 1)}
}

// Now requests an immediate beat, for example after a new revision. It does not wait for the beat.
func (h *Heartbeat) Now() {
	select {
	case h.now <- struct{}{}:
	default: // a beat is already requested
	}
}

// Run beats until ctx is done, then deregisters the limiter.
func (h *Heartbeat) Run(ctx context.Context) {
	defer h.stop(ctx)
	tick := time.NewTicker(h.interval)
	defer tick.Stop()
	var failing bool
	for {
		err := h.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		if failing != (err != nil) {
			h.logChange(err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-h.now:
		}
	}
}

func (h *Heartbeat) logChange(err error) {
	if err != nil {
		h.log.Warn("heartbeats fail: the operator does not count this replica", "error", err)
		return
	}
	h.log.Info("heartbeats succeed again")
}

func (h *Heartbeat) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deregisterTimeout)
	defer cancel()
	if err := h.deregister(ctx); err != nil {
		h.log.Warn("cannot deregister this replica: the operator counts it for a few more seconds", "error", err)
	}
}
