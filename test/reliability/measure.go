package reliability

import (
	"cmp"
	"slices"
	"time"
)

// detection is the time that limiters have to detect a fault. The latency in this time is not part of the p99.
const detection = 200 * time.Millisecond

// Trial is the record of one run of a fault. Times are microseconds since the epoch.
type Trial struct {
	Fault    string
	Policies []Policy
	Limiters int
	Answers  []Answer
	// HotPerSecond is the number of requests per second of each policy's hot tenant.
	HotPerSecond float64
	// Began is when the load began, Broken when Redis was broken, Repaired when Redis itself served all clients again, Settling when all
	// limiters had decided with Redis for the time Settled, or zero, and Ended when the observation ended.
	Began, Broken, Repaired, Settling, Ended int64
	// Forgets means that Redis lost counters.
	Forgets bool
	// Outages is their number if there were several.
	Outages int
	// Settled is the time for which all answers must come from Redis before the fault, and again for it to count as ended.
	Settled time.Duration
	// FaultEnd is when the latency no longer counts as that of the fault; not before Repaired.
	FaultEnd int64
}

// Over is the number of units that one policy's hot tenant was admitted beyond the limit.
type Over struct {
	Policy Policy
	Units  int64
	// Allowed bounds Units, see allowance.
	Allowed int64
}

// Percent returns Units in percent of the limit.
func (o Over) Percent() float64 { return 100 * float64(o.Units) / float64(o.Policy.Limit) }

// Result is the evaluation of a trial.
type Result struct {
	Fault string
	// Rate is the number of requests sent per second. Late is the 99th percentile of the delay with which the generator sent them.
	Rate float64
	Late time.Duration
	// Outage is the time from the break until Redis itself served again.
	Outage time.Duration
	// Requests since the break, and Failures among them, by what the client received.
	Requests int
	Failures map[string]int
	// Sources of the decisions during the fault.
	Sources map[string]int
	// P99 of the latency during the fault, without the detection period. Slowest answer since the break.
	P99, Slowest time.Duration
	// Calm is the 99th percentile of the latency before the break.
	Calm time.Duration
	// SteadyP99 and SteadyCalm are the same percentiles without short pauses of the machine, see steadyP99.
	SteadyP99, SteadyCalm time.Duration
	Overs                 []Over
	// Given is the number of units that the hot tenants were admitted in the whole trial, as a share of their limits.
	Given float64
	// Recovery is the time from the repair until the last answer without Redis. Recovered is false if there were still such answers at
	// the end.
	Recovery  time.Duration
	Recovered bool
	// FailedBefore and LocalBefore are the numbers of requests just before the fault without a decision, and without a decision by Redis.
	FailedBefore, LocalBefore int
}

// Failed returns the number of requests since the break without a decision.
func (r *Result) Failed() int {
	failed := 0
	for _, n := range r.Failures {
		failed += n
	}
	return failed
}

// Measure evaluates a trial.
func Measure(t *Trial) Result {
	r := Result{
		Fault: t.Fault, Outage: microseconds(t.Repaired - t.Broken),
		Failures: map[string]int{}, Sources: map[string]int{}, Overs: overs(t), Given: given(t),
	}
	var late []time.Duration
	var calm, during []*Answer
	for i := range t.Answers {
		a := &t.Answers[i]
		late = append(late, microseconds(a.Sent-a.Due))
		if a.Sent < t.Broken {
			calm = append(calm, a)
			r.before(t, a)
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
		if a.Sent >= t.Broken+detection.Microseconds() {
			during = append(during, a)
		}
	}
	r.Rate = float64(len(t.Answers)) / microseconds(t.Ended-t.Began).Seconds()
	r.Late, r.Calm, r.P99 = percentile(late, 99), p99(calm), p99(during)
	r.SteadyCalm, r.SteadyP99 = steadyP99(calm), steadyP99(during)
	r.Recovery, r.Recovered = recovery(t.Answers, t.Limiters, t.Repaired, cmp.Or(t.Settling, t.Ended), t.Settled)
	return r
}

// before counts what was wrong with an answer just before the fault.
func (r *Result) before(t *Trial, a *Answer) {
	switch {
	case a.Done >= t.Broken || a.Sent < t.Broken-t.Settled.Microseconds() || a.fromRedis():
	case a.Failure != "":
		r.FailedBefore++
	default:
		r.LocalBefore++
	}
}

// recovery is the time from the repair until the last answer without Redis. It has ended when there was no such answer for the time
// settled, and every limiter has decided with Redis.
func recovery(answers []Answer, limiters int, repaired, now int64, settled time.Duration) (took time.Duration, ended bool) {
	last := repaired
	for i := range answers {
		if a := &answers[i]; a.Done > last && a.Done <= now && !a.fromRedis() {
			last = a.Done
		}
	}
	again := map[int]bool{}
	for i := range answers {
		if a := &answers[i]; a.Sent > last && a.Done <= now && a.Source == sourceRedis {
			again[a.Limiter] = true
		}
	}
	return microseconds(last - repaired), len(again) == limiters && now-last >= settled.Microseconds()
}

// pause is the longest delay with which the load was sent: how long the machine paused the processes.
func (t *Trial) pause() time.Duration {
	longest := time.Duration(0)
	for i := range t.Answers {
		longest = max(longest, microseconds(t.Answers[i].Sent-t.Answers[i].Due))
	}
	return longest
}

// overs returns the units that each policy's hot tenant was admitted beyond the limit.
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

// given is the number of units that the hot tenants were admitted, as a share of their limits for the duration of the trial. It shows a
// limiter that stays within the limits because it denies too much.
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

func p99(answers []*Answer) time.Duration {
	latencies := make([]time.Duration, len(answers))
	for i, a := range answers {
		latencies[i] = a.latency()
	}
	return percentile(latencies, 99)
}

// slice is short, so that a pause of the machine affects few slices, and long enough for some hundred requests.
const slice = 100 * time.Millisecond

// steadyP99 is the median of the 99th percentiles of all slices. A pause of the machine of some milliseconds makes the answers of one slice
// slow. What Weir does slowly is slow in every slice.
func steadyP99(answers []*Answer) time.Duration {
	slices := map[int64][]*Answer{}
	for _, a := range answers {
		slices[a.Sent/slice.Microseconds()] = append(slices[a.Sent/slice.Microseconds()], a)
	}
	var all []time.Duration
	for _, s := range slices {
		all = append(all, p99(s))
	}
	return percentile(all, 50)
}

// percentile returns the shortest duration that percent of all do not exceed; 0 if there are no durations.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)*percent+99)/100-1]
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
