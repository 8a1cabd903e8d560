package reliability

import (
	"slices"
	"time"
)

// settled is how long no answer may be other than from Redis for an outage to be over.
const settled = time.Second

// opening is what the limiters get to notice a fault, before their latency under it is measured.
const opening = 200 * time.Millisecond

// Trial is the log of one fault. Times are microseconds since the epoch.
type Trial struct {
	Fault    string
	Policies []Policy
	Limiters int
	Answers  []Answer
	// HotPerSecond is how often each policy's hot tenant asked.
	HotPerSecond float64
	// Began is when the load did, Broken when Redis was, Repaired when Redis itself served everybody again, Ended when
	// nobody looked any longer.
	Began, Broken, Repaired, Ended int64
	// Forgets: Redis lost counters.
	Forgets bool
	// Outages of Redis, where they were many.
	Outages int
	// FaultEnd is until when latency counts as under the fault, no less than Repaired.
	FaultEnd int64
}

// Over is what was admitted of one policy's hot tenant beyond the promise.
type Over struct {
	Policy Policy
	Units  int64
	// Allowed is how much may be, see allowance.
	Allowed int64
}

// Percent of the limit.
func (o Over) Percent() float64 { return 100 * float64(o.Units) / float64(o.Policy.Limit) }

// Result is what a trial showed.
type Result struct {
	Fault string
	// Rate is how many requests a second were sent; Late is how late the generator itself sent them, at the 99th percentile.
	Rate float64
	Late time.Duration
	// Outage is from the break until Redis itself served again.
	Outage time.Duration
	// Requests from the break on, and how many of them failed, by what the client saw.
	Requests int
	Failures map[string]int
	// Sources of the decisions while the fault went on.
	Sources map[string]int
	// P99 of the latency while the fault went on, but for its opening; Slowest from the break on.
	P99, Slowest time.Duration
	// Calm is the same percentile before the break.
	Calm  time.Duration
	Overs []Over
	// Given is how much the hot tenants were given in the whole trial, as a share of their limits.
	Given float64
	// Recovery is from the repair until the last answer that did not come from Redis. Not Recovered: some still did not at
	// the end.
	Recovery  time.Duration
	Recovered bool
	// Healthy is false if something was wrong before the fault already.
	Healthy bool
}

// disturbance is how late the load may be. It only sleeps and sends: a machine of one's own is 1 ms late.
const disturbance = 5 * time.Millisecond

// Disturbed is true if the machine itself stood still, as one does whose host has given its processors to others: that Weir was
// slow then, or took Redis for gone, says nothing of Weir.
func (r *Result) Disturbed() bool { return r.Late > disturbance }

// Failed is how many requests from the break on had no decision.
func (r *Result) Failed() int {
	failed := 0
	for _, n := range r.Failures {
		failed += n
	}
	return failed
}

// Measure works out what a trial showed.
func Measure(t *Trial) Result {
	r := Result{
		Fault: t.Fault, Healthy: true, Outage: microseconds(t.Repaired - t.Broken),
		Failures: map[string]int{}, Sources: map[string]int{}, Overs: overs(t), Given: given(t),
	}
	var late, calm, latencies []time.Duration
	for i := range t.Answers {
		a := &t.Answers[i]
		late = append(late, microseconds(a.Sent-a.Due))
		if a.Sent < t.Broken {
			calm = append(calm, a.latency())
			r.Healthy = r.Healthy && (a.Done >= t.Broken || a.Sent < t.Broken-settled.Microseconds() || a.fromRedis())
			continue
		}
		r.Requests++
		r.Slowest = max(r.Slowest, a.latency())
		if a.Failure != "" {
			r.Failures[a.Failure]++
		}
		if a.Sent >= t.FaultEnd {
			continue
		}
		if a.Failure == "" {
			r.Sources[a.Source]++
		}
		if a.Sent >= t.Broken+opening.Microseconds() {
			latencies = append(latencies, a.latency())
		}
	}
	r.Rate = float64(len(t.Answers)) / microseconds(t.Ended-t.Began).Seconds()
	r.Late, r.Calm, r.P99 = percentile(late, 99), percentile(calm, 99), percentile(latencies, 99)
	r.Recovery, r.Recovered = recovery(t.Answers, t.Limiters, t.Repaired, t.Ended)
	return r
}

// recovery is how long after the repair the last answer came that was not from Redis. It has ended when for some time
// there was none, and Redis answered through every limiter.
func recovery(answers []Answer, limiters int, repaired, now int64) (took time.Duration, ended bool) {
	last := repaired
	for i := range answers {
		if a := &answers[i]; a.Done > last && !a.fromRedis() {
			last = a.Done
		}
	}
	again := map[int]bool{}
	for i := range answers {
		if a := &answers[i]; a.Sent > last && a.Source == sourceRedis {
			again[a.Limiter] = true
		}
	}
	return microseconds(last - repaired), len(again) == limiters && now-last >= settled.Microseconds()
}

// overs is what each policy's hot tenant was given too much.
func overs(t *Trial) []Over {
	all := make([]Over, len(t.Policies))
	for i, p := range t.Policies {
		var admitted []span
		for _, a := range t.Answers {
			if a.Hot && a.Allowed && a.Policy == i {
				admitted = append(admitted, span{a.Sent, a.Done})
			}
		}
		all[i] = Over{Policy: p, Units: p.over(admitted), Allowed: allowance(p, t)}
	}
	return all
}

// given is the units that the hot tenants were given, of those that their limits are for so long: a limiter that denies
// everything is never over.
func given(t *Trial) float64 {
	limits := 0.0
	for _, p := range t.Policies {
		limits += float64(p.Limit) * microseconds(t.Ended-t.Began).Seconds() / p.Window.Seconds()
	}
	units := 0.0
	for i := range t.Answers {
		if a := &t.Answers[i]; a.Hot && a.Allowed {
			units++
		}
	}
	if limits == 0 {
		return 0
	}
	return units / limits
}

// percentile is the least duration that so many percent are not above; 0 of none.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)*percent+99)/100-1]
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
