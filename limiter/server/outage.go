package server

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// outageLogEvery is the least time between two lines about an outage that goes on.
	outageLogEvery = 10 * time.Second
	// outageOverAfter is how long no call may have failed until a success ends an outage.
	outageOverAfter = time.Second
)

// outageLog tells the log when the store begins to fail, goes on failing, and answers again: a few lines per outage,
// not one per request.
type outageLog struct {
	log *slog.Logger
	// ongoing lets the success path, the hot one, pass without the lock.
	ongoing atomic.Bool

	mu          sync.Mutex
	failed      int64 // calls since the outage began
	began, last time.Time
	logged      time.Time
}

// failure notes a call that failed at now.
func (o *outageLog) failure(now time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ongoing.Load() {
		o.began, o.failed, o.logged = now, 0, time.Time{}
		o.ongoing.Store(true)
	}
	o.failed++
	o.last = now
	if now.Sub(o.logged) < outageLogEvery {
		return
	}
	o.logged = now
	o.log.Error("the store fails; requests that a policy matches get 503",
		"error", err, "failed", o.failed, "for", now.Sub(o.began))
}

// success notes a call that the store answered at now.
func (o *outageLog) success(now time.Time) {
	if !o.ongoing.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ongoing.Load() || now.Sub(o.last) < outageOverAfter {
		return
	}
	o.ongoing.Store(false)
	o.log.Info("the store works again", "failed", o.failed, "for", o.last.Sub(o.began))
}
