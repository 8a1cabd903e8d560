package lua

import (
	"slices"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
)

// MaxWholeLog is the greatest limit, in units, of a log that is read and written as a whole.
const MaxWholeLog = 256

// The modes of a call.
const (
	ModeSpend = "spend"
	ModePeek  = "peek"
)

const (
	runHead      = 4   // arguments before those of the shapes
	shapeHead    = 2   // arguments of a shape before those of its charges
	chargeWidth  = 9   // at most, arguments of a charge
	refundHead   = 3   // arguments before those of the refunds
	refundWidth  = 7   // arguments of a refund
	oneWidth     = 8   // at most, arguments of a script for one charge
	firstShape   = '0' // the name of the first shape
	unboundDelay = never
)

// Call is a request: either all of its charges are counted, or nothing is.
type Call struct {
	Mode    string
	Charges []limiter.Charge
}

// counters collects the keys of counters, and the fields of compact ones, see compact.lua.
type counters struct {
	keys   []string
	fields []byte
}

// add adds the counter at key, and returns its storage in scripts.
func (c *counters) add(key string, limit limiter.Limit) (storage string) {
	block, field, isCompact := limiter.CompactKey(key)
	if !isCompact {
		c.keys = append(c.keys, key)
		return "exact"
	}
	c.fields = append(c.fields, field[:]...)
	c.keys = append(c.keys, block)
	if limit.Traits().Windows > 1 {
		c.keys = append(c.keys, OddBlock(block))
		return "blocks"
	}
	return "block"
}

// OddBlock returns the key of the block for odd windows. The key of a block ends in ":0".
func OddBlock(block string) string { return block[:len(block)-1] + "1" }

func isCompact(key string) bool {
	_, _, ok := limiter.CompactKey(key)
	return ok
}

// scriptAlgorithm is the name of an algorithm in scripts.
func scriptAlgorithm(traits *limiter.Traits, isCompact bool) string {
	if isCompact && traits.Compact != "" {
		return traits.Compact
	}
	return string(traits.Name)
}

// ForOne returns the script that decides one charge, with its keys and arguments, see spend_one.lua. now is in microseconds since the epoch, or ""
// for the clock of Redis.
func (s *Scripts) ForOne(now, mode string, c *limiter.Charge) (script redisclient.Script, keys []string, args []any) {
	args = append(make([]any, 0, oneWidth), now, mode, c.Limit.Units(), c.Limit.Window().Microseconds(), c.Units(), debt(c))
	var counter counters
	counter.add(c.Key, c.Limit)
	traits := c.Limit.Traits()
	if len(counter.fields) > 0 {
		return s.one[traits.Number].compact, counter.keys, append(args, counter.fields)
	}
	if traits.Drains {
		args = append(args, c.Limit.Capacity())
	}
	if traits.Queues {
		args = append(args, maxDelay(c.Limit))
	}
	return s.one[traits.Number].exact, counter.keys, args
}

// ForCalls returns the script that decides calls in one slot, with its keys and arguments, see spend.lua and spend_compact.lua. Calls that differ
// only in their keys have the same shape, which is sent once. isRepeated is whether two of the calls have a counter in common.
func (s *Scripts) ForCalls(now string, isRepeated bool, n int, call func(i int) Call) (script redisclient.Script, keys []string, args []any) {
	scripts, keys, args := s.forCalls(now, isRepeated, n, call)
	return scripts.inOneSlot, keys, args
}

