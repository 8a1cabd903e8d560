package publish

import "time"

// recoveryWindow is how long after an outage of Redis a smaller number of replicas is not believed. A replica that runs
// connects again within that time, and enforces the rules that it has until then.
const recoveryWindow = 10 * time.Second

// replicaCount is the number of replicas to expect. After an outage it is rather too high, because the replicas connect again
// one by one. At other times it is exact: a replica that ends removes its heartbeat.
type replicaCount struct {
	count       int32
	unavailable bool      // Redis has been unavailable since the last update
	until       time.Time // the end of the recovery window; zero before the first outage

	updated     bool  // update was called
	heard       int32 // of the replicas that serve, those that have sent a heartbeat, now or earlier
	silentSince time.Time
}

// update records the number of replicas with a heartbeat, and of ready pods. It returns the replicas that serve and do not send heartbeats any more.
// The replicas that serve when this operator connects have sent heartbeats to the operator before it.
func (c *replicaCount) update(now time.Time, heartbeats, ready int32) Silent {
	if c.unavailable {
		c.unavailable, c.until = false, now.Add(recoveryWindow)
	}
	if heartbeats >= c.count || !now.Before(c.until) {
		c.count = heartbeats
	}
	serving := max(c.count, ready)
	if !c.updated {
		c.updated, c.heard = true, serving
	}
	c.heard = max(heartbeats, min(c.heard, serving))
	silent := c.heard - heartbeats
	switch {
	case silent == 0:
		c.silentSince = time.Time{}
	case c.silentSince.IsZero():
		c.silentSince = now
	}
	return Silent{Replicas: silent, Lasting: silent > 0 && now.Sub(c.silentSince) >= recoveryWindow}
}

// markUnavailable records that Redis is unavailable.
func (c *replicaCount) markUnavailable() { c.unavailable = true }
