package redisstore

import (
	_ "embed" // for the scripts
	"fmt"
	"strings"

	"github.com/weir-dev/weir/limiter"
)

// The parts of the scripts that work on counters.
var (
	//go:embed numbers.lua
	numbersLua string
	//go:embed counts.lua
	countsLua string
	//go:embed mul_div.lua
	mulDivLua string
	//go:embed fixed_window.lua
	fixedWindowLua string
	//go:embed fixed_window_refund.lua
	fixedWindowRefundLua string
	//go:embed sliding_window_log.lua
	slidingWindowLogLua string
	//go:embed sliding_window_log_ring.lua
	slidingWindowLogRingLua string
	//go:embed sliding_window_log_refund.lua
	slidingWindowLogRefundLua string
	//go:embed sliding_window_counter.lua
	slidingWindowCounterLua string
	//go:embed sliding_window_counter_refund.lua
	slidingWindowCounterRefundLua string
	//go:embed bucket.lua
	bucketLua string
	//go:embed bucket_refund.lua
	bucketRefundLua string
	//go:embed load.lua
	loadLua string
	//go:embed arguments.lua
	argumentsLua string
	//go:embed spend.lua
	spendLua string
	//go:embed spend_one.lua
	spendOneLua string
	//go:embed refund.lua
	refundLua string
)

// wholeLog is the limit (units) up to which a SlidingWindowLog is read and written whole, and not in place.
const wholeLog = 256

// part is how the scripts work under one algorithm.
type part struct {
	name         string // of its functions
	step, refund string // what they are, those of refund behind those of step
}

// parts are in the order in which the scripts load them.
func parts() []part {
	return []part{
		{"fixed_window", fixedWindowLua, fixedWindowRefundLua},
		{"sliding_window_log", slidingWindowLogLua + slidingWindowLogRingLua, slidingWindowLogRefundLua},
		{"sliding_window_counter", slidingWindowCounterLua, slidingWindowCounterRefundLua},
		{"bucket", bucketLua, bucketRefundLua},
	}
}

// spendSource, refundSource and spendOneSource are the assembled scripts; copies lie in testdata, so that a change shows
// as a whole.
func spendSource() string {
	return assembled(func(p part) string { return p.step + "return " + p.name + "_step\n" }, spendLua)
}

func refundSource() string {
	return assembled(func(p part) string { return p.step + p.refund + "return " + p.name + "_refund\n" }, refundLua)
}

// assembled is a script for all algorithms. What a run does not use of it, it does not make: an algorithm is a function
// that returns its function.
func assembled(body func(part) string, script string) string {
	var b strings.Builder
	b.WriteString(numbersLua + "\n" + countsLua + "\n" + mulDivLua)
	for _, p := range parts() {
		fmt.Fprintf(&b, "\nlocal function load_%s()\n%send\n", p.name, body(p))
	}
	fmt.Fprintf(&b, "\n%s\nlocal WHOLE_LOG = %d\n%s\n%s", loadLua, wholeLog, argumentsLua, script)
	return b.String()
}

// spendOneSource is the script for one charge that step decides. It makes next to nothing before it does: for one charge
// that took longer than all the rest.
func spendOneSource(step, parts string, whole, queues bool) string {
	return fmt.Sprintf("%s\n%s\nlocal step, READS_WHOLE, QUEUES = %s_step, %t, %t\n\n%s",
		numbersLua, parts, step, whole, queues, spendOneLua)
}

// alone are the scripts that decide one charge.
type alone struct {
	fixedWindow, smallLog, largeLog, windowCounter, tokenBucket, leakyBucket script
}

func newAlone() alone {
	const largeLogs, queues = true, true
	one := func(name, step, parts string, largeLogs, queues bool) script {
		return newScript("spend_one_"+name, spendOneSource(step, parts, !largeLogs, queues))
	}
	fixed := countsLua + "\n" + fixedWindowLua
	counter, bucket := countsLua+"\n"+mulDivLua+"\n"+slidingWindowCounterLua, mulDivLua+"\n"+bucketLua
	log, ring := slidingWindowLogLua, slidingWindowLogLua+slidingWindowLogRingLua
	return alone{
		fixedWindow:   one("fixed_window", "fixed_window", fixed, !largeLogs, !queues),
		smallLog:      one("small_sliding_window_log", "sliding_window_log_list", log, !largeLogs, !queues),
		largeLog:      one("large_sliding_window_log", "sliding_window_log", ring, largeLogs, !queues),
		windowCounter: one("sliding_window_counter", "sliding_window_counter", counter, !largeLogs, !queues),
		tokenBucket:   one("token_bucket", "bucket", bucket, !largeLogs, !queues),
		leakyBucket:   one("leaky_bucket", "bucket", bucket, !largeLogs, queues),
	}
}

func (a *alone) scripts() []script {
	return []script{a.fixedWindow, a.smallLog, a.largeLog, a.windowCounter, a.tokenBucket, a.leakyBucket}
}

// of is the script for a charge on limit.
func (a *alone) of(limit limiter.Limit) script {
	switch algorithm := limit.Algorithm(); {
	case algorithm == limiter.FixedWindow:
		return a.fixedWindow
	case algorithm == limiter.SlidingWindowLog && limit.Units() <= wholeLog:
		return a.smallLog
	case algorithm == limiter.SlidingWindowLog:
		return a.largeLog
	case algorithm == limiter.SlidingWindowCounter:
		return a.windowCounter
	case algorithm == limiter.TokenBucket:
		return a.tokenBucket
	default:
		return a.leakyBucket
	}
}
