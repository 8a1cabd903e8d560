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

// pace decides when to look again: soon after a change, ever less often while nothing comes of it.
type pace struct {
	revision    string
	unreachable bool
	wait        time.Duration
}

func (p *pace) next(of *compiled, d delivery, resync time.Duration) time.Duration {
	unreachable := d.unreachable != ""
	if of.revision != p.revision || unreachable != p.unreachable {
		*p = pace{revision: of.revision, unreachable: unreachable}
	}
	switch {
	case unreachable:
		p.wait = min(max(2*p.wait, firstRetry), lastRetry)
	case !d.programmed(of):
		p.wait = min(max(2*p.wait, firstLook), lastLook)
	default:
		p.wait = 0
		return resync
	}
	return min(p.wait, resync)
}
