package engine

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// mode tells of the times when the store, or a part of it, is away.
type mode struct {
	log                      *slog.Logger
	sometimes                rate.Sometimes
	allowed, denied, refused atomic.Int64 // requests decided locally since the last outage
	waryUntil                atomic.Int64 // nanoseconds since the epoch
	partly                   atomic.Bool  // a part is away: others may have taken its counters over

	mu    sync.Mutex
	parts map[string]struct{} // that are away
	since time.Time           // when the first of them went
	spent time.Duration       // in outages that are over
	began int64               // outages
}

// Unavailable says that a part of the store, by its address, does not answer, and why.
func (e *Engine) Unavailable(part string, cause error) {
	m := &e.mode
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.parts[part]; known {
		return
	}
	if len(m.parts) == 0 {
		m.parts, m.since = map[string]struct{}{}, e.clock()
		m.began++
	}
	m.parts[part] = struct{}{}
	m.partly.Store(true)
	m.log.Error("the store is away; policies decide by their onStoreFailure", "store", part, "error", cause)
}

// odd tells now and then of an error that makes no outage, and of which nobody else tells.
func (m *mode) odd(err error) {
	if err != nil && errorKind(err) == "other" {
		m.sometimes.Do(func() { m.log.Error("a decision was made without the store", "error", err) })
	}
}

// Recovered says that a part of the store answers again.
func (e *Engine) Recovered(part string) {
	m := &e.mode
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.parts[part]; !known {
		return
	}
	delete(m.parts, part)
	m.partly.Store(len(m.parts) > 0)
	if len(m.parts) > 0 {
		m.log.Info("a part of the store is back", "store", part, "away", len(m.parts))
		return
	}
	lasted := e.clock().Sub(m.since)
	m.spent += lasted
	stats := e.local.Stats()
	m.log.Info("the store is back", "store", part, "for", lasted.Round(time.Millisecond),
		"allowed", m.allowed.Swap(0), "denied", m.denied.Swap(0), "refused", m.refused.Swap(0), "owing", stats.Owing)
}

// Local says since when policies decide without the store, or a part of it; false if they do not.
func (e *Engine) Local() (since time.Time, local bool) {
	m := &e.mode
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.since, len(m.parts) > 0
}

// outages is how many there were, and how long all of them were together.
func (e *Engine) outages() (began int64, lasted time.Duration) {
	m := &e.mode
	m.mu.Lock()
	defer m.mu.Unlock()
	lasted = m.spent
	if len(m.parts) > 0 {
		lasted += e.clock().Sub(m.since)
	}
	return m.began, lasted
}

// decided notes an answer.
func (m *mode) decided(a *Answer) {
	switch {
	case a.Source != SourceLocal:
	case a.Allowed:
		m.allowed.Add(1)
	default:
		m.denied.Add(1)
	}
}

// wary says whether the store is back for so short a time, to be asked about subjects, that other replicas may not know it.
// It may be back in another part than the one that went: on a Redis Cluster a replica takes over.
func (e *Engine) wary(now time.Time, subjects []subject) bool {
	if now.UnixNano() < e.mode.waryUntil.Load() {
		return true
	}
	if !e.mode.partly.Load() {
		return false
	}
	return slices.ContainsFunc(subjects, func(s subject) bool { return e.local.Alone(s.charge.Key, maxWary) })
}
