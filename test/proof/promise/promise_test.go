package promise

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// admitted returns a request of one unit that was admitted at an instant.
func admitted(at int64) Request { return Request{From: at, To: at, Units: 1} }

func many(units, at int64) Request { return Request{From: at, To: at, Units: units} }

func denied(at int64) Request { return Request{From: at, To: at, Units: 1, Outcome: Denied} }

func lost(from, to int64) Request { return Request{From: from, To: to, Units: 1, Outcome: Lost} }

func within(from, to int64) Request { return Request{From: from, To: to, Units: 1} }

func turn(at, delay int64) Request { return Request{From: at, To: at, Units: 1, Delay: delay} }

func (r Request) asDenied() Request {
	r.Outcome = Denied
	return r
}

func (r Request) withUnits(units int64) Request {
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

func TestCheckAdmitted_FindsTooManyUnits(t *testing.T) {
	tests := map[string]struct {
		promise string
		log     Log
		over    bool
	}{
		"a full window":                              {"fixed window", Log{admitted(10), admitted(19)}, false},
		"a full window twice over its end":           {"fixed window", Log{admitted(18), admitted(19), admitted(20), admitted(21)}, false},
		"a unit too many in a window":                {"fixed window", Log{admitted(10), admitted(19), admitted(15)}, true},
		"a unit too many at one instant":             {"fixed window", Log{admitted(10), admitted(10), admitted(10)}, true},
		"a request with too many units":              {"fixed window", Log{many(3, 10)}, true},
		"a unit that may be in the next window":      {"fixed window", Log{admitted(10), admitted(19), within(19, 20)}, false},
		"units certainly in one window":              {"fixed window", Log{within(10, 15), within(12, 19), within(10, 19)}, true},
		"what was denied does not count":             {"fixed window", Log{admitted(10), admitted(19), denied(15)}, false},
		"what was lost does not count":               {"fixed window", Log{admitted(10), admitted(19), lost(15, 15)}, false},
		"a unit when the first has left":             {"sliding log", Log{admitted(5), admitted(6), admitted(15), admitted(16)}, false},
		"a unit just before the first leaves":        {"sliding log", Log{admitted(5), admitted(6), admitted(14)}, true},
		"across an aligned boundary":                 {"sliding log", Log{admitted(18), admitted(19), admitted(20)}, true},
		"a unit that may be after the first expires": {"sliding log", Log{admitted(5), admitted(6), within(14, 15)}, false},
		"a unit before the first expires":            {"sliding log", Log{within(5, 6), within(5, 7), within(13, 14)}, true},
		"when the previous window has lost weight":   {"sliding counter", Log{admitted(18), admitted(19), admitted(25), admitted(30)}, false},
		"before the weight is low enough":            {"sliding counter", Log{admitted(18), admitted(19), admitted(24)}, true},
		"two units with room for one":                {"sliding counter", Log{admitted(18), admitted(19), admitted(25), admitted(25)}, true},
		"after an empty window":                      {"sliding counter", Log{admitted(18), admitted(19), admitted(30), admitted(30)}, false},
		"a unit that may be late enough":             {"sliding counter", Log{admitted(18), admitted(19), within(24, 25)}, false},
		"a unit that is certainly too early":         {"sliding counter", Log{admitted(18), admitted(19), within(23, 24)}, true},
		"a unit with others in its window":           {"sliding counter", Log{admitted(10), admitted(11), within(12, 13)}, true},
		"a burst, then the rate":                     {"token bucket", Log{admitted(7), admitted(7), admitted(12), admitted(17), admitted(22)}, false},
		"a unit 1 us too early":                      {"token bucket", Log{admitted(7), admitted(7), admitted(11)}, true},
		"slightly above the rate":                    {"token bucket", Log{admitted(0), admitted(0), admitted(5), admitted(10), admitted(14)}, true},
		"more than a burst when idle":                {"token bucket", Log{admitted(0), admitted(90), admitted(90), admitted(90)}, true},
		"a unit that may be after the refill":        {"token bucket", Log{admitted(7), admitted(7), within(11, 12)}, false},
		"units certainly too close":                  {"token bucket", Log{within(7, 8), within(7, 8), within(8, 11)}, true},
		"turns at the rate":                          {"leaky bucket", Log{turn(0, 0), turn(0, 5), turn(5, 5), turn(20, 0)}, false},
		"a turn too early":                           {"leaky bucket", Log{turn(0, 0), turn(0, 3)}, true},
		"a delay that was rounded up":                {"leaky bucket", Log{turn(0, 0), turn(1, 5), turn(6, 4)}, false},
		"two units leave together":                   {"leaky bucket", Log{turn(0, 5), turn(5, 0)}, true},
		"a queue that is too long":                   {"leaky bucket", Log{turn(0, 0), turn(0, 5), turn(0, 10)}, true},
		"a delay longer than the queue":              {"leaky bucket", Log{turn(0, 0), turn(0, 7)}, true},
		"the second unit of a request takes a turn":  {"leaky bucket", Log{turn(0, 0).withUnits(2), turn(5, 5)}, false},
		"a turn that is already taken":               {"leaky bucket", Log{turn(0, 0).withUnits(2), turn(5, 2)}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := promises()[test.promise].CheckAdmitted(shuffled(test.log)); (err != nil) != test.over {
				t.Errorf("%s: CheckAdmitted(%+v) = %v, want an error: %t", test.promise, test.log, err, test.over)
			}
		})
	}
}

