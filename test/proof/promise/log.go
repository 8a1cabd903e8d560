// Package promise holds a log of requests to what each algorithm promises. It was written from the promises alone and
// knows nothing of the code that makes the decisions: what it imports, the standard library, internal/arch sees to.
//
// Each promise has two sides. Over finds requests that were admitted beyond it; Needless finds requests that were denied
// though it left room for them. Least says how many units a log with such denials must have let through at the least:
// Over alone is content with a limiter that admits nothing.
package promise

import (
	"cmp"
	"slices"
)

// Outcome is what became of a request.
type Outcome int

// The outcomes.
const (
	Admitted Outcome = iota
	Denied
	// Lost is that of a request that failed: it may have been counted, or not.
	Lost
)

// Request is one request. Times are microseconds of the clock that decides.
type Request struct {
	// It was decided at an instant within [From, To]: the same where the answer told it.
	From, To int64
	Units    int64
	// Delay is how long an admitted request was told to wait for its turn.
	Delay   int64
	Outcome Outcome
}

// Log is what became of all requests to one counter, in any order.
type Log []Request

// Promise is what one algorithm promises under one limit.
type Promise interface {
	// Over returns an error if more was admitted than promised. Where the instants are not known exactly, it is sure:
	// whenever within their bounds the requests were decided, it was too much.
	Over(log Log) error
	// Needless returns an error if a request was denied that there was room for, whatever became of the lost ones and
	// whenever the others were decided.
	Needless(log Log) error
	// Least is how many units, lost ones included, must have been counted for the denials in the log to be right.
	Least(log Log) int64
}

// Counted is how many units were counted at the least and at the most.
func (l Log) Counted() (least, most int64) {
	for _, r := range l {
		switch r.Outcome {
		case Admitted:
			least += r.Units
			most += r.Units
		case Lost:
			most += r.Units
		case Denied:
		}
	}
	return least, most
}

// admitted is the requests that were, by the instant they may have been decided at.
func (l Log) admitted() Log { return l.only(func(r Request) bool { return r.Outcome == Admitted }) }

// counted is the requests that may have been counted.
func (l Log) counted() Log { return l.only(func(r Request) bool { return r.Outcome != Denied }) }

// denied is the requests that were.
func (l Log) denied() Log { return l.only(func(r Request) bool { return r.Outcome == Denied }) }

func (l Log) only(keep func(Request) bool) Log {
	var kept Log
	for _, r := range l {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	slices.SortFunc(kept, func(a, b Request) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return kept
}

// byEnd is l by the instant until which a request must have been decided.
func (l Log) byEnd() Log {
	sorted := slices.Clone(l)
	slices.SortFunc(sorted, func(a, b Request) int { return cmp.Compare(a.To, b.To) })
	return sorted
}

// surely is the units of l, which is sorted, that were decided within [from, to] for certain.
func (l Log) surely(from, to int64) int64 {
	var units int64
	for _, r := range l[l.first(from):] {
		if r.From > to {
			break
		}
		if r.To <= to {
			units += r.Units
		}
	}
	return units
}

// first is the index of the first request of l, which is sorted, that was not decided before an instant.
func (l Log) first(from int64) int {
	i, _ := slices.BinarySearchFunc(l, from, func(r Request, from int64) int { return cmp.Compare(r.From, from) })
	return i
}

// perhaps is the units of l, which is sorted, that may have been decided within [from, to].
func (l Log) perhaps(from, to int64) int64 {
	var units int64
	for _, r := range l {
		if r.From > to {
			break
		}
		if r.To >= from {
			units += r.Units
		}
	}
	return units
}

// largest is the most units of one request in l.
func (l Log) largest() int64 {
	var units int64
	for _, r := range l {
		units = max(units, r.Units)
	}
	return units
}
