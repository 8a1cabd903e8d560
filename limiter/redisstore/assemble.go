package redisstore

import (
	_ "embed" // for the scripts
	"fmt"
	"strings"
	"sync"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// The parts of the scripts.
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
	//go:embed sliding_window_log_step.lua
	slidingWindowLogStepLua string
	//go:embed sliding_window_log_refund.lua
	slidingWindowLogRefundLua string
	//go:embed sliding_window_log_ring_refund.lua
	slidingWindowLogRingRefundLua string
	//go:embed sliding_window_counter.lua
	slidingWindowCounterLua string
	//go:embed sliding_window_counter_refund.lua
	slidingWindowCounterRefundLua string
	//go:embed bucket.lua
	bucketLua string
	//go:embed bucket_refund.lua
	bucketRefundLua string
	//go:embed compact.lua
	compactLua string
	//go:embed compact_step.lua
	compactStepLua string
	//go:embed compact_refund.lua
	compactRefundLua string
	//go:embed load.lua
	loadLua string
	//go:embed arguments.lua
	argumentsLua string
	//go:embed reply.lua
	replyLua string
	//go:embed spend.lua
	spendLua string
	//go:embed spend_one.lua
	spendOneLua string
	//go:embed refund.lua
	refundLua string
	//go:embed any_slot.lua
	anySlotLua string
)

// maxWholeLog is MAX_WHOLE_LOG of the scripts.
const maxWholeLog = 256

// algorithmSource is the Lua source of one algorithm.
type algorithmSource struct {
	name         string
	functions    string // prefix of the names of its functions
	shared       string // functions that step and refund use
	step, refund string
}

// algorithmSources are in the order in which they appear in the scripts.
func algorithmSources() []algorithmSource {
	fixed := algorithmSource{"fixed_window", "fixed_window", fixedWindowLua, "", fixedWindowRefundLua}
	counter := algorithmSource{"sliding_window_counter", "sliding_window_counter", slidingWindowCounterLua, "", slidingWindowCounterRefundLua}
	return []algorithmSource{
		fixed,
		{
			"sliding_window_log", "sliding_window_log", slidingWindowLogLua,
			ringFunction("ring_step", slidingWindowLogRingLua) + slidingWindowLogStepLua,
			ringFunction("ring_refund", slidingWindowLogRingLua+slidingWindowLogRingRefundLua) + slidingWindowLogRefundLua,
		},
		counter,
		{"bucket", "bucket", bucketLua, "", bucketRefundLua},
		compactSource(fixed),
		compactSource(counter),
	}
}

// ringFunction defines load_ring, which returns a function of a ring: most logs are small, and defining functions takes time.
func ringFunction(name, source string) string {
	return fmt.Sprintf("\nlocal function load_ring()\n%sreturn %s\nend\n\n", source, name)
}

// compactSource is the source of an algorithm for compact counters: the same functions on values in blocks.
func compactSource(counted algorithmSource) algorithmSource {
	alias := func(part string) string {
		return fmt.Sprintf("\nlocal counted_%s = %s_%[1]s\n", part, counted.functions)
	}
	return algorithmSource{
		name:      "compact_" + counted.name,
		functions: "compact",
		shared:    compactLua + "\n" + counted.shared + alias("step") + compactStepLua,
		refund:    counted.refund + alias("refund") + compactRefundLua,
	}
}

// spendNow defines the time of a run that decides several charges.
const spendNow = "local now = current_time(ARGV[1])\n"

// singleReply ends a run for one charge that spend_one.lua does not end.
const singleReply = "add_decision(remaining, reset_after, wait, at)\nreply[size + 1] = corrupt\nreturn reply\n"

// declaredKeys begins the scripts whose keys are those of EVALSHA.
const declaredKeys = "local prefetched\n"

// scripts are the scripts that decide or refund.
type scripts struct {
	spend   redisclient.Script // decides calls with several charges
	anySlot redisclient.Script // the same with keys in several slots of a node
	refund  redisclient.Script
	single  singleScripts
}

// assembled returns the scripts. It assembles them once, which takes milliseconds.
var assembled = sync.OnceValue(func() *scripts { //nolint:gochecknoglobals // never changes
	return &scripts{
		spend:   newSpendScript("spend", declaredKeys),
		anySlot: newSpendScript("spend_any_slot", anySlotLua),
		refund:  newRefundScript(),
		single:  newSingleScripts(),
	}
})

// SpendScript returns the script that decides calls with several charges.
func SpendScript() redisclient.Script { return assembled().spend }

