package lua

import (
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

const never = 1<<53 - 1

// The first number about a charge in the reply is a multiple of replyMarks plus these marks.
const (
	replyMarks   = 4
	replyWaits   = 1
	replyIsAhead = 2
)

// Reply reads the reply of the scripts that decide.
type Reply struct {
	Numbers []int64 // not yet read
	IsShort bool    // more numbers were read than there are
	now     limiter.Instant
}

// NewReply reads the time of the reply.
func NewReply(numbers []int64) Reply {
	r := Reply{Numbers: numbers}
	r.now = limiter.Instant(r.next())
	return r
}

func (r *Reply) next() int64 {
	if len(r.Numbers) == 0 {
		r.IsShort = true
		return 0
	}
	n := r.Numbers[0]
	r.Numbers = r.Numbers[1:]
	return n
}

// Decision reads the decision about a charge.
func (r *Reply) Decision(c *limiter.Charge) limiter.Decision {
	head := r.next()
	d := limiter.Decision{
		At: r.now, Allowed: true, Limit: c.Limit.Units(), Remaining: head / replyMarks, ResetAfter: microseconds(r.next()),
	}
	if head&replyWaits != 0 {
		switch wait := r.next(); {
		case wait >= 0:
			d.Delay = microseconds(wait)
		case wait == -never:
			d.Allowed, d.RetryAfter = false, limiter.Never
		default:
			d.Allowed, d.RetryAfter = false, microseconds(-wait)
		}
	}
	if head&replyIsAhead != 0 {
		ahead := r.next()
		d.At, d.Ahead = d.At+limiter.Instant(ahead), microseconds(ahead)
	}
	return d
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
