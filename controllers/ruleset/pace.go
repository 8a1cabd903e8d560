package ruleset

import "time"

// The waits until the next look. An edit comes at any time and waits for none of them.
const (
	firstLook  = 100 * time.Millisecond // for the acknowledgements of something just published
	lastLook   = 2 * time.Second
	firstRetry = time.Second // of a Redis that is away
	lastRetry  = 5 * time.Second
	atOnce     = time.Millisecond // more statuses are to be written
)

// progress is how far the policies are after a report.
type progress struct {
	// unwritten statuses are left for the next round.
	unwritten bool
	// programmed says that every live replica, of at least one, enforces every policy.
	programmed bool
}

// pace decides when to look again: soon after a change, ever less often while nothing comes of it.
type pace struct {
	revision    string
	unreachable bool
	wait        time.Duration
}

func (p *pace) next(revision string, d delivery, done progress, resync time.Duration) time.Duration {
	unreachable := d.unreachable != ""
	if revision != p.revision || unreachable != p.unreachable {
		*p = pace{revision: revision, unreachable: unreachable}
	}
	switch {
	case done.unwritten:
		return atOnce
	case unreachable:
		p.wait = min(max(2*p.wait, firstRetry), lastRetry)
	case !done.programmed:
		p.wait = min(max(2*p.wait, firstLook), lastLook)
	default:
		p.wait = 0
		return resync
	}
	return min(p.wait, resync)
}
