// Package journal is what the load generator in the cluster writes, a line of JSON for every second, and what the story
// outside of it reads from the pod's log.
package journal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Second is what became of the requests that ended in one second, or of several such.
type Second struct { //nolint:recvcheck // it is added to in place, and read as a value
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Answers are decisions by HTTP status and source: "200 redis", "429 cache".
	Answers map[string]int `json:"answers,omitempty"`
	// Failures are requests that got no decision, by what the client saw instead.
	Failures map[string]int `json:"failures,omitempty"`
	// Admitted requests by the strictest policy and source: "shop/daily redis".
	Admitted map[string]int `json:"admitted,omitempty"`
	// Limits are when the limits of policies were seen in answers, by policy and limit: "shop/edited 100".
	Limits map[string]Seen `json:"limits,omitempty"`
	// Slowest is the longest that a decision took, and Late how many took longer than 100 ms.
	Slowest time.Duration `json:"slowest"`
	Late    int           `json:"late,omitempty"`
	// Connections that were made anew.
	Connections int `json:"connections,omitempty"`
}

// Seen is when something was in an answer for the first and the last time.
type Seen struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

func (s Seen) and(other Seen) Seen {
	if s.First.IsZero() || other.First.Before(s.First) {
		s.First = other.First
	}
	if other.Last.After(s.Last) {
		s.Last = other.Last
	}
	return s
}

// Late is how long a decision may take before it counts as late.
const Late = 100 * time.Millisecond

// Answer is one decision, or what came instead of it.
type Answer struct {
	At      time.Time
	Took    time.Duration
	Status  int
	Source  string
	Policy  string
	Limit   int64
	Failure string // of a request without a decision
}

// Add counts an answer.
func (s *Second) Add(a Answer) {
	if a.Failure != "" {
		increase(&s.Failures, a.Failure, 1)
		return
	}
	increase(&s.Answers, fmt.Sprintf("%d %s", a.Status, a.Source), 1)
	if a.Status < 300 {
		increase(&s.Admitted, a.Policy+" "+a.Source, 1)
	}
	see(&s.Limits, fmt.Sprintf("%s %d", a.Policy, a.Limit), Seen{a.At, a.At})
	s.Slowest = max(s.Slowest, a.Took)
	if a.Took > Late {
		s.Late++
	}
}

// and is both seconds as one.
func (s Second) and(other Second) Second {
	sum := Second{
		From: s.From, To: other.To,
		Slowest: max(s.Slowest, other.Slowest), Late: s.Late + other.Late, Connections: s.Connections + other.Connections,
	}
	if s.From.IsZero() {
		sum.From = other.From
	}
	for _, one := range []Second{s, other} {
		for key, n := range one.Answers {
			increase(&sum.Answers, key, n)
		}
		for key, n := range one.Failures {
			increase(&sum.Failures, key, n)
		}
		for key, n := range one.Admitted {
			increase(&sum.Admitted, key, n)
		}
		for key, seen := range one.Limits {
			see(&sum.Limits, key, seen)
		}
	}
	return sum
}

func increase(counts *map[string]int, key string, by int) {
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[key] += by
}

func see(limits *map[string]Seen, key string, seen Seen) {
	if *limits == nil {
		*limits = map[string]Seen{}
	}
	(*limits)[key] = (*limits)[key].and(seen)
}

// Answered is how many decisions there were.
func (s Second) Answered() int { return sum(s.Answers) }

// Failed is how many requests got none.
func (s Second) Failed() int { return sum(s.Failures) }

func sum(counts map[string]int) int {
	n := 0
	for _, count := range counts {
		n += count
	}
	return n
}

// Denied is how many decisions were a 429.
func (s Second) Denied() int {
	return s.count(func(key string) bool { return strings.HasPrefix(key, "429 ") })
}

// Of is how many decisions came from that source.
func (s Second) Of(source string) int {
	return s.count(func(key string) bool { return strings.HasSuffix(key, " "+source) })
}

func (s Second) count(counts func(key string) bool) int {
	n := 0
	for key, count := range s.Answers {
		if counts(key) {
			n += count
		}
	}
	return n
}

// String reads "12000 answers (9000 200 redis, 3000 429 cache), 2 failures (2 connection refused), slowest 12ms".
func (s Second) String() string {
	return fmt.Sprintf("%d answers%s, %d failures%s, slowest %v, %d over %v",
		s.Answered(), list(s.Answers), s.Failed(), list(s.Failures), s.Slowest.Round(time.Millisecond), s.Late, Late)
}

func list(counts map[string]int) string {
	if len(counts) == 0 {
		return ""
	}
	parts := make([]string, 0, len(counts))
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[key], key))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// Journal are the seconds of one generator, in order.
type Journal []Second

// Read reads a journal. A line that is none, as the last one may be while it is written, is passed over.
func Read(from io.Reader) (Journal, error) {
	var j Journal
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s Second
		if err := json.Unmarshal(lines.Bytes(), &s); err == nil && !s.To.IsZero() {
			j = append(j, s)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read a journal: %w", err)
	}
	return j, nil
}

// Write writes what Read reads.
func (j Journal) Write(to io.Writer) error {
	lines := json.NewEncoder(to)
	for _, s := range j {
		if err := lines.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// Between is the sum of all seconds that have a part in the time.
func (j Journal) Between(from, to time.Time) Second {
	var total Second
	for _, s := range j {
		if s.To.After(from) && s.From.Before(to) {
			total = total.and(s)
		}
	}
	return total
}

// All is the sum of all seconds.
func (j Journal) All() Second {
	var total Second
	for _, s := range j {
		total = total.and(s)
	}
	return total
}

// End is until when the journal tells.
func (j Journal) End() time.Time {
	if len(j) == 0 {
		return time.Time{}
	}
	return j[len(j)-1].To
}
