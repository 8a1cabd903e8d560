// Package loadstats defines the statistics of the load generator. The generator writes one line of JSON per second, and the test reads
// them from the log of the pod.
package loadstats

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

// Second is the statistics of the requests that ended in one second, or in several seconds.
type Second struct { //nolint:recvcheck // Add changes it in place, the other methods read a value
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Answers are decisions by HTTP status and source: "200 redis", "429 cache".
	Answers map[string]int `json:"answers,omitempty"`
	// Failures are requests without a decision, by the error of the client.
	Failures map[string]int `json:"failures,omitempty"`
	// Admitted is the number of admitted requests by the strictest policy and source: "shop/daily redis".
	Admitted map[string]int `json:"admitted,omitempty"`
	// Limits are the times at which answers contained a limit, by policy and limit: "shop/edited 100".
	Limits map[string]Seen `json:"limits,omitempty"`
	// Slowest is the longest duration of a decision. Late is the number of decisions that took longer than 100 ms.
	Slowest time.Duration `json:"slowest"`
	Late    int           `json:"late,omitempty"`
	// Connections is the number of new connections.
	Connections int `json:"connections,omitempty"`
}

// Seen is the first and the last time at which an answer contained a value.
type Seen struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

func (s Seen) merge(other Seen) Seen {
	if s.First.IsZero() || other.First.Before(s.First) {
		s.First = other.First
	}
	if other.Last.After(s.Last) {
		s.Last = other.Last
	}
	return s
}

// Late is the duration above which a decision counts as late.
const Late = 100 * time.Millisecond

// Result is the result of one request: a decision or a failure.
type Result struct {
	At      time.Time
	Took    time.Duration
	Status  int
	Source  string
	Policy  string
	Limit   int64
	Failure string // error of a request without a decision
}

// Add counts a result.
func (s *Second) Add(r Result) {
	if r.Failure != "" {
		increase(&s.Failures, r.Failure, 1)
		return
	}
	increase(&s.Answers, fmt.Sprintf("%d %s", r.Status, r.Source), 1)
	if r.Status < 300 {
		increase(&s.Admitted, r.Policy+" "+r.Source, 1)
	}
	see(&s.Limits, fmt.Sprintf("%s %d", r.Policy, r.Limit), Seen{r.At, r.At})
	s.Slowest = max(s.Slowest, r.Took)
	if r.Took > Late {
		s.Late++
	}
}

// merge returns the sum of both.
func (s Second) merge(other Second) Second {
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
	(*limits)[key] = (*limits)[key].merge(seen)
}

// Answered returns the number of decisions.
func (s Second) Answered() int { return sum(s.Answers) }

// Failed returns the number of requests without a decision.
func (s Second) Failed() int { return sum(s.Failures) }

func sum(counts map[string]int) int {
	n := 0
	for _, count := range counts {
		n += count
	}
	return n
}

// Denied returns the number of decisions with status 429.
func (s Second) Denied() int {
	return s.count(func(key string) bool { return strings.HasPrefix(key, "429 ") })
}

// FromSource returns the number of decisions from source.
func (s Second) FromSource(source string) int {
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

// String returns, for example, "12000 answers (9000 200 redis, 3000 429 cache), 2 failures (2 connection refused), slowest 12ms".
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

// Series is the statistics of one generator, in the order of time.
type Series []Second

// Read reads the lines of a generator. It ignores an invalid line, because the last line can be incomplete.
func Read(from io.Reader) (Series, error) {
	var series Series
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s Second
		if err := json.Unmarshal(lines.Bytes(), &s); err == nil && !s.To.IsZero() {
			series = append(series, s)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the statistics of a load: %w", err)
	}
	return series, nil
}

// Write writes the format that Read reads.
func (s Series) Write(to io.Writer) error {
	lines := json.NewEncoder(to)
	for _, second := range s {
		if err := lines.Encode(second); err != nil {
			return err
		}
	}
	return nil
}

// Between returns the sum of all seconds that overlap with the interval.
func (s Series) Between(from, to time.Time) Second {
	var total Second
	for _, second := range s {
		if second.To.After(from) && second.From.Before(to) {
			total = total.merge(second)
		}
	}
	return total
}

// Total returns the sum of all seconds.
func (s Series) Total() Second {
	var total Second
	for _, second := range s {
		total = total.merge(second)
	}
	return total
}

// End returns the end of the last second, or the zero time if there is no second.
func (s Series) End() time.Time {
	if len(s) == 0 {
		return time.Time{}
	}
	return s[len(s)-1].To
}
