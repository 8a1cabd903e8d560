package redisstore

import "time"

// Meter receives measurements of a Store. Its methods must not block.
type Meter interface {
	// Sent receives a batch after its reply, or its failure. The Meter must not keep it.
	Sent(b Batch)
	// BreakerChanged receives the new state of the circuit breaker of one Redis node.
	BreakerChanged(state BreakerState)
}

// WithMeter makes the Store report measurements to m.
func WithMeter(m Meter) StoreOption {
	return func(s *Store) { s.meter = m }
}

// BreakerState is a state of a circuit breaker.
type BreakerState string

// The states of a circuit breaker.
const (
	BreakerClosed     BreakerState = "closed"
	BreakerOpen       BreakerState = "open"       // rejects all calls, and probes the node
	BreakerRecovering BreakerState = "recovering" // accepts only calls that report usage
)

// Batch is the calls that were decided in one round trip to Redis.
type Batch struct {
	// Began and Ended are when the batch was sent, and when its reply was read.
	Began, Ended time.Time

	calls []*call
}

// Calls is the number of calls, 1 … 64.
func (b Batch) Calls() int { return len(b.calls) }

// Waited is how long call i, from 0, waited before the batch was sent.
func (b Batch) Waited(i int) time.Duration { return max(b.Began.Sub(b.calls[i].began), 0) }
