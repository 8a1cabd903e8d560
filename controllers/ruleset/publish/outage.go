package publish

import (
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// outageTracker tracks one outage of Redis, and decides which error describes it. The zero value means that Redis is available.
type outageTracker struct {
	reported StoreError // describes the outage; zero while Redis is available
	causes   outageCauses
	doubtful bool // the last error was less specific than the reported one
	began    time.Time
}

// ongoing reports whether Redis is unavailable.
func (o *outageTracker) ongoing() bool { return o.reported.Reason != "" }

// outage returns the description of the outage.
func (o *outageTracker) outage() Outage {
	return Outage{Reason: o.reported.Reason, Message: o.reported.Error(), Since: o.began}
}

// record records an attempt that failed. An error with another reason replaces the reported one, and so does one with the
// same reason and another cause. One broken connection does not replace a more specific reason: while Redis rejects a
// certificate, for example, some connections just break.
func (o *outageTracker) record(err StoreError, now time.Time) {
	if !o.ongoing() {
		o.began = now
	}
	before := o.reported.Reason
	doubtful := err.Reason == v1alpha1.ReasonStoreUnreachable && before != "" && before != err.Reason && !o.doubtful
	o.doubtful = doubtful
	if doubtful {
		return
	}
	if before != err.Reason {
		o.causes = outageCauses{}
	}
	if o.causes.shouldReport(causeOf(err)) {
		o.reported = err
	}
}

// confirmations is the number of attempts in a row that must fail with a cause that was reported before, until it is reported
// again.
const confirmations = 4

// outageCauses are the causes of one outage with one reason. A problem that is partly fixed fails with a new cause, which is
// reported immediately. Causes may also alternate, for example if one of several servers answers. Then the message must not
// alternate too.
type outageCauses struct {
	reported map[string]bool
	current  string // reported last
	latest   string // of the last attempt
	repeats  int    // attempts in a row with the latest cause
}

// shouldReport records the cause of a failed attempt, and reports whether its error replaces the reported one.
func (c *outageCauses) shouldReport(cause string) bool {
	if cause == c.latest {
		c.repeats++
	} else {
		c.latest, c.repeats = cause, 1
	}
	if cause == c.current || c.reported[cause] && c.repeats < confirmations {
		return false
	}
	if c.reported == nil {
		c.reported = map[string]bool{}
	}
	c.reported[cause], c.current = true, cause
	return true
}
