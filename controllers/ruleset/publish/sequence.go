package publish

import (
	"sync"
	"time"

	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/rules"
)

// Sequence orders the rule sets that are published for one Limiter. The next sequence exceeds all that were found in Redis and in the snapshot,
// and is the time in milliseconds if that is higher: so it grows even if both are lost, and if the clock steps back. It is safe for concurrent use.
type Sequence struct {
	// Clock returns the current time.
	Clock func() time.Time

	mu      sync.Mutex
	current publication // of this operator; zero before the first call of Stamp
	highest publication // of all that were found or assigned
	stamped *selection.RuleSet
	encoded rules.Encoded // of stamped, with the sequence of current
}

// publication is a revision with its sequence.
type publication struct {
	revision string
	sequence int64
}

// Found records a stored rule set. If it is not older than the current rule set of this operator and has other rules, the current one gets a new
// sequence, because it is published next. A sequence of 0 means that the stored rule set has no sequence.
func (s *Sequence) Found(revision string, sequence int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := publication{revision, sequence}
	if sequence > s.highest.sequence {
		s.highest = found
	}
	switch {
	case s.current.revision == "" || sequence < s.current.sequence || found == s.current:
	case revision == s.current.revision:
		s.current = found
	default:
		s.assign(s.current.revision)
	}
}

// Stamp returns the encoded set with its sequence. A rule set that replaces another one gets a new sequence. The first rule set of this operator
// keeps the sequence with which it was found, if no other rule set was found with a higher one.
func (s *Sequence) Stamp(set *selection.RuleSet) (encoded rules.Encoded, sequence int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current.revision == set.Revision:
	case s.current.revision == "" && s.highest.revision == set.Revision:
		s.current = s.highest
	default:
		s.assign(set.Revision)
	}
	stamped, err := rules.Sequence(s.encoded.Data)
	if s.stamped != set || err != nil || stamped != s.current.sequence {
		s.stamped, s.encoded = set, set.Encoded
		s.encoded.Data = rules.WithSequence(set.Data, s.current.sequence)
	}
	return s.encoded, s.current.sequence
}

// assigned reports whether a rule set has a sequence.
func (s *Sequence) assigned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.revision != ""
}

// assign makes revision the current one, with the next sequence.
func (s *Sequence) assign(revision string) {
	next := min(max(s.highest.sequence+1, s.Clock().UnixMilli()), rules.MaxSequence)
	s.current = publication{revision, next}
	s.highest = s.current
}
