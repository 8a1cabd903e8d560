// Package replay decides recorded requests under policies, at the time at which they were recorded, and finds out what the policies would have denied.
//
// It matches, identifies, charges and decides with the engine of a limiter, whose counters are those of package counters: they have no clock but the log's,
// no Redis, no outages and no leases. Requests are matched on all processors, and decided one after another in the order of their times. A request that
// several policies match is all or nothing, and one counter of it can be that of any other request: therefore counters cannot be divided among processors
// before their requests are known.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

// Source has recorded requests in the order of their times. The caller owns a batch that it returns.
type Source interface {
	Next(ctx context.Context) ([]accesslog.Record, error) // io.EOF at the end; returns when ctx ends, also while it waits for a line
}

// Options of a replay.
type Options struct {
	Policies rules.Set
	// Before are the policies before a change, to compare with; nil without a comparison.
	Before *rules.Set
	// Domain is that of requests whose record has no domain.
	Domain string
	// HashKey hashes secret identifiers. It is that with which the policies were compiled.
	HashKey *limiter.HashKey
	// Limits are tried for each policy, in place of its own.
	Limits []int64
	// ExcludeDenied leaves out requests that were denied with status 429 when they were recorded.
	ExcludeDenied bool
	// Suggest finds the smallest limits that deny at most a share of the identifiers, or of the requests with OfRequests; nil without suggestions.
	Suggest *Suggest
	// Sample is the number of requests for which curves and suggestions are computed; 0 is the default.
	Sample int
	// Exempt are the writes to the Kubernetes API that no policy limits.
	Exempt exempt.Lists
	// Observe receives each request with its decision, for tests. The answers are valid until it returns.
	Observe func(record *accesslog.Record, results []engine.Result, allowed bool)
}

// Suggest describes what a suggested limit may deny.
type Suggest struct {
	Share      float64 // for example 0.001
	OfRequests bool
	Windows    []time.Duration
}

// Replay decides recorded requests. It is used once.
type Replay struct {
	options  Options
	clock    recordedClock
	after    *side
	before   *side // nil without a comparison
	compared *comparison

	from, to limiter.Instant
	late     int64
	requests atomic.Int64
	// Requests that are not decided.
	excluded, exempt, dryRuns atomic.Int64
	examples                  examples
	// fromDecisions is set if there are decisions of a limiter, which knew the identifiers of its requests.
	fromDecisions atomic.Bool
	brief         bool // the user waits for the result after an interrupt
}

// New returns a Replay under valid policies.
func New(o Options) (*Replay, error) {
	r := &Replay{options: o}
	var err error
	if r.after, err = newSide(o.Policies, &o, &r.clock); err != nil {
		return nil, err
	}
	if o.Before != nil {
		without := o
		without.Limits, without.Sample = nil, 1
		if r.before, err = newSide(*o.Before, &without, &r.clock); err != nil {
			return nil, fmt.Errorf("policies before the change: %w", err)
		}
		r.compared = newComparison(r.before, r.after)
	}
	return r, nil
}

// Requests is the number of requests that were decided so far. It is safe for concurrent use.
func (r *Replay) Requests() int64 { return r.requests.Load() }

// recordedClock is the time of the request that is matched, for rules that count paths.
type recordedClock struct{ at atomic.Int64 }

func (c *recordedClock) now() time.Time { return time.UnixMicro(c.at.Load()) }

// job is a batch on its way.
type job struct {
	records       []accesslog.Record
	checks        []engine.Check
	moments       []moment
	after, before plan
	err           error // of the matching, or of the source after the records
	matched       chan struct{}
}

// moment is when a request is decided. Records are large: their decision does not read them again.
type moment struct {
	at limiter.Instant
	// peek is true for a known denial. It has not reached the counters, and is made by the clock of the limiter. At the end of a wait, Redis could have
	// admitted the request.
	peek bool
}

// momentOf returns the moment of a record.
func momentOf(record *accesslog.Record) moment {
	recorded := record.Recorded
	return moment{limiter.At(record.Start), recorded != nil && recorded.Source == string(engine.SourceCache)}
}

