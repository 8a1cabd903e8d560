// Package promise checks a log of requests against the guarantees of each algorithm. It is written from the guarantees
// alone and shares no code with the limiter: internal/arch allows it only the standard library.
//
// Each promise has two sides. CheckAdmitted finds requests that were admitted although the limit was reached. CheckDenied
// finds requests that were denied although the limit was not reached. MinCounted returns how many units must have been
// counted if the denials in the log are right: a limiter that admits nothing would pass CheckAdmitted.
package promise

import (
	"cmp"
	"slices"
)

// Outcome is the result of a request.
type Outcome int

// The outcomes.
const (
	Admitted Outcome = iota
	Denied
	// Lost requests failed: they may or may not have been counted.
	Lost
)

// Request is one request. Times are in microseconds, by the clock of the limiter.
type Request struct {
	// The request was decided at an instant within [From, To]. They are equal if the reply contains the instant.
	From, To int64
	Units    int64
	// Delay of an admitted request.
	Delay   int64
	Outcome Outcome
}

// Log has all requests to one counter, in any order.
type Log []Request

// Promise is the guarantee of one algorithm with one limit.
type Promise interface {
	// CheckAdmitted returns an error if more was admitted than promised, for every possible instant of each decision.
	CheckAdmitted(log Log) error
	// CheckDenied returns an error if a request was denied although the limit was not reached, for every possible instant of
	// each decision, and whether or not lost requests were counted.
	CheckDenied(log Log) error
	// MinCounted returns how many units, including lost ones, must have been counted if the denials in the log are right.
	MinCounted(log Log) int64
}

// Counted returns the least and the greatest number of units that may have been counted.
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

// admitted returns the admitted requests, sorted by From.
func (l Log) admitted() Log { return l.filter(func(r Request) bool { return r.Outcome == Admitted }) }

// counted returns the requests that may have been counted, sorted by From.
func (l Log) counted() Log { return l.filter(func(r Request) bool { return r.Outcome != Denied }) }

// denied returns the denied requests, sorted by From.
func (l Log) denied() Log { return l.filter(func(r Request) bool { return r.Outcome == Denied }) }

func (l Log) filter(keep func(Request) bool) Log {
	var kept Log
	for _, r := range l {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	slices.SortFunc(kept, func(a, b Request) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return kept
}

// byEnd returns l sorted by To.
func (l Log) byEnd() Log {
	sorted := slices.Clone(l)
	slices.SortFunc(sorted, func(a, b Request) int { return cmp.Compare(a.To, b.To) })
	return sorted
}

// certainlyWithin returns the units of l that were certainly decided within [from, to]. l must be sorted by From.
func (l Log) certainlyWithin(from, to int64) int64 {
	var units int64
	for _, r := range l[l.firstFrom(from):] {
		if r.From > to {
			break
		}
		if r.To <= to {
			units += r.Units
		}
	}
	return units
}

// firstFrom returns the index of the first request of l that was decided at an instant or later. l must be sorted by From.
func (l Log) firstFrom(from int64) int {
	i, _ := slices.BinarySearchFunc(l, from, func(r Request, from int64) int { return cmp.Compare(r.From, from) })
	return i
}

// possiblyWithin returns the units of l that may have been decided within [from, to]. l must be sorted by From.
func (l Log) possiblyWithin(from, to int64) int64 {
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

// largestRequest returns the greatest number of units of a request in l.
func (l Log) largestRequest() int64 {
	var units int64
	for _, r := range l {
		units = max(units, r.Units)
	}
	return units
}