func TestCheckDenied_FindsUnjustifiedDenials(t *testing.T) {
	tests := map[string]struct {
		promise  string
		log      Log
		needless bool
	}{
		"in a full window":                      {"fixed window", Log{admitted(10), admitted(11), denied(19)}, false},
		"in the next window":                    {"fixed window", Log{admitted(10), admitted(11), denied(20)}, true},
		"before the window was full":            {"fixed window", Log{admitted(10), admitted(12), denied(11)}, true},
		"when it became full":                   {"fixed window", Log{admitted(10), admitted(12), denied(12)}, false},
		"possibly in the full window":           {"fixed window", Log{admitted(10), admitted(11), within(19, 21).asDenied()}, false},
		"a lost request may have filled it":     {"fixed window", Log{admitted(10), lost(5, 11), denied(15)}, false},
		"a lost request in another window":      {"fixed window", Log{admitted(10), lost(5, 9), denied(15)}, true},
		"more units than remain":                {"fixed window", Log{admitted(10), denied(15).withUnits(2)}, false},
		"units that remain":                     {"fixed window", Log{admitted(10), denied(15).withUnits(1)}, true},
		"before the first expires":              {"sliding log", Log{admitted(5), admitted(6), denied(14)}, false},
		"when the first expires":                {"sliding log", Log{admitted(5), admitted(6), denied(15)}, true},
		"possibly before the first expires":     {"sliding log", Log{admitted(5), within(5, 6), within(14, 16).asDenied()}, false},
		"while the weight is too high":          {"sliding counter", Log{admitted(18), admitted(19), denied(24)}, false},
		"when the weight is low enough":         {"sliding counter", Log{admitted(18), admitted(19), denied(25)}, true},
		"possibly while the weight is too high": {"sliding counter", Log{admitted(18), admitted(19), within(24, 26).asDenied()}, false},
		"an empty bucket":                       {"token bucket", Log{admitted(7), admitted(7), denied(11)}, false},
		"a bucket with a token":                 {"token bucket", Log{admitted(7), admitted(7), denied(12)}, true},
		"a bucket that was idle":                {"token bucket", Log{admitted(0), admitted(5), admitted(10), denied(50)}, true},
		"a lost request may have emptied it":    {"token bucket", Log{admitted(7), lost(0, 9), denied(11)}, false},
		"a full queue":                          {"leaky bucket", Log{turn(0, 0), turn(0, 5), denied(4)}, false},
		"a queue with a free place":             {"leaky bucket", Log{turn(0, 0), turn(0, 5), denied(5)}, true},
		"a delay with an empty queue":           {"leaky bucket", Log{turn(0, 2)}, true},
		"a delay longer than the queue":         {"leaky bucket", Log{turn(0, 0), turn(2, 4)}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := promises()[test.promise].CheckDenied(shuffled(test.log)); (err != nil) != test.needless {
				t.Errorf("%s: CheckDenied(%+v) = %v, want an error: %t", test.promise, test.log, err, test.needless)
			}
		})
	}
}