// ForCallsInAnySlots is ForCalls for keys in any slots of a node, see any_slot.lua. The keys are among the arguments.
func (s *Scripts) ForCallsInAnySlots(now string, isRepeated bool, n int, call func(i int) Call) (script redisclient.Script, args []any) {
	scripts, keys, own := s.forCalls(now, isRepeated, n, call)
	args = append(make([]any, 0, 1+len(keys)+len(own)), len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	return scripts.inAnySlots, append(args, own...)
}

func (s *Scripts) forCalls(now string, isRepeated bool, n int, call func(i int) Call) (scripts forSlots, keys []string, args []any) {
	hasCompact, hasLog, charges := false, false, 0
	for i := range n {
		c := call(i)
		charges += len(c.Charges)
		for j := range c.Charges {
			hasCompact = hasCompact || isCompact(c.Charges[j].Key)
		}
	}
	sent := counters{keys: make([]string, 0, charges)}
	shapes := make([]byte, n)
	distinct := make([]Call, 0, 4) // rarely more
	args = append(make([]any, 0, runHead+shapeHead+chargeWidth*len(call(0).Charges)), now, shapes, "", "")
	if hasCompact {
		args = args[:3]
	}
	for i := range n {
		c := call(i)
		shape := slices.IndexFunc(distinct, c.hasShapeOf)
		isNew := shape < 0
		if isNew {
			shape = len(distinct)
			distinct = append(distinct, c)
			args = append(args, c.Mode, len(c.Charges))
		}
		shapes[i] = firstShape + byte(shape)
		for j := range c.Charges {
			charge := &c.Charges[j]
			storage := sent.add(charge.Key, charge.Limit)
			if !isNew {
				continue
			}
			args = appendCharge(args, charge)
			if hasCompact {
				args = append(args, storage)
			}
			hasLog = hasLog || charge.Limit.Traits().Log
		}
	}
	if hasCompact {
		args[2] = sent.fields
		return s.compact, sent.keys, args
	}
	if isRepeated {
		args[2] = "repeated"
	}
	if hasLog {
		args[3] = "logs"
	}
	return s.spend, sent.keys, args
}

// hasShapeOf reports whether the calls are equal except for their keys.
func (c Call) hasShapeOf(other Call) bool {
	if c.Mode != other.Mode || len(c.Charges) != len(other.Charges) {
		return false
	}
	for i := range c.Charges {
		a, b := &c.Charges[i], &other.Charges[i]
		if a.Cost != b.Cost || a.Shadow != b.Shadow || a.Debt != b.Debt || a.Whole != b.Whole || a.Limit != b.Limit || isCompact(a.Key) != isCompact(b.Key) {
			return false
		}
	}
	return true
}

// appendCharge appends the arguments that read_charge in shapes.lua reads.
func appendCharge(args []any, c *limiter.Charge) []any {
	traits := c.Limit.Traits()
	delay, enforcement := any(""), "enforce"
	if traits.Queues {
		delay = maxDelay(c.Limit)
	}
	if c.Shadow {
		enforcement = "shadow"
	}
	return append(args, scriptAlgorithm(traits, isCompact(c.Key)), c.Limit.Units(), c.Limit.Window().Microseconds(), capacity(c.Limit), delay,
		c.Units(), debt(c), enforcement)
}

// debt is the argument with that name.
func debt(c *limiter.Charge) string {
	switch {
	case !c.CountsAlways():
		return ""
	case c.Whole:
		return "whole"
	default:
		return "unit"
	}
}

// capacity is the argument with that name: of a bucket, in units.
func capacity(limit limiter.Limit) any {
	if !limit.Traits().Drains {
		return ""
	}
	return limit.Capacity()
}

// maxDelay is the argument with that name, in microseconds: of a bucket whose charges can wait for their turn.
func maxDelay(limit limiter.Limit) int64 {
	if most, isBounded := limit.MaxDelay(); isBounded {
		return most.Microseconds()
	}
	return unboundDelay
}

// ForRefunds returns the script that makes refunds and publishes their keys on a channel, with its keys and arguments, see refund.lua.
func (s *Scripts) ForRefunds(now, channel string, refunds []limiter.Refund) (script redisclient.Script, keys []string, args []any) {
	sent := counters{keys: make([]string, 0, len(refunds))}
	args = append(make([]any, 0, refundHead+refundWidth*len(refunds)), now, channel, "")
	for _, r := range refunds {
		storage := sent.add(r.Key, r.Limit)
		args = append(args, scriptAlgorithm(r.Limit.Traits(), storage != "exact"), r.Limit.Units(), r.Limit.Window().Microseconds(), capacity(r.Limit),
			r.Units(), storage, int64(r.At))
	}
	if len(sent.fields) > 0 {
		args[2] = sent.fields
	}
	return s.refund, sent.keys, args
}
