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
}

// update records the number of replicas with a heartbeat.
func (c *replicaCount) update(now time.Time, heartbeats int32) {
	if c.unavailable {
		c.unavailable, c.until = false, now.Add(recoveryWindow)
	}
	if heartbeats >= c.count || !now.Before(c.until) {
		c.count = heartbeats
	}
}

// markUnavailable records that Redis is unavailable.
func (c *replicaCount) markUnavailable() { c.unavailable = true }
