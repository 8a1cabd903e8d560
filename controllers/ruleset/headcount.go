package ruleset

import "time"

// believedAfter is for how long after Redis was away fewer replicas must have been heard of until they are taken to be fewer:
// one that lives tries again in between, and enforces what it has until then.
const believedAfter = 10 * time.Second

// headcount is how many replicas to reckon with. It errs to many after Redis was away, when those that live come back one by
// one, and to none at other times: a replica that ends says so.
type headcount struct {
	count int32
	away  bool      // nothing has been heard since Redis went away
	until time.Time // the end of the doubt after that; zero before there was any
}

// heard takes note of how many replicas are alive by their heartbeats.
func (h *headcount) heard(now time.Time, alive int32) {
	if h.away {
		h.away, h.until = false, now.Add(believedAfter)
	}
	if alive >= h.count || !now.Before(h.until) {
		h.count = alive
	}
}

// missed takes note that Redis is away.
func (h *headcount) missed() { h.away = true }
