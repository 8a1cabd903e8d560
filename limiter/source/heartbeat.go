package source

import (
	"context"
	"log/slog"
	"time"
)

// farewell bounds the last word of a limiter that is going away.
const farewell = time.Second

// Heartbeat says again and again that a limiter is alive, and with which rules.
type Heartbeat struct {
	interval time.Duration
	beat     func(context.Context) error
	forget   func(context.Context) error
	log      *slog.Logger
	now      chan struct{}
}

// NewHeartbeat returns a heartbeat that calls beat every interval, and forget at the end.
func NewHeartbeat(interval time.Duration, beat, forget func(context.Context) error, log *slog.Logger) *Heartbeat {
	return &Heartbeat{interval: interval, beat: beat, forget: forget, log: log, now: make(chan struct{}, 1)}
}

// Now asks for a beat at once, because there is something new to tell. It does not wait for it.
func (h *Heartbeat) Now() {
	select {
	case h.now <- struct{}{}:
	default: // one is asked for already
	}
}

// Run beats until ctx is done, then says that the limiter is gone.
func (h *Heartbeat) Run(ctx context.Context) {
	defer h.leave(ctx)
	tick := time.NewTicker(h.interval)
	defer tick.Stop()
	var failing bool
	for {
		err := h.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		if failing != (err != nil) {
			h.report(err)
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

func (h *Heartbeat) report(err error) {
	if err != nil {
		h.log.Warn("heartbeats fail: the operator does not count this replica", "error", err)
		return
	}
	h.log.Info("heartbeats work again")
}

func (h *Heartbeat) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := h.forget(ctx); err != nil {
		h.log.Warn("the operator counts this replica a few seconds longer", "error", err)
	}
}
