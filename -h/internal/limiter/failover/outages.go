package failover

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/go/internal/limiter"
)

const (
	// unobservedInterval is the least time between two log lines about local decisions of one kind that no outage explains.
	unobservedInterval = time.Minute
	// unobservedPause is how long a log line about a local decision waits, because an outage that explains it can begin meanwhile. It is longer than the
	// time for which calls fail before that is an outage.
	unobservedPause = 2 * time.Second
	// causeLasts is how long an outage has had another cause before that is logged.
	causeLasts = time.Second
	// The lines about an address that repeatedly becomes unavailable: some immediately, then one per interval.
	lineBurst, lineInterval = 6, 10 * time.Second
	// maxAddresses bounds the addresses whose lines are limited.
	maxAddresses = 1000
)

// outages records when the remote store, or a part of it, is unavailable, and logs how an outage begins and ends.
type outages struct {
	clock       func() time.Time
	log         *slog.Logger
	probeErrors *prometheus.CounterVec // by kind

	active                   atomic.Bool  // len(parts) > 0
	allowed, denied, refused atomic.Int64 // requests that were decided locally since the last outage ended

	mu    sync.Mutex
	parts map[part]*cause // that are unavailable
	lines map[string]*rate.Limiter
	since time.Time     // when the first of them became unavailable
	spent time.Duration // in outages that have ended
	began int64         // outages

	unobserved sync.Map // of *rate.Sometimes by the kind of the error
	counter    rate.Sometimes
}

// part is what is unavailable at an address: all of it if the name is empty.
type part struct{ address, name string }

// cause is why a part is unavailable, as far as that is logged.
type cause struct {
	kind      string    // of the last error that was logged
	next      string    // another kind that probes have had since then; empty without
	nextSince time.Time // when probes began to have it
}

func newOutages(clock func() time.Time, log *slog.Logger, probeErrors *prometheus.CounterVec) *outages {
	return &outages{
		clock: clock, log: log, probeErrors: probeErrors, parts: map[part]*cause{}, lines: map[string]*rate.Limiter{},
		counter: rate.Sometimes{First: 1, Interval: unobservedInterval},
	}
}

// Unavailable records that the part of the remote store at address does not answer, and why.
func (s *Store) Unavailable(address string, cause error) {
	s.outages.begin(part{address: address}, cause)
}

// Recovered records that the part of the remote store at address answers again.
func (s *Store) Recovered(address string) {
	s.outages.end(part{address: address}, s.local.Stats().Unreported)
}

// PartUnavailable records that the remote store at address fails for the counters that name describes, although it answers other calls, and why.
func (s *Store) PartUnavailable(address, name string, cause error) {
	s.outages.begin(part{address, name}, cause)
}

// PartRecovered records that the remote store at address answers again for the counters that name describes.
func (s *Store) PartRecovered(address, name string) {
	s.outages.end(part{address, name}, s.local.Stats().Unreported)
}

// ProbeFailed counts an error of a probe of an unavailable part of the remote store. If the cause of the outage has changed, it logs the new one.
func (s *Store) ProbeFailed(address string, cause error) { s.outages.probeFailed(address, cause) }

// CounterUnavailable logs that one counter is decided locally, and why.
func (s *Store) CounterUnavailable(key string, cause error) {
	s.outages.counter.Do(func() {
		s.outages.log.Warn("calls to Redis on single counters fail, although it answers others; policies apply their onStoreFailure to these counters",
			"key", key, "kind", limiter.ErrorKind(cause), "error", cause)
	})
}

// SplitsBySlot logs that calls are split from now on.
func (s *Store) SplitsBySlot(address string) {
	s.outages.log.Info("Redis answers CROSSSLOT although it reports that it is no cluster: calls are split by slot from now on", "address", address)
}

// LocalMode reports whether the remote store, or a part of it, is unavailable, and since when.
func (s *Store) LocalMode() (since time.Time, active bool) { return s.outages.current() }

func (o *outages) begin(p part, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.parts[p]; ok {
		return
	}
	if len(o.parts) == 0 {
		o.since = o.clock()
		o.began++
	}
	o.parts[p] = &cause{kind: lastKind(err)}
	o.active.Store(true)
	if !o.mayLog(p.address) {
		return
	}
	if p.name == "" {
		o.log.Error("Redis unavailable; every policy applies its onStoreFailure", "address", p.address, "error", describeCause(err), "kind", lastKind(err))
		return
	}
	o.log.Error("Redis rejects some calls, and answers others; the policies with these counters apply their onStoreFailure",
		"address", p.address, "counters", p.name, "error", describeCause(err), "kind", lastKind(err))
}

