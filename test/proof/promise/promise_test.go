package promise

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// in returns a request of one unit that was admitted at an instant.
func in(at int64) Request { return Request{From: at, To: at, Units: 1} }

func many(units, at int64) Request { return Request{From: at, To: at, Units: units} }

func out(at int64) Request { return Request{From: at, To: at, Units: 1, Outcome: Denied} }

func lost(from, to int64) Request { return Request{From: from, To: to, Units: 1, Outcome: Lost} }

func within(from, to int64) Request { return Request{From: from, To: to, Units: 1} }

func turn(at, delay int64) Request { return Request{From: at, To: at, Units: 1, Delay: delay} }

func (r Request) denied() Request {
	r.Outcome = Denied
	return r
}

func (r Request) of(units int64) Request {
	r.Units = units
	return r
}

// The windows are 10 us long, the limits 2; so a bucket drains one unit in 5 us.
func promises() map[string]Promise {
	return map[string]Promise{
		"fixed window":    FixedWindow{Limit: 2, Window: 10},
		"sliding log":     SlidingWindowLog{Limit: 2, Window: 10},
		"sliding counter": SlidingWindowCounter{Limit: 2, Window: 10},
		"token bucket":    TokenBucket{Limit: 2, Window: 10, Burst: 2},
		"leaky bucket":    LeakyBucket{Limit: 2, Window: 10, Burst: 1, Grain: 1},
	}
}

func TestTooMuchIsFoundAndEnoughIsNot(t *testing.T) {
	tests := map[string]struct {
		promise string
		log     Log
		over    bool
	}{
		"a full window":                             {"fixed window", Log{in(10), in(19)}, false},
		"a full window twice over its end":          {"fixed window", Log{in(18), in(19), in(20), in(21)}, false},
		"a unit too many in a window":               {"fixed window", Log{in(10), in(19), in(15)}, true},
		"a unit too many at one instant":            {"fixed window", Log{in(10), in(10), in(10)}, true},
		"units of one request too many":             {"fixed window", Log{many(3, 10)}, true},
		"a unit that may be of the next window":     {"fixed window", Log{in(10), in(19), within(19, 20)}, false},
		"units that are surely of one window":       {"fixed window", Log{within(10, 15), within(12, 19), within(10, 19)}, true},
		"what was denied does not count":            {"fixed window", Log{in(10), in(19), out(15)}, false},
		"what was lost does not count":              {"fixed window", Log{in(10), in(19), lost(15, 15)}, false},
		"a unit when the first has left":            {"sliding log", Log{in(5), in(6), in(15), in(16)}, false},
		"a unit just before the first leaves":       {"sliding log", Log{in(5), in(6), in(14)}, true},
		"over the end of an aligned window":         {"sliding log", Log{in(18), in(19), in(20)}, true},
		"a unit that may be after the first left":   {"sliding log", Log{in(5), in(6), within(14, 15)}, false},
		"a unit surely before the first left":       {"sliding log", Log{within(5, 6), within(5, 7), within(13, 14)}, true},
		"as the window before loses its weight":     {"sliding counter", Log{in(18), in(19), in(25), in(30)}, false},
		"just before the weight is lost":            {"sliding counter", Log{in(18), in(19), in(24)}, true},
		"two where the weight leaves one":           {"sliding counter", Log{in(18), in(19), in(25), in(25)}, true},
		"after a window without any":                {"sliding counter", Log{in(18), in(19), in(30), in(30)}, false},
		"a unit that may be late enough":            {"sliding counter", Log{in(18), in(19), within(24, 25)}, false},
		"a unit that is surely not late enough":     {"sliding counter", Log{in(18), in(19), within(23, 24)}, true},
		"a unit beside others of its window":        {"sliding counter", Log{in(10), in(11), within(12, 13)}, true},
		"a burst, then the rate":                    {"token bucket", Log{in(7), in(7), in(12), in(17), in(22)}, false},
		"a unit just too early":                     {"token bucket", Log{in(7), in(7), in(11)}, true},
		"a little too fast for long":                {"token bucket", Log{in(0), in(0), in(5), in(10), in(14)}, true},
		"more than a burst after a rest":            {"token bucket", Log{in(0), in(90), in(90), in(90)}, true},
		"a unit that may be late enough for it":     {"token bucket", Log{in(7), in(7), within(11, 12)}, false},
		"units surely too close":                    {"token bucket", Log{within(7, 8), within(7, 8), within(8, 11)}, true},
		"turns at the rate":                         {"leaky bucket", Log{turn(0, 0), turn(0, 5), turn(5, 5), turn(20, 0)}, false},
		"a turn too early":                          {"leaky bucket", Log{turn(0, 0), turn(0, 3)}, true},
		"a turn that was rounded up":                {"leaky bucket", Log{turn(0, 0), turn(1, 5), turn(6, 4)}, false},
		"two turns at once":                         {"leaky bucket", Log{turn(0, 5), turn(5, 0)}, true},
		"a queue that is too long":                  {"leaky bucket", Log{turn(0, 0), turn(0, 5), turn(0, 10)}, true},
		"a wait beyond the queue":                   {"leaky bucket", Log{turn(0, 0), turn(0, 7)}, true},
		"the second unit of a request takes a turn": {"leaky bucket", Log{turn(0, 0).of(2), turn(5, 5)}, false},
		"nobody leaves on that turn":                {"leaky bucket", Log{turn(0, 0).of(2), turn(5, 2)}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := promises()[test.promise].Over(shuffled(test.log)); (err != nil) != test.over {
				t.Errorf("%s over %+v: %v", test.promise, test.log, err)
			}
		})
	}
}

