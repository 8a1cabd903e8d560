package redisstore

import (
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
		"ring as list, most slots":          {list, ahead, "R" + packed(1_000_000, 1, 1, ahead) + packed(ahead), false},
		"ring as list, too many slots":      {list, ahead, "R" + packed(1_000_001, 1, 1, ahead) + packed(ahead), true},
		"ring, most slots":                  {ring, ahead, "R" + packed(1_000_000, 1, 1, ahead) + packed(ahead), false},
		"ring, too many slots":              {ring, ahead, "R" + packed(1_000_001, 1, 1, ahead) + packed(ahead), true},
		"ring, full":                        {ring, ahead, "R" + packed(2, 0, 2, ahead) + packed(ahead, ahead), false},
		"ring, last slot":                   {ring, ahead, "R" + packed(2, 1, 2, ahead) + packed(ahead, ahead), false},
		"ring, slot outside":                {ring, ahead, "R" + packed(2, 2, 2, ahead) + packed(ahead, ahead), true},
		"ring, more units than slots":       {ring, ahead, "R" + packed(2, 0, 3, ahead) + packed(ahead, ahead), true},
		"ring, no units":                    {ring, ahead, "R" + packed(2, 0, 0, ahead) + packed(ahead, ahead), true},
		"ring, a window ahead":              {ring, ahead - minute, "R" + packed(2, 1, 1, ahead) + packed(ahead), false},
		"ring, more than a window ahead":    {ring, ahead - minute - 1, "R" + packed(2, 1, 1, ahead) + packed(ahead), false},
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

// A ring whose slots contradict its header, in places that only the refund of a unit reads, keeps its value.
func TestRefund_ReportsARingWithImpossibleSlots(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	limit := corruptLimit(t, limiter.SlidingWindowLog, 1000)
	const now = ahead
	for name, test := range map[string]struct {
		value string
		at    limiter.Instant
		valid bool
	}{
		"valid":                             {"R" + packed(10, 4, 4, now) + packed(now-3, now-2, now-1, now), now - 2, true},
		"valid, the clock stepped back":     {"R" + packed(10, 4, 4, now+5) + packed(now-3, now-2, now-1, now+5), now - 2, true},
		"the last slot is after the newest": {"R" + packed(10, 4, 4, now) + packed(now-3, now-2, now-1, now+5), now - 2, false},
		"the search finds no slot":          {"R" + packed(10, 2, 5, now) + packed(now-1, now, 0, 0, 0, 0, 0, now-4, now-3), now - 4, false},
		"newer units have no slot":          {"R" + packed(10, 1, 6, now) + packed(now, 0, 0, 0, 0, now-5, now-4, now-3, now-2), now - 5, false},
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
