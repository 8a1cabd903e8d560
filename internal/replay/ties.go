package replay

import (
	"context"

	"github.com/weir-dev/weir/internal/accesslog"
)

// settled is a Source of decision logs that orders the decisions of one instant. A run of a script in Redis decides several requests at the same time, and a
// log writes them in any order. Of two decisions about one counter, the one that leaves more units was made before the other.
type settled struct {
	source Source
	rest   []accesslog.Record // of an instant that can go on in the next batch
	err    error              // of the source, after the rest
}

// Next implements Source.
func (s *settled) Next(ctx context.Context) ([]accesslog.Record, error) {
	for {
		if s.err != nil {
			rest := s.rest
			s.rest = nil
			return rest, s.err
		}
		records, err := s.source.Next(ctx)
		if len(s.rest) == 0 && (len(records) == 0 || records[0].Recorded == nil) { // no decision log
			return records, err
		}
		s.err = err
		records = append(s.rest, records...)
		settle(records)
		end := len(records)
		for end > 0 && records[end-1].Start.Equal(records[len(records)-1].Start) {
			end--
		}
		if len(records)-end > maxTies { // many requests of one second, in a log without the instants
			end = len(records)
		}
		s.rest = append([]accesslog.Record(nil), records[end:]...)
		if end > 0 {
			return records[:end], nil
		}
	}
}

// maxTies is the number of decisions of one instant that are ordered, at most.
const maxTies = 1000

// settle orders the decisions of each instant.
func settle(records []accesslog.Record) {
	for len(records) > 0 {
		n := 1
		for n < len(records) && records[n].Start.Equal(records[0].Start) {
			n++
		}
		if n > 1 && n <= maxTies {
			settleInstant(records[:n])
		}
		records = records[n:]
	}
}

// settleInstant puts next, again and again, the first decision that no other one must precede.
func settleInstant(records []accesslog.Record) {
	for i := range records {
		next := i
		for j := i; j < len(records); j++ {
			if isFirst(records[i:], j-i) {
				next = j
				break
			}
		}
		chosen := records[next]
		copy(records[i+1:next+1], records[i:next])
		records[i] = chosen
	}
}

func isFirst(records []accesslog.Record, at int) bool {
	for k := range records {
		if k != at && precedes(records[k].Recorded, records[at].Recorded) {
			return false
		}
	}
	return true
}

// precedes reports whether a was decided before b, as a counter of both shows.
func precedes(a, b *accesslog.Recorded) bool {
	if a == nil || b == nil {
		return false
	}
	if before, shared := precedesOn(a, b.Policy, b.Identifier, b.Remaining, b.Result); shared {
		return before
	}
	for _, other := range b.Others {
		if before, shared := precedesOn(a, other.Policy, other.Identifier, other.Remaining, b.Result); shared {
			return before
		}
	}
	return false
}

// precedesOn compares a with a decision about a counter. An allowed decision leaves as many units as a later one that is denied.
func precedesOn(a *accesslog.Recorded, policy, identifier string, remaining int64, result string) (before, shared bool) {
	is := func(p, i string, r int64) (bool, bool) {
		if p != policy || i != identifier {
			return false, false
		}
		return r > remaining || r == remaining && a.Result == "allowed" && result != "allowed", true
	}
	if before, shared = is(a.Policy, a.Identifier, a.Remaining); shared {
		return before, true
	}
	for _, other := range a.Others {
		if before, shared = is(other.Policy, other.Identifier, other.Remaining); shared {
			return before, true
		}
	}
	return false, false
}