func TestADenialWithoutNeedIsFoundAndOneWithNeedIsNot(t *testing.T) {
	tests := map[string]struct {
		promise  string
		log      Log
		needless bool
	}{
		"behind a full window":                    {"fixed window", Log{in(10), in(11), out(19)}, false},
		"in the next window":                      {"fixed window", Log{in(10), in(11), out(20)}, true},
		"before what filled the window":           {"fixed window", Log{in(10), in(12), out(11)}, true},
		"as what filled it":                       {"fixed window", Log{in(10), in(12), out(12)}, false},
		"perhaps still in the full window":        {"fixed window", Log{in(10), in(11), within(19, 21).denied()}, false},
		"in a window a lost one may have filled":  {"fixed window", Log{in(10), lost(5, 11), out(15)}, false},
		"where the lost one is of another window": {"fixed window", Log{in(10), lost(5, 9), out(15)}, true},
		"of more than is left":                    {"fixed window", Log{in(10), out(15).of(2)}, false},
		"of what is left":                         {"fixed window", Log{in(10), out(15).of(1)}, true},
		"before the first has left":               {"sliding log", Log{in(5), in(6), out(14)}, false},
		"when the first has left":                 {"sliding log", Log{in(5), in(6), out(15)}, true},
		"before the first has surely left":        {"sliding log", Log{in(5), within(5, 6), within(14, 16).denied()}, false},
		"while the weight is too much":            {"sliding counter", Log{in(18), in(19), out(24)}, false},
		"when the weight leaves room":             {"sliding counter", Log{in(18), in(19), out(25)}, true},
		"perhaps while the weight is too much":    {"sliding counter", Log{in(18), in(19), within(24, 26).denied()}, false},
		"of an empty bucket":                      {"token bucket", Log{in(7), in(7), out(11)}, false},
		"of a bucket with a token":                {"token bucket", Log{in(7), in(7), out(12)}, true},
		"of a bucket that rested":                 {"token bucket", Log{in(0), in(5), in(10), out(50)}, true},
		"of a bucket a lost one may have emptied": {"token bucket", Log{in(7), lost(0, 9), out(11)}, false},
		"of a full queue":                         {"leaky bucket", Log{turn(0, 0), turn(0, 5), out(4)}, false},
		"of a queue that has moved on":            {"leaky bucket", Log{turn(0, 0), turn(0, 5), out(5)}, true},
		"a wait behind nobody":                    {"leaky bucket", Log{turn(0, 2)}, true},
		"a wait longer than the queue":            {"leaky bucket", Log{turn(0, 0), turn(2, 4)}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := promises()[test.promise].Needless(shuffled(test.log)); (err != nil) != test.needless {
				t.Errorf("%s, needless in %+v: %v", test.promise, test.log, err)
			}
		})
	}
}