// mayLog reports whether a line about the address is logged, and notes it. An address that becomes unavailable and available all the time, for
// example because the nodes of a cluster disagree, would fill the log. The lock is held.
func (o *outages) mayLog(address string) bool {
	lines, ok := o.lines[address]
	if !ok {
		if len(o.lines) >= maxAddresses { // of nodes that were replaced long ago
			clear(o.lines)
		}
		lines = rate.NewLimiter(rate.Every(lineInterval), lineBurst)
		o.lines[address] = lines
	}
	return lines.AllowN(o.clock(), 1)
}

// lastKind returns the kind of the last error that err joins: that of the probe, which followed the call.
func lastKind(err error) string {
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		if all := joined.Unwrap(); len(all) > 0 {
			return limiter.ErrorKind(all[len(all)-1])
		}
	}
	return limiter.ErrorKind(err)
}

func (o *outages) probeFailed(address string, err error) {
	kind := limiter.ErrorKind(err)
	o.probeErrors.WithLabelValues(kind).Inc()
	o.mu.Lock()
	defer o.mu.Unlock()
	known, now := o.parts[part{address: address}], o.clock()
	switch {
	case known == nil:
	case kind == known.kind:
		known.next = ""
	case kind != known.next:
		known.next, known.nextSince = kind, now
	case now.Sub(known.nextSince) >= causeLasts && o.mayLog(address):
		*known = cause{kind: kind}
		o.log.Error("Redis still unavailable, now for another reason", "address", address, "error", describeCause(err), "kind", kind)
	}
}

// describeCause returns the text of cause on one line, without repetitions. The cause joins the error of a request and the error of
// the probe that followed it. Both often have the same text.
func describeCause(cause error) string {
	var distinct []string
	for line := range strings.SplitSeq(cause.Error(), "\n") {
		if !slices.ContainsFunc(distinct, func(earlier string) bool { return strings.Contains(earlier, line) }) {
			distinct = append(distinct, line)
		}
	}
	return strings.Join(distinct, "; ")
}

func (o *outages) end(p part, unreported int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.parts[p]; !ok {
		return
	}
	delete(o.parts, p)
	o.active.Store(len(o.parts) > 0)
	attributes := []any{"address", p.address}
	if p.name != "" {
		attributes = append(attributes, "counters", p.name)
	}
	if len(o.parts) > 0 {
		if o.mayLog(p.address) {
			o.log.Info("a part of Redis is available again", append(attributes, "unavailable", len(o.parts))...)
		}
		return
	}
	lasted := o.clock().Sub(o.since)
	o.spent += lasted
	allowed, denied, refused := o.allowed.Swap(0), o.denied.Swap(0), o.refused.Swap(0)
	if o.mayLog(p.address) {
		o.log.Info("Redis available again", append(attributes, "after", lasted.Round(time.Millisecond),
			"allowed", allowed, "denied", denied, "refused", refused, "unreportedCounters", unreported)...)
	}
}

func (o *outages) current() (since time.Time, active bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since, len(o.parts) > 0
}

// totals returns the number of outages and how long all of them were together.
func (o *outages) totals() (began int64, lasted time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lasted = o.spent
	if len(o.parts) > 0 {
		lasted += o.clock().Sub(o.since)
	}
	return o.began, lasted
}

// decided counts a request that was decided locally.
func (o *outages) decided(allowed bool) {
	if allowed {
		o.allowed.Add(1)
	} else {
		o.denied.Add(1)
	}
}

// logUnobserved logs, at most once per interval and kind, an error of the remote store after which a request is decided locally. If an outage can
// explain it, it waits for that.
func (o *outages) logUnobserved(err error) {
	if err == nil || o.active.Load() || errors.Is(err, limiter.ErrNotSent) { // an earlier error explains a call that was not sent
		return
	}
	kind := limiter.ErrorKind(err)
	sometimes, known := o.unobserved.Load(kind)
	if !known {
		sometimes, _ = o.unobserved.LoadOrStore(kind, &rate.Sometimes{First: 1, Interval: unobservedInterval})
	}
	sometimes.(*rate.Sometimes).Do(func() { //nolint:forcetypeassert // all values have this type
		if kind == limiter.KindOther {
			o.log.Error("request decided locally because of an unexpected error of Redis", "error", err)
			return
		}
		before := o.outagesBegun()
		time.AfterFunc(unobservedPause, func() {
			if o.outagesBegun() == before {
				o.log.Warn("request decided locally because a call to Redis failed; Redis answers other calls", "error", err, "kind", kind)
			}
		})
	})
}

func (o *outages) outagesBegun() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.began
}
