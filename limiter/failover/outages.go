package failover

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/limiter"
)

// unobservedInterval is the least time between two log lines about errors that no outage explains.
const unobservedInterval = time.Minute

// outages records when the remote store, or a part of it, is unavailable, and logs how an outage begins and ends.
type outages struct {
	clock      func() time.Time
	log        *slog.Logger
	unobserved rate.Sometimes

	active                   atomic.Bool  // len(parts) > 0
	allowed, denied, refused atomic.Int64 // requests that were decided locally since the last outage ended

	mu    sync.Mutex
	parts map[string]struct{} // that are unavailable, by address
	since time.Time           // when the first of them became unavailable
	spent time.Duration       // in outages that have ended
	began int64               // outages
}

func newOutages(clock func() time.Time, log *slog.Logger) *outages {
	return &outages{
		clock: clock, log: log, unobserved: rate.Sometimes{First: 1, Interval: unobservedInterval}, parts: map[string]struct{}{},
	}
}

// Unavailable records that the part of the remote store at address does not answer, and why.
func (s *Store) Unavailable(address string, cause error) { s.outages.begin(address, cause) }

// Recovered records that the part of the remote store at address answers again.
func (s *Store) Recovered(address string) { s.outages.end(address, s.local.Stats().Unreported) }

// LocalMode reports whether the remote store, or a part of it, is unavailable, and since when.
func (s *Store) LocalMode() (since time.Time, active bool) { return s.outages.current() }

func (o *outages) begin(address string, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.parts[address]; ok {
		return
	}
	if len(o.parts) == 0 {
		o.since = o.clock()
		o.began++
	}
	o.parts[address] = struct{}{}
	o.active.Store(true)
	o.log.Error("Redis unavailable; every policy applies its onStoreFailure", "address", address, "error", describeCause(cause))
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

func (o *outages) end(address string, unreported int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.parts[address]; !ok {
		return
	}
	delete(o.parts, address)
	o.active.Store(len(o.parts) > 0)
	if len(o.parts) > 0 {
		o.log.Info("a part of Redis is available again", "address", address, "unavailable", len(o.parts))
		return
	}
	lasted := o.clock().Sub(o.since)
	o.spent += lasted
	o.log.Info("Redis available again", "address", address, "after", lasted.Round(time.Millisecond),
		"allowed", o.allowed.Swap(0), "denied", o.denied.Swap(0), "refused", o.refused.Swap(0), "unreportedCounters", unreported)
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

// logUnobserved logs, at most once per interval, an error of the remote store that begins no outage, so that [Store.Unavailable]
// is not called for it.
func (o *outages) logUnobserved(err error) {
	if err != nil && limiter.ErrorKind(err) == limiter.KindOther {
		o.unobserved.Do(func() {
			o.log.Error("request decided locally because of an unexpected error of Redis", "error", err)
		})
	}
}