func newSpendScript(name, keys string) redisclient.Script {
	return redisclient.NewScript(name,
		assemble(keys, func(a algorithmSource) string { return a.shared + a.step + "return " + a.functions + "_step\n" }, spendNow+replyLua+"\n"+spendLua))
}

func newRefundScript() redisclient.Script {
	return redisclient.NewScript("refund",
		assemble(declaredKeys, func(a algorithmSource) string { return a.shared + a.refund + "return " + a.functions + "_refund\n" }, refundLua))
}

// Scripts returns every script of this package that decides or refunds, for [redisclient.Client.LoadScripts]. testdata has a copy of each, so that
// a change to a part shows in the whole.
func Scripts() []redisclient.Script {
	s := assembled()
	return append([]redisclient.Script{s.spend, s.refund, s.anySlot}, s.single.all()...)
}

// assemble returns a script for all algorithms. keys defines prefetched, the values of KEYS if they have been read. Each algorithm is a
// function that defines its functions only when it is called, so a run does not define those that it does not use.
func assemble(keys string, body func(algorithmSource) string, script string) string {
	var b strings.Builder
	b.WriteString(numbersLua + "\n" + keys + "\n" + countsLua + "\n" + mulDivLua)
	for _, a := range algorithmSources() {
		fmt.Fprintf(&b, "\nlocal function load_%s()\n%send\n", a.name, body(a))
	}
	fmt.Fprintf(&b, "\n%s\n%s\n%s", loadLua, argumentsLua, script)
	return inlineConstants(b.String())
}

// singleScripts decide one charge. Each contains one algorithm only: for one charge, defining the functions of the spend
// script takes longer than everything else.
type singleScripts struct {
	fixedWindow, log, windowCounter, tokenBucket, leakyBucket redisclient.Script
	compactFixedWindow, compactWindowCounter                  redisclient.Script
}

func newSingleScripts() singleScripts {
	type constants struct{ readsValue, queues, isCompact bool }
	whole, itself, queue, compact := constants{readsValue: true}, constants{}, constants{readsValue: true, queues: true}, constants{isCompact: true}
	one := func(name, step, parts string, c constants) redisclient.Script {
		return redisclient.NewScript("spend_one_"+name,
			inlineConstants(fmt.Sprintf("%s\n%s\nlocal step = %s_step\nlocal READS_VALUE, QUEUES, IS_COMPACT = %t, %t, %t\n\n%s\n%s\n%s",
				numbersLua, parts, step, c.readsValue, c.queues, c.isCompact, spendOneLua, replyLua, singleReply)))
	}
	fixed, counter := fixedWindowLua, mulDivLua+"\n"+slidingWindowCounterLua
	log := slidingWindowLogLua + ringFunction("ring_step", slidingWindowLogRingLua) + slidingWindowLogStepLua
	bucket := mulDivLua + "\n" + bucketLua
	compactly := func(algorithm, parts string) string {
		return countsLua + "\n" + compactSource(algorithmSource{functions: algorithm, shared: parts}).shared
	}
	return singleScripts{
		fixedWindow:          one("fixed_window", "fixed_window", countsLua+"\n"+fixed, whole),
		log:                  one("sliding_window_log", "sliding_window_log", log, itself),
		windowCounter:        one("sliding_window_counter", "sliding_window_counter", countsLua+"\n"+counter, whole),
		tokenBucket:          one("token_bucket", "bucket", bucket, whole),
		leakyBucket:          one("leaky_bucket", "bucket", bucket, queue),
		compactFixedWindow:   one("compact_fixed_window", "compact", compactly("fixed_window", fixed), compact),
		compactWindowCounter: one("compact_sliding_window_counter", "compact", compactly("sliding_window_counter", counter), compact),
	}
}

func (s *singleScripts) all() []redisclient.Script {
	return []redisclient.Script{
		s.fixedWindow, s.log, s.windowCounter, s.tokenBucket, s.leakyBucket, s.compactFixedWindow, s.compactWindowCounter,
	}
}

// forLimit returns the script that decides a charge on limit.
func (s *singleScripts) forLimit(limit limiter.Limit, isCompact bool) redisclient.Script {
	switch algorithm := limit.Algorithm(); {
	case isCompact && algorithm == limiter.FixedWindow:
		return s.compactFixedWindow
	case isCompact:
		return s.compactWindowCounter
	case algorithm == limiter.FixedWindow:
		return s.fixedWindow
	case algorithm == limiter.SlidingWindowLog:
		return s.log
	case algorithm == limiter.SlidingWindowCounter:
		return s.windowCounter
	case algorithm == limiter.TokenBucket:
		return s.tokenBucket
	default:
		return s.leakyBucket
	}
}
