package publish

import (
	"time"

	"golang.org/x/time/rate"
)

// rewriteInterval is the least time between two writes of all shards because of one rejection. What a replica rejects is seldom damaged.
const rewriteInterval = time.Minute

// newRewriteLimiter bounds such writes, whatever the reasons: a process with the credentials of limiters can send any.
func newRewriteLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(10*time.Second), 3) }

// rejections are the reasons why replicas reject the published rule set, perhaps because it is damaged, each with the time when the rule set was last
// written again because of it; zero if it was not. A reason outlives a revision: a replica that can never enforce some rule rejects each edit.
type rejections map[string]time.Time

// of returns the rejections of these replicas. Those that r has keep their time.
func (r rejections) of(replicas []Replica) rejections {
	var next rejections
	for _, replica := range replicas {
		if replica.Rejected == "" {
			continue
		}
		if next == nil {
			next = rejections{}
		}
		next[replica.Rejected] = r[replica.Rejected]
	}
	return next
}

// areDue reports whether the rule set must be written again although Redis has it.
func (r rejections) areDue(now time.Time) bool {
	for _, at := range r {
		if now.Sub(at) >= rewriteInterval {
			return true
		}
	}
	return false
}

// rewritten records that the rule set was written again.
func (r rejections) rewritten(now time.Time) {
	for reason := range r {
		r[reason] = now
	}
}