// Run decides the requests of the source up to its end. If ctx ends, it returns the error of ctx, and Result describes the requests before.
// The source is in use until Run returns.
func (r *Replay) Run(ctx context.Context, source Source) error {
	var started sync.WaitGroup
	defer started.Wait() // the caller closes the source, and reads what the goroutines write
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := runtime.GOMAXPROCS(0)
	source = &settled{source: source}
	unmatched, inOrder := make(chan *job, workers), make(chan *job, 2*workers)
	free := make(chan *job, 4*workers)
	started.Go(func() { r.read(ctx, source, free, unmatched, inOrder) })
	for range workers {
		started.Go(func() { r.match(ctx, unmatched) })
	}
	defer debug.SetGCPercent(debug.SetGCPercent(maxGarbage))
	garbage := maxGarbage
	for {
		var j *job
		select {
		case j = <-inOrder:
		case <-ctx.Done(): // the source can wait for a line
		}
		if j == nil {
			return context.Cause(ctx)
		}
		select {
		case <-j.matched:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := r.decideBatch(ctx, j); err != nil {
			cancel(err)
			return err
		}
		if j.err != nil && !errors.Is(j.err, io.EOF) {
			return j.err
		}
		if next := r.garbage(); next != garbage {
			garbage = next
			debug.SetGCPercent(garbage)
		}
		j.records, j.matched, j.err = nil, nil, nil
		select {
		case free <- j:
		default:
		}
	}
}

// Bounds of the garbage that is kept between two collections, in percent of what is reachable. With tables of hundreds of megabytes, the usual 100 would
// double the memory of the process.
const (
	maxGarbage    = 200
	minGarbage    = 7
	garbageTarget = 96 << 20
	readerBytes   = 80 << 20 // that a source keeps, approximately
)

func (r *Replay) garbage() int {
	bytes := r.after.bytes()
	if r.before != nil {
		bytes += r.before.bytes()
	}
	return min(max(garbageTarget*100/(bytes+readerBytes), minGarbage), maxGarbage)
}

// batch is the number of requests that are matched together: few enough that their charges stay in the cache of a processor until they are decided.
const batch = 512

// read hands the records of the source over, in batches.
func (r *Replay) read(ctx context.Context, source Source, free <-chan *job, unmatched, inOrder chan<- *job) {
	defer close(inOrder)
	defer close(unmatched)
	for {
		records, err := source.Next(ctx)
		for len(records) > 0 || err != nil {
			n := min(len(records), batch)
			j := reuse(free)
			j.records, j.matched = records[:n:n], make(chan struct{})
			if records = records[n:]; len(records) == 0 {
				j.err = err
			}
			for _, to := range []chan<- *job{inOrder, unmatched} {
				select {
				case to <- j:
				case <-ctx.Done():
					return
				}
			}
			if len(records) == 0 {
				break
			}
		}
		if err != nil {
			return
		}
	}
}

// reuse returns a job with the memory of an earlier one.
func reuse(free <-chan *job) *job {
	select {
	case j := <-free:
		return j
	default:
		return &job{}
	}
}

// kept returns the records that are decided.
func (r *Replay) kept(records []accesslog.Record) []accesslog.Record {
	kept := 0
	for i := range records {
		record := &records[i]
		switch write := record.Request.Kubernetes; {
		case r.options.ExcludeDenied && record.Status == statusDenied:
			r.excluded.Add(1)
		case write != nil && write.DryRun: // is decided, and not counted
			r.dryRuns.Add(1)
		case write != nil && r.options.Exempt.Includes(write):
			r.exempt.Add(1)
		default:
			if kept < i { // it is large
				records[kept] = *record
			}
			kept++
		}
	}
	return records[:kept]
}

const statusDenied = 429

// match matches batches.
func (r *Replay) match(ctx context.Context, jobs <-chan *job) {
	for j := range jobs {
		j.records = r.kept(j.records)
		j.checks, j.moments = j.checks[:0], j.moments[:0]
		for i := range j.records {
			j.checks = append(j.checks, r.check(&j.records[i]))
			j.moments = append(j.moments, momentOf(&j.records[i]))
		}
		if err := r.matchSides(ctx, j); err != nil {
			j.err = err
		}
		close(j.matched)
	}
}

func (r *Replay) matchSides(ctx context.Context, j *job) error {
	if !r.after.isOrdered {
		if err := r.after.match(ctx, &j.after, j.checks); err != nil {
			return err
		}
	}
	if r.before != nil && !r.before.isOrdered {
		return r.before.match(ctx, &j.before, j.checks)
	}
	return nil
}

// check returns what a limiter decides for a record.
func (r *Replay) check(record *accesslog.Record) engine.Check {
	c := engine.Check{Request: record.Request, Cost: 1, NoDelay: true}
	switch k := c.Request.Kubernetes; {
	case k != nil:
		c.Request.Domain = k.Namespace
	case c.Request.Domain == "":
		c.Request.Domain = r.options.Domain
	}
	if recorded := record.Recorded; recorded != nil {
		if !r.fromDecisions.Load() {
			r.fromDecisions.Store(true)
		}
		c.NoDelay = recorded.Endpoint != "check" && recorded.Endpoint != "auth"
		c.Cost = max(recorded.Cost, 1)
		if recorded.Result == "uncharged" {
			c.Cost = 0
		}
		r.after.restore(&c.Request, recorded)
	}
	return c
}

// decideBatch decides the requests of a batch in their order.
func (r *Replay) decideBatch(ctx context.Context, j *job) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.examples.add(j.checks)
	if !r.after.isOrdered {
		j.after.find()
	}
	if r.before != nil && !r.before.isOrdered {
		j.before.find()
	}
	for i := range j.moments {
		now := j.moments[i].at
		switch {
		case r.from == 0:
			r.from = now
		case now < r.to:
			r.late++
			now = r.to
		}
		r.to = now
		after, err := r.after.decideAt(ctx, j, &j.after, i, now, &r.clock)
		if err != nil {
			return err
		}
		if r.before != nil {
			before, err := r.before.decideAt(ctx, j, &j.before, i, now, &r.clock)
			if err != nil {
				return err
			}
			r.compared.compare(&before, &after)
		}
		if r.options.Observe != nil {
			r.options.Observe(&j.records[i], after.results(r.after.engine), after.allowed)
		}
	}
	r.requests.Add(int64(len(j.records)))
	return nil
}

// decideAt is decide, for a side that matches in order too.
func (s *side) decideAt(ctx context.Context, j *job, p *plan, i int, now limiter.Instant, clock *recordedClock) (outcome, error) {
	peek := j.moments[i].peek
	if s.isOrdered {
		clock.at.Store(int64(now))
		if err := s.match(ctx, p, j.checks[i:i+1]); err != nil {
			return outcome{}, err
		}
		p.find()
		i = 0
	}
	return s.decide(ctx, p, i, now, peek)
}
