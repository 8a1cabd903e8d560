package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
)

// Totals knows what an engine has decided in the last periods of [engine.Top]. Run must run.
type Totals struct {
	engine  *engine.Engine
	metrics prometheus.Gatherer

	lock    sync.Mutex
	samples []sample // the oldest first
}

// sample is the totals at the end of a period, or why they could not be read: an error of the process, for example too many open files.
type sample struct {
	takenAt time.Time
	totals  totals
	err     error
}

// NewTotals returns the totals of an engine with the option CountIdentifiers, whose metrics and those of its endpoints are in metrics.
func NewTotals(e *engine.Engine, metrics prometheus.Gatherer) *Totals {
	return &Totals{engine: e, metrics: metrics}
}

// Run takes a sample at the end of each period, until ctx is done.
func (t *Totals) Run(ctx context.Context) {
	for {
		end := t.engine.TopPeriodEnd()
		timer := time.NewTimer(time.Until(end))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		now, err := t.read()
		t.keep(sample{end, now, err})
	}
}

// keep adds a sample, and drops all but the last three: a Top begins at the end of a period, at most two periods ago, and the period that
// ends now can have been sampled already.
func (t *Totals) keep(s sample) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.samples = append(t.samples, s)
	if len(t.samples) > 3 {
		t.samples = slices.Clone(t.samples[1:])
	}
}

func (t *Totals) read() (totals, error) {
	now := newTotals()
	families, err := t.metrics.Gather()
	if err != nil {
		return now, fmt.Errorf("read the metrics: %w", err)
	}
	now.addMetrics(families)
	return now, nil
}

// Top returns the Top of the engine, with n identifiers in each list. If policy is not "", it lists only what the policy decided.
func (t *Totals) Top(n int, policy string) (Top, error) {
	counted, ok := t.engine.Top(n, policy)
	if !ok {
		return Top{}, errors.New("the limiter does not count identifiers")
	}
	sums, err := t.read()
	if err != nil {
		return Top{}, err
	}
	earlier, err := t.latestBefore(counted.Since)
	if err != nil {
		return Top{}, err
	}
	sums.subtract(earlier)
	sums.addShadow(t.engine.Index())
	top := Top{Seconds: time.Since(counted.Since).Seconds(), Allowed: counted.Allowed, Denied: counted.Denied}
	sums.fill(&top)
	if policy != "" {
		top.Policies = slices.DeleteFunc(top.Policies, func(p PolicyDecisions) bool { return p.Policy != policy })
	}
	return top, nil
}

// latestBefore returns the totals at the beginning of a Top. They are empty if it began with the process.
func (t *Totals) latestBefore(since time.Time) (totals, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, s := range slices.Backward(t.samples) {
		if s.takenAt.After(since) {
			continue
		}
		if s.err != nil {
			return totals{}, fmt.Errorf("the decisions before %s are unknown, retry in one minute: %w", since.UTC().Format(time.TimeOnly), s.err)
		}
		return s.totals, nil
	}
	return newTotals(), nil
}
