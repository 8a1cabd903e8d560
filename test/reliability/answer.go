package reliability

import (
	"slices"
	"sync"
	"time"
)

// Sources of decisions, as limiters name them. Both are normal while Redis works: a known denial does not need Redis.
const (
	sourceRedis = "redis"
	sourceCache = "cache"
)

// Answer is the result of one request. Times are microseconds since the epoch.
type Answer struct {
	// Due is when the request was planned, Sent when it was sent, and Done when the answer or the failure arrived.
	Due, Sent, Done int64
	Limiter         int // index
	Policy          int // index
	Hot             bool
	Allowed         bool
	Source          string
	Failure         string // what the client received instead of a decision, "" if it received one
}

// latency is how long the client waited.
func (a *Answer) latency() time.Duration { return time.Duration(a.Done-a.Sent) * time.Microsecond }

// fromRedis reports whether the answer is one that limiters give while Redis works.
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
