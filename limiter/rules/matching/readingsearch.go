package matching

import (
	"cmp"
	"iter"
	"slices"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/pattern"
	"github.com/weir-dev/weir/limiter/rules/reading"
	"github.com/weir-dev/weir/limiter/rules/tables"
)

// allReadings is the reading of a match that does not depend on the reading of the path.
const allReadings = -1

// maxEndpointReadings is the number of readings that a rule without paths counts as endpoints of their own. A path with more is counted as
// rules.OtherEndpoints.
const maxEndpointReadings = 4

// readingSearch is the part of a search for a path with several readings. A rule matches the request if it matches any reading of the path. Its
// match is uncertain unless it matches every reading: the client chooses the spelling, and must not replace a strict default in this way.
type readingSearch struct {
	*reading.Set

	current int // index of paths, or allReadings
	// byMatch has the reading of each match that the search has found, in their order.
	byMatch []int
	// steps of regular expressions for all readings except the first.
	steps int
	// evaluations of expressions that are left.
	evaluations int
	// requests have the other readings as their paths; nil until an expression is evaluated.
	requests []rules.Request
	request  *rules.Request
}

// maxReadingEvaluations bounds the evaluations of expressions that read the path, of all rules together.
const maxReadingEvaluations = 64

func newReadingSearch(r *rules.Request) *readingSearch {
	return &readingSearch{
		Set: reading.Of(r.RawPath), current: allReadings, steps: pattern.MaxSteps, evaluations: maxReadingEvaluations, request: r,
	}
}

// findByReadings finds the rules whose paths match any reading.
func (s *search) findByReadings(p *tables.Paths[*Compiled]) {
	r := s.readings
	for r.current = range r.Paths {
		s.findByReading(p, r.Paths[r.current])
	}
	r.current = allReadings
	if r.Unknown {
		for c := range p.Some.All() {
			s.appendIfMatched(c, rules.OtherEndpoints, true)
		}
	}
}

// appendOfAnyPath appends a rule without paths, if it matches.
func (s *search) appendOfAnyPath(c *Compiled) {
	r := s.readings
	switch {
	case c.endpoints == nil:
		s.appendIfMatched(c, s.request.Path, false)
	case r == nil:
		s.appendIfMatched(c, s.endpointOf(c, s.request.Path), false)
	case r.Unknown || len(r.Paths) > maxEndpointReadings:
		s.appendIfMatched(c, rules.OtherEndpoints, false)
	default:
		for r.current = range r.Paths {
			s.appendIfMatched(c, s.endpointOf(c, r.Paths[r.current]), false)
		}
		r.current = allReadings
	}
}

// endpointOf returns the endpoint of a path for a rule without paths.
func (s *search) endpointOf(c *Compiled, path string) string {
	if c.Match.IgnoreCase {
		return s.fold(path)
	}
	return path
}

// selects is expr.Expression.Selects for a condition that reads the path: it is met if it is met for any reading of the search, which is the current
// one or all. The result is unknown if it differs between them.
func (r *readingSearch) selects(on *expr.Activation, c *Compiled) (selected, certain bool) {
	first, last := r.current, r.current
	if r.current == allReadings {
		first, last = 0, len(r.Paths)-1
	}
	anyMet, allMet := false, true
	for i := first; i <= last; i++ {
		if r.evaluations--; r.evaluations < 0 {
			return false, false
		}
		for j := range r.requestsOf(i) {
			one, certain := c.condition.Selects(on.Reading(j), &c.Rule)
			if !certain {
				return false, false
			}
			anyMet, allMet = anyMet || one, allMet && one
		}
	}
	if r.current == allReadings && r.Unknown { // another reading can differ
		return false, false
	}
	return anyMet, anyMet == allMet
}

// requestsOf returns the requests with a reading as their path, one for each reading of the query.
func (r *readingSearch) requestsOf(path int) iter.Seq[*rules.Request] {
	if r.requests == nil {
		r.requests = expr.RequestsOf(r.request, r.Paths)
	}
	return func(yield func(*rules.Request) bool) {
		for i := path; i < len(r.requests); i += len(r.Paths) {
			if !yield(&r.requests[i]) {
				return
			}
		}
	}
}

// sorted is search.sorted. A rule that counts endpoints separately appears once for each endpoint.
func (r *readingSearch) sorted(matches []Matched, start int) []Matched {
	type ofReading struct {
		Matched
		reading int
	}
	found := make([]ofReading, len(matches)-start)
	for i := range found {
		found[i] = ofReading{matches[start+i], r.byMatch[i]}
	}
	slices.SortStableFunc(found, func(a, b ofReading) int {
		if a.Rule != b.Rule {
			return compareRules(a.Rule, b.Rule)
		}
		return cmp.Or(cmp.Compare(a.reading, b.reading), cmp.Compare(a.certainty, b.certainty))
	})
	kept := matches[:start]
	for len(found) > 0 {
		next := slices.IndexFunc(found, func(m ofReading) bool { return m.Rule != found[0].Rule })
		if next < 0 {
			next = len(found)
		}
		first := len(kept)
		certainly := uint64(0) // the readings that the rule certainly matches
		for i := range found[:next] {
			m := &found[i]
			if i > 0 && found[i-1].reading == m.reading {
				continue // less specific
			}
			switch {
			case m.Uncertain():
			case m.reading == allReadings:
				certainly = ^uint64(0)
			default:
				certainly |= 1 << m.reading
			}
			isNew := !slices.ContainsFunc(kept[first:], func(k Matched) bool { return k.Endpoint == m.Endpoint })
			if len(kept) == first || isNew && m.Rule.countsEndpoints() {
				kept = append(kept, m.Matched)
			}
		}
		met := matchUncertain
		switch {
		case certainly == ^uint64(0) || !r.Unknown && certainly == 1<<len(r.Paths)-1:
			met = matchCertain
		case certainly == 0:
			met = matchUnknown
		}
		for i := first; i < len(kept); i++ {
			kept[i].certainty = met
		}
		found = found[next:]
	}
	return kept
}

// countsEndpoints reports whether the counters of the rule depend on the endpoint.
func (c *Compiled) countsEndpoints() bool {
	return c.PerEndpoint || c.Identifier.From == rules.FromEndpoint
}