func TestMinCounted_IsABoundFromDenials(t *testing.T) {
	tests := map[string]struct {
		promise string
		log     Log
		least   int64
	}{
		"no denial":                              {"fixed window", Log{admitted(10)}, 0},
		"two windows with a denial of three":     {"fixed window", Log{denied(10), denied(25), admitted(35)}, 4},
		"a window with denials of several sizes": {"fixed window", Log{denied(10).withUnits(2), denied(11), denied(12).withUnits(2)}, 2},
		"a denial in one of two windows":         {"fixed window", Log{within(19, 20).asDenied()}, 0},
		"a denied request above the limit":       {"fixed window", Log{denied(10).withUnits(9)}, 0},
		"windows that do not overlap":            {"sliding log", Log{denied(9), denied(15), denied(19)}, 4},
		"windows that overlap":                   {"sliding log", Log{denied(10), denied(15), denied(19)}, 2},
		"a denial at a window's end":             {"sliding counter", Log{denied(19)}, 1},
		"denials at the ends of two windows":     {"sliding counter", Log{denied(19), denied(29)}, 2},
		"a denial at a window's beginning":       {"sliding counter", Log{denied(10)}, 0},
		"an empty bucket":                        {"token bucket", Log{denied(10)}, 2},
		"an empty bucket three units later":      {"token bucket", Log{denied(10), denied(15), denied(20), denied(25)}, 5},
		"a bucket without requests":              {"token bucket", Log{denied(10), denied(90)}, 3},
		"a request above the capacity":           {"token bucket", Log{denied(10).withUnits(9)}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if least := promises()[test.promise].MinCounted(shuffled(test.log)); least != test.least {
				t.Errorf("%s: MinCounted(%+v) = %d, want %d", test.promise, test.log, least, test.least)
			}
		})
	}
}

// The logs are those of limiters that follow each promise exactly, and of limiters that are off by one unit.
func TestPromise_ChecksLongRandomLogs(t *testing.T) {
	const limit, window, burst = 20, 1000, 5
	tests := map[string]struct {
		promise  Promise
		capacity int64
		level    func(counted Log, now int64) int64 // multiplied by the window
	}{
		"fixed window": {FixedWindow{limit, window}, limit, func(counted Log, now int64) int64 {
			return counted.certainlyWithin(now/window*window, now) * window
		}},
		"sliding log": {SlidingWindowLog{limit, window}, limit, func(counted Log, now int64) int64 {
			return counted.certainlyWithin(now-window+1, now) * window
		}},
		"sliding counter": {SlidingWindowCounter{limit, window}, limit, func(counted Log, now int64) int64 {
			start := now / window * window
			return counted.certainlyWithin(start, now)*window + counted.certainlyWithin(start-window, start-1)*(start+window-now)
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
				over, needless := test.promise.CheckAdmitted(log), test.promise.CheckDenied(log)
				if (over != nil) != (off > 0) || (needless != nil) != (off < 0) {
					t.Errorf("CheckAdmitted: %v; CheckDenied: %v", over, needless)
				}
				if units, _ := counted.Counted(); off == 0 && (units < test.promise.MinCounted(log) || test.promise.MinCounted(log) < 15*limit) {
					t.Errorf("%d units admitted, MinCounted = %d", units, test.promise.MinCounted(log))
				}
			})
		}
	}
}

// drained returns the level of a bucket, computed step by step.
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