func TestDenialsSayHowMuchWasAdmittedAtTheLeast(t *testing.T) {
	tests := map[string]struct {
		promise string
		log     Log
		least   int64
	}{
		"nobody was denied":                            {"fixed window", Log{in(10)}, 0},
		"two windows with a denial of three":           {"fixed window", Log{out(10), out(25), in(35)}, 4},
		"a window with denials of several sizes":       {"fixed window", Log{out(10).of(2), out(11), out(12).of(2)}, 2},
		"a denial in one window or the next":           {"fixed window", Log{within(19, 20).denied()}, 0},
		"a denied request above the limit":             {"fixed window", Log{out(10).of(9)}, 0},
		"windows that do not overlap":                  {"sliding log", Log{out(9), out(15), out(19)}, 4},
		"windows that overlap":                         {"sliding log", Log{out(10), out(15), out(19)}, 2},
		"a denial at a window's end":                   {"sliding counter", Log{out(19)}, 1},
		"denials at two windows' ends":                 {"sliding counter", Log{out(19), out(29)}, 2},
		"a denial at a window's beginning":             {"sliding counter", Log{out(10)}, 0},
		"an empty bucket":                              {"token bucket", Log{out(10)}, 2},
		"an empty bucket three units later":            {"token bucket", Log{out(10), out(15), out(20), out(25)}, 5},
		"a bucket nobody asked for long":               {"token bucket", Log{out(10), out(90)}, 3},
		"a bucket that cannot hold what was asked for": {"token bucket", Log{out(10).of(9)}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if least := promises()[test.promise].Least(shuffled(test.log)); least != test.least {
				t.Errorf("%s: at least %d of %+v, want %d", test.promise, least, test.log, test.least)
			}
		})
	}
}

// TestLongLogs checks long random logs of limiters that decide by the letter of each promise, and of some that are off by a
// unit either way.
func TestLongLogs(t *testing.T) {
	const limit, window, burst = 20, 1000, 5
	tests := map[string]struct {
		promise  Promise
		capacity int64
		level    func(counted Log, now int64) int64 // times window
	}{
		"fixed window": {FixedWindow{limit, window}, limit, func(counted Log, now int64) int64 {
			return counted.surely(now/window*window, now) * window
		}},
		"sliding log": {SlidingWindowLog{limit, window}, limit, func(counted Log, now int64) int64 {
			return counted.surely(now-window+1, now) * window
		}},
		"sliding counter": {SlidingWindowCounter{limit, window}, limit, func(counted Log, now int64) int64 {
			start := now / window * window
			return counted.surely(start, now)*window + counted.surely(start-window, start-1)*(start+window-now)
		}},
		"token bucket": {TokenBucket{limit, window, burst}, burst, drained(limit, window)},
		"leaky bucket": {LeakyBucket{limit, window, burst - 1, 1}, burst, drained(limit, window)},
	}
	for name, test := range tests {
		for _, off := range []int64{0, 1, -1} {
			t.Run(fmt.Sprintf("%s off by %d", name, off), func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, uint64(off)))
				var log, counted Log
				for now := int64(0); now < 20*window; now += random.Int64N(30) {
					r := Request{From: now, To: now, Units: 1 + random.Int64N(2)}
					level := test.level(counted, now)
					if _, queue := test.promise.(LeakyBucket); queue {
						r.Delay = (level + limit - 1) / limit
					}
					if level+r.Units*window > (test.capacity+off)*window {
						r.Outcome, r.Delay = Denied, 0
					} else {
						counted = append(counted, r)
					}
					log = append(log, r)
				}
				over, needless := test.promise.Over(log), test.promise.Needless(log)
				if (over != nil) != (off > 0) || (needless != nil) != (off < 0) {
					t.Errorf("over: %v; needless: %v", over, needless)
				}
				if units, _ := counted.Counted(); off == 0 && (units < test.promise.Least(log) || test.promise.Least(log) < 15*limit) {
					t.Errorf("%d units admitted, at least %d promised", units, test.promise.Least(log))
				}
			})
		}
	}
}

// drained is the level of a bucket, worked out step by step.
func drained(limit, window int64) func(Log, int64) int64 {
	return func(counted Log, now int64) int64 {
		level, at := int64(0), int64(0)
		for _, r := range counted {
			level = max(0, level-limit*(r.From-at)) + r.Units*window
			at = r.From
		}
		return max(0, level-limit*(now-at))
	}
}

func shuffled(log Log) Log {
	rand.Shuffle(len(log), func(i, j int) { log[i], log[j] = log[j], log[i] })
	return log
}
