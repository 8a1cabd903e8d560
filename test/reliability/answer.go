package reliability

import (
	"slices"
	"sync"
	"time"
)

// Sources of decisions, as the limiters name them. These are no sign of an outage: a known denial needs no Redis.
const (
	sourceRedis = "redis"
	sourceCache = "cache"
)

// Answer is what became of one request. Times are microseconds since the epoch.
type Answer struct {
	// Due is when it was to be sent, Sent when it was; Done is when the answer, or the failure, was there.
	Due, Sent, Done int64
	Limiter         int // which was asked
	Policy          int // which it was about
	Hot             bool
	Allowed         bool
	Source          string
	Failure         string // what the client saw instead of a decision, "" for none
}

// latency is what the client waited.
func (a *Answer) latency() time.Duration { return time.Duration(a.Done-a.Sent) * time.Microsecond }

// fromRedis says whether the answer is as it should be while Redis works.
func (a *Answer) fromRedis() bool {
	return a.Failure == "" && (a.Source == sourceRedis || a.Source == sourceCache)
}

// journal collects answers; it is safe for concurrent use.
type journal struct {
	mu      sync.Mutex
	answers []Answer
}

func (j *journal) write(a Answer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.answers = append(j.answers, a)
}

func (j *journal) read() []Answer {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.answers)
}

func micros(t time.Time) int64 { return t.UnixMicro() }
