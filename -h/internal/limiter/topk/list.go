package topk

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// List is the identifiers with the most requests, those with the most that are certain first: Requests less Error.
type List struct {
	Identifiers []Entry `json:"identifiers"`
	// Unlisted is the largest number of requests that an identifier can have that is not listed.
	Unlisted int64 `json:"unlisted"`
}

// Entry is the count of an identifier under a policy.
type Entry struct {
	Policy string `json:"policy"`
	// Identifier as it is counted: secrets are hashed. One longer than 63 bytes is cut, and ends with "…".
	Identifier string `json:"identifier"`
	// Hashed is true if Identifier is a hash. A Sketch does not know it.
	Hashed bool `json:"hashed,omitempty"`
	// Requests is at least the true number, and at most Error more than it.
	Requests int64 `json:"requests"`
	Error    int64 `json:"error"`
}

func (e *Entry) certain() int64 { return e.Requests - e.Error }

// Since returns from when on a list of now counts requests.
func (s *Sketch) Since(now time.Time) time.Time {
	return s.began.Add(time.Duration(max(0, s.periodOf(now)-1)) * Period)
}

// PeriodEnd returns when the current period ends.
func (s *Sketch) PeriodEnd(now time.Time) time.Time {
	return s.began.Add(time.Duration(s.periodOf(now)+1) * Period)
}

// Top returns the n identifiers with the most requests under a policy, or under all policies if policy is "".
func (s *Sketch) Top(n int, policy string, now time.Time) List {
	var list List
	for i := range s.summaries {
		both, current := s.summaries[i].read(s.periodOf(now))
		recent, previous := &both[current], &both[1-current]
		list.Unlisted = max(list.Unlisted, recent.bound+previous.bound)
		for j := range recent.hashes {
			list.add(recent, previous, j, true, policy)
			list.add(previous, recent, j, false, policy)
		}
	}
	list.cut(n)
	return list
}

// read returns a copy of both generations, and the index of the current one.
func (s *summary) read(period int64) (both [2]copied, current int) {
	s.busy.Lock()
	defer s.busy.Unlock()
	s.current(period)
	for i := range both {
		s.periods[i].copyTo(&both[i])
	}
	return both, int(s.period.Load() & 1)
}

// add adds counter i of g with what other counts for the same identifier. If other counts it too, only the first one of them adds it.
func (l *List) add(g, other *copied, i int, first bool, policy string) {
	if g.counts[i] == 0 || policy != "" && policy != g.names[i].policy {
		return
	}
	e := Entry{Policy: g.names[i].policy, Requests: g.counts[i] + g.missed, Error: g.errors[i] + g.missed}
	if index := slices.Index(other.hashes[:], g.hashes[i]); index < 0 {
		e.Requests, e.Error = e.Requests+other.bound, e.Error+other.bound
	} else if first {
		e.Requests, e.Error = e.Requests+other.counts[index]+other.missed, e.Error+other.errors[index]+other.missed
	} else {
		return
	}
	e.Identifier = g.names[i].identifier()
	l.Identifiers = append(l.Identifiers, e)
}

// cut sorts the list and keeps n identifiers. What is certain decides: an identifier with few requests can have a large error.
func (l *List) cut(n int) {
	slices.SortFunc(l.Identifiers, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.certain(), a.certain()), cmp.Compare(b.Requests, a.Requests),
			strings.Compare(a.Policy, b.Policy), strings.Compare(a.Identifier, b.Identifier))
	})
	if len(l.Identifiers) > n {
		for _, e := range l.Identifiers[n:] {
			l.Unlisted = max(l.Unlisted, e.Requests)
		}
		l.Identifiers = l.Identifiers[:n:n]
	}
	if l.Identifiers == nil {
		l.Identifiers = []Entry{}
	}
}

// Merge returns the n identifiers with the most requests in several lists, for example those of several replicas. The statements about the
// counts hold for the sums.
func Merge(n int, lists ...List) List {
	type key struct{ policy, identifier string }
	sums, listed := map[key]*Entry{}, map[key]int64{}
	var merged List
	for _, list := range lists {
		merged.Unlisted += list.Unlisted
		inList := map[key]bool{} // identifiers that are cut can be equal
		for _, e := range list.Identifiers {
			k := key{e.Policy, e.Identifier}
			sum := sums[k]
			if sum == nil {
				sum = &Entry{Policy: e.Policy, Identifier: e.Identifier, Hashed: e.Hashed}
				sums[k] = sum
			}
			sum.Requests, sum.Error = sum.Requests+e.Requests, sum.Error+e.Error
			if !inList[k] {
				inList[k], listed[k] = true, listed[k]+list.Unlisted
			}
		}
	}
	for k, sum := range sums { // a list without the identifier can have counted it up to its bound
		elsewhere := merged.Unlisted - listed[k]
		sum.Requests, sum.Error = sum.Requests+elsewhere, sum.Error+elsewhere
		merged.Identifiers = append(merged.Identifiers, *sum)
	}
	merged.cut(n)
	return merged
}
