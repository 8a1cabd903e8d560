package redisstore

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// A time that is a multiple of a minute, and a minute, in microseconds.
const (
	minutes = 30_000_000
	ahead   = minutes * 60_000_000
	minute  = 60_000_000
)

// reports stores value under limit, and returns the keys that a call at now (us) reports as corrupt, and after "ahead:" those that it reports
// as too far ahead.
func reports(t *testing.T, client *redisclient.Client, limit limiter.Limit, value string, now int64, call func(*Store) error) (corrupt []string) {
	t.Helper()
	store := NewStore(client, patience, WithClock(func() time.Time { return time.UnixMicro(now) }),
		WithCorruptCounters(func(keys []string) { corrupt = append(corrupt, keys...) }),
		WithCountersAhead(func(keys []string) { corrupt = append(append(corrupt, "ahead:"), keys...) }))
	if err := client.Redis().Set(t.Context(), "key", value, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if err := call(store); err != nil {
		t.Fatalf("%s, value %q: %v", limitName(limit), value, err)
	}
	return corrupt
}

func corruptLimit(t *testing.T, algorithm limiter.Algorithm, units int64) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(algorithm, units, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// The largest numbers that a script can have written are valid, the next ones are not.
func TestSpend_TreatsImpossibleNumbersAsCorrupt(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	fixed, sliding := corruptLimit(t, limiter.FixedWindow, 10), corruptLimit(t, limiter.SlidingWindowCounter, 10)
	list, ring := corruptLimit(t, limiter.SlidingWindowLog, 10), corruptLimit(t, limiter.SlidingWindowLog, 1000)
	bucket, queue := corruptLimit(t, limiter.TokenBucket, 10), corruptLimit(t, limiter.LeakyBucket, 10)
	const most = 1_000_000_000
	for name, test := range map[string]struct {
		limit   limiter.Limit
		now     int64
		value   string
		corrupt bool
	}{
		"window, most units":                {fixed, ahead, packed(minutes, most, 0), false},
		"window, too many units":            {fixed, ahead, packed(minutes, most+1, 0), true},
		"window, too many before":           {fixed, ahead, packed(minutes, 0, most+1), true},
		"window, a window ahead":            {fixed, ahead - minute, packed(minutes, 1, 0), false},
		"window, more than a window ahead":  {fixed, ahead - minute - 1, packed(minutes, 1, 0), false},
		"counter, most units":               {sliding, ahead, packed(minutes, most, most), false},
		"counter, too many units":           {sliding, ahead, packed(minutes, most+1, 0), true},
		"counter, too many before":          {sliding, ahead, packed(minutes, 0, most+1), true},
		"counter, as one number":            {sliding, ahead, "7864320000000", false}, // minutes, no units, radix 256
		"counter, unknown radix":            {sliding, ahead, "7864320000003", true},
		"counter, a window ahead":           {sliding, ahead - minute, packed(minutes, 1, 0), false},
		"counter, more than a window ahead": {sliding, ahead - minute - 1, packed(minutes, 1, 0), false},
		"list, a window ahead":              {list, ahead - minute, "L" + packed(ahead), false},
		"list, more than a window ahead":    {list, ahead - minute - 1, "L" + packed(ahead), false},
		"list, a byte more":                 {list, ahead, "L" + packed(ahead) + "x", true},
		"small limit, ring":                 {list, ahead, ring1(ahead, 1, 0, 1) + entry(ahead, 0), false},
		"ring":                              {ring, ahead, ring1(ahead, 1, 0, 1) + entry(ahead, 0), false},
		"ring, cut header":                  {ring, ahead, ring1(ahead, 1, 0, 1)[:35], true},
		"ring, no pieces":                   {ring, ahead, "R" + packed(ahead, 1, 1, 0, 0) + entry(ahead, 0), true},
		"ring, four pieces":                 {ring, ahead, "V" + packed(ahead, 1, 1, 0, 0) + entry(ahead, 0), true},
		"ring, no entries":                  {ring, ahead, ring1(ahead, 1, 0, 0) + entry(ahead, 0), true},
		"ring, lacks the slot":              {ring, ahead, ring1(ahead, 1, 1, 1) + entry(ahead, 0), true},
		"ring, last slot":                   {ring, ahead, ring1(ahead, 2, 1, 1) + entry(ahead, 0) + entry(ahead, 1), false},
		"ring, slot outside":                {ring, ahead, ring1(ahead, 1, 1<<21, 1) + entry(ahead, 0), true},
		"ring, most units":                  {ring, ahead, ring1(ahead, 1_000_000, 0, 1) + entry(ahead, 0), false},
		"ring, too many units":              {ring, ahead, ring1(ahead, 1_000_001, 0, 1) + entry(ahead, 0), true},
		"ring, sum outside":                 {ring, ahead, ring1(ahead, 1<<20, 0, 1) + entry(ahead, 1<<20-1), true},
		"ring, sums around their end":       {ring, ahead, ring1(ahead, 1, 0, 1) + entry(ahead, 1<<20-1), false},
		"ring, more entries than units":     {ring, ahead, ring1(ahead, 1, 0, 2) + entry(ahead-1, 0) + entry(ahead, 0), true},
		"ring, a window ahead":              {ring, ahead - minute, ring1(ahead, 1, 0, 1) + entry(ahead, 0), false},
		"ring, more than a window ahead":    {ring, ahead - minute - 1, ring1(ahead, 1, 0, 1) + entry(ahead, 0), false},
		"bucket, a window ahead":            {bucket, ahead - minute, packed(ahead, 1, 0, ahead+1), false},
		"bucket, more than a window ahead":  {bucket, ahead - minute - 1, packed(ahead, 1, 0, ahead+1), false},
		"bucket, the largest part":          {bucket, ahead, packed(ahead, 1, 59_999_999, ahead+1), false},
		"bucket, too large a part":          {bucket, ahead, packed(ahead, 1, 60_000_000, ahead+1), true},
		"bucket, empty, whatever it had":    {bucket, ahead, packed(ahead, 1, 60_000_000, ahead), false},
		"queue, a byte more":                {queue, ahead, packed(ahead, 1, 0, ahead+1) + "x", true},
	} {
		var want []string
		if test.corrupt {
			want = []string{"key"}
		}
		wantSpent := want
		if strings.HasSuffix(name, "more than a window ahead") {
			wantSpent = []string{"ahead:", "key"}
		}
		charges := []limiter.Charge{{Key: "key", Limit: test.limit, Cost: 1}}
		got := reports(t, client, test.limit, test.value, test.now, func(s *Store) error {
			_, err := s.Spend(t.Context(), charges)
			return err
		})
		if !slices.Equal(got, wantSpent) {
			t.Errorf("%s: a spend reports %q, want %q", name, got, wantSpent)
		}
		got = reports(t, client, test.limit, test.value, test.now, func(s *Store) error {
			return s.Refund(t.Context(), []limiter.Refund{{Key: "key", Limit: test.limit, Cost: 1, At: limiter.Instant(test.now)}})
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: a refund reports %q, want %q", name, got, want)
		}
	}
}

// ring1 is the header of a ring in one piece, see sliding_window_log_ring.lua.
func ring1(newest, total, start, length int64) string {
	return "S" + packed(newest, total, start<<21+length, 0, 0)
}

// entry is an entry of a ring.
func entry(at, before int64) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(at>>12))
	return string(binary.BigEndian.AppendUint32(b, uint32(at&(1<<12-1)<<20+before)))
}

// A ring whose slots contradict its header, in places that only the refund of a unit reads, keeps its value.
func TestRefund_ReportsARingWithImpossibleSlots(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	limit := corruptLimit(t, limiter.SlidingWindowLog, 1000)
	const now = ahead
	entries := entry(now-3, 0) + entry(now-2, 1) + entry(now-1, 2) + entry(now, 3)
	for name, test := range map[string]struct {
		value string
		at    limiter.Instant
		valid bool
	}{
		"valid":                         {ring1(now, 4, 0, 4) + entries, now - 2, true},
		"valid, the clock stepped back": {ring1(now+5, 4, 0, 4) + entries[:24] + entry(now+5, 3), now - 2, true},
		"newer entries have no slot":    {ring1(now, 6, 0, 6) + entries, now - 2, false},
		"the entry before has no slot":  {"T" + packed(now, 3, 9<<21+2, 0<<21+1, 0) + entry(now, 2), now, false},
		"a run of more units than all":  {ring1(now, 4, 0, 4) + entries[:16] + entry(now-1, 900_000) + entries[24:], now - 2, false},
	} {
		got := reports(t, client, limit, test.value, now, func(s *Store) error {
			return s.Refund(t.Context(), []limiter.Refund{{Key: "key", Limit: limit, Cost: 1, At: test.at}})
		})
		if (len(got) == 0) != test.valid {
			t.Errorf("%s: reports %q", name, got)
		}
		if value := client.Redis().Get(t.Context(), "key").Val(); (value != test.value) != test.valid {
			t.Errorf("%s: the value became %q", name, value)
		}
	}
}
