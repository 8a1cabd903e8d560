package accesslog

import (
	"context"
	"fmt"
	"io"
	"sort"
	"time"
)

// inFlight is the number of blocks of a file that are read ahead.
const inFlight = 4

// stream returns the records of one file in the order of their start. It sorts them within a window.
type stream struct {
	file   *file
	queue  chan *block
	window time.Duration

	ready   []Record   // the next records
	runs    [][]Record // sorted lists of records that wait
	pending int        // the number of records in runs
	latest  time.Time  // the latest start in runs, or before
	emitted time.Time  // the latest start in ready, or before
	atEnd   bool
	failed  error // after the last record

	clock  int64 // the latest time of a line, in nanoseconds since 1970
	at     int   // the line with that time
	lines  int64
	behind int64
	sample Jump // the first line that is too far behind
}

// start begins to read a file.
func (r *Reader) start(f *file) *stream {
	s := &stream{file: f, queue: make(chan *block, inFlight+r.options.Workers), window: r.options.Window}
	if f.reader == nil {
		if err := f.open(r.options.Stdin, f.read); err != nil {
			s.failed = err
			close(s.queue)
			return s
		}
	}
	go readBlocks(r.stopped, f, r.jobs, s.queue)
	return s
}

// countUntil returns how many ready records come before a time, at least 1. A zero time is no bound.
func (s *stream) countUntil(bound time.Time) int {
	return countUntil(s.ready, bound)
}

func countUntil(records []Record, bound time.Time) int {
	if bound.IsZero() || !records[len(records)-1].Start.After(bound) {
		return len(records)
	}
	return max(sort.Search(len(records), func(i int) bool { return records[i].Start.After(bound) }), 1)
}

// take removes the first n ready records.
func (s *stream) take(n int) (records []Record) {
	records, s.ready = s.ready[:n:n], s.ready[n:]
	return records
}

// fill sets ready. most is the number of records that can wait. The error is io.EOF at the end of the file.
func (s *stream) fill(ctx context.Context, stats *collector, most int) error {
	for {
		if s.pending > 0 {
			bound := s.latest.Add(-s.window)
			if s.atEnd || s.pending > most {
				bound = time.Time{}
			}
			if s.ready = s.pop(bound); len(s.ready) > 0 {
				s.emitted = s.ready[len(s.ready)-1].Start
				return nil
			}
		}
		if s.atEnd {
			if s.failed == nil {
				s.failed = io.EOF
			}
			return s.failed
		}
		if err := s.read(ctx, stats); err != nil {
			return err
		}
	}
}

// read adds the records of the next block.
func (s *stream) read(ctx context.Context, stats *collector) error {
	var b *block
	select {
	case b = <-s.queue:
	case <-ctx.Done():
		return ctx.Err()
	}
	if b == nil {
		s.atEnd = true
		if s.failed == nil {
			s.failed = s.checkOrder(true)
		}
		return nil
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	outOfOrder := s.observe(b)
	late := s.add(b.records)
	stats.addBlock(b, outOfOrder, late)
	if s.failed == nil {
		s.failed = b.err
	}
	if err := s.checkOrder(false); err != nil {
		s.failed = err
		return err
	}
	return nil
}

// add adds a sorted list of records. It returns the number of those that are too late, which it moves to the latest start that has been passed on.
func (s *stream) add(records []Record) (late int64) {
	if len(records) == 0 {
		return 0
	}
	for i := range records {
		if !records[i].Start.Before(s.emitted) {
			break
		}
		records[i].Start = s.emitted
		late++
	}
	if last := records[len(records)-1].Start; last.After(s.latest) {
		s.latest = last
	}
	s.runs = append(s.runs, records)
	s.pending += len(records)
	return late
}

// pop removes the next records that are not after a bound, as one list. A zero time is no bound.
func (s *stream) pop(bound time.Time) (out []Record) {
	for len(s.runs) > 0 {
		first := 0
		for i := range s.runs {
			if s.runs[i][0].Start.Before(s.runs[first][0].Start) {
				first = i
			}
		}
		run := s.runs[first]
		if !bound.IsZero() && run[0].Start.After(bound) {
			return out
		}
		n := countUntil(run, s.nextRun(first, bound))
		if len(out) == 0 && n >= piece {
			s.drop(first, n)
			return run[:n:n]
		}
		if len(out)+n > 4*piece && len(out) > 0 {
			return out
		}
		out = append(out, run[:n]...)
		s.drop(first, n)
	}
	return out
}

// nextRun returns the earliest start of the runs except one, or the bound if it is earlier.
func (s *stream) nextRun(except int, bound time.Time) time.Time {
	for i := range s.runs {
		if i == except {
			continue
		}
		start := s.runs[i][0].Start
		if i < except { // on a tie, the earlier run is first
			start = start.Add(-1)
		}
		if bound.IsZero() || start.Before(bound) {
			bound = start
		}
	}
	return bound
}

// drop removes the first n records of a run.
func (s *stream) drop(i, n int) {
	s.pending -= n
	if s.runs[i] = s.runs[i][n:]; len(s.runs[i]) == 0 {
		s.runs = append(s.runs[:i], s.runs[i+1:]...)
	}
}

// observe follows the clock of the log. It returns the number of lines whose time is before that of a line before them.
func (s *stream) observe(b *block) (outOfOrder int64) {
	s.lines += int64(len(b.order))
	for _, m := range b.order {
		if m.logged >= s.clock {
			s.clock, s.at = m.logged, b.line+int(m.line)
			continue
		}
		outOfOrder++
		if m.logged < s.clock-int64(s.window) {
			if s.behind++; s.behind == 1 {
				s.sample = Jump{
					File: s.file.path, Line: b.line + int(m.line), To: time.Unix(0, m.logged).UTC(), FromLine: s.at, From: time.Unix(0, s.clock).UTC(),
				}
			}
		}
	}
	return outOfOrder
}

// checkOrder returns an OrderError if more than 1 % of the lines are too far behind.
func (s *stream) checkOrder(atEnd bool) error {
	const enough = 1000 // lines, before the end of the file
	if s.behind*100 <= s.lines || !atEnd && s.lines < enough {
		return nil
	}
	return &OrderError{First: s.sample, Lines: s.behind, Of: s.lines, Window: s.window}
}

// Jump is a line whose time is far behind that of a line before it.
type Jump struct {
	File     string
	Line     int
	To       time.Time // of Line
	FromLine int
	From     time.Time // of FromLine
}

// OrderError is about a log whose clock goes back, so that its lines have no order.
type OrderError struct {
	First     Jump
	Lines, Of int64 // that are behind, of those that have been read
	Window    time.Duration
}

// Error implements error.
func (e *OrderError) Error() string {
	return fmt.Sprintf("%s: the time goes back from %s on line %d to %s on line %d, and %d of %d lines are more than %v behind a line before them: "+
		"if several logs are in one file, give each of them as its own file; if the clock was set, split the file there; "+
		"otherwise sort the lines by time",
		e.First.File, e.First.From.Format(time.RFC3339), e.First.FromLine, e.First.To.Format(time.RFC3339), e.First.Line, e.Lines, e.Of, e.Window)
}
