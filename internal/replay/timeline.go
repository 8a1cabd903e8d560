package replay

import (
	"time"

	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter"
)

// maxBuckets is the number of buckets of a series, at most.
const maxBuckets = 600

// widths are the lengths of buckets. Each is a multiple of the one before it, so that buckets can be joined.
func widths() []int64 {
	return []int64{1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600, 4 * 7 * 24 * 3600, 40 * 7 * 24 * 3600}
}

// timeline counts requests in buckets, in several columns. The buckets become longer as the time goes on, so that their number is bounded.
type timeline struct {
	columns [][]result.Cell
	width   int   // index of widths
	seconds int64 // of a bucket
	first   int64 // number of the first bucket since the epoch, in buckets
	bucket  int   // the current one
	until   int64 // the end of the current one, in seconds since the epoch
}

func newTimeline(columns int) *timeline {
	return &timeline{columns: make([][]result.Cell, columns), seconds: widths()[0], bucket: -1}
}

// advance makes the bucket of now the current one.
func (t *timeline) advance(now limiter.Instant) {
	seconds := int64(now / 1e6)
	if seconds < t.until {
		return
	}
	if t.bucket < 0 {
		t.first = seconds / t.seconds
	}
	for seconds/t.seconds-t.first >= maxBuckets && t.width+1 < len(widths()) {
		t.widen()
	}
	at := seconds / t.seconds
	t.bucket, t.until = int(min(at-t.first, maxBuckets-1)), (at+1)*t.seconds
	for i := range t.columns {
		for len(t.columns[i]) <= t.bucket {
			t.columns[i] = append(t.columns[i], result.Cell{})
		}
	}
}

// widen joins buckets to longer ones.
func (t *timeline) widen() {
	t.width++
	wider := widths()[t.width]
	factor := wider / t.seconds
	first := t.first / factor
	for c, column := range t.columns {
		var joined []result.Cell
		for i := range column {
			at := int((t.first+int64(i))/factor - first)
			for len(joined) <= at {
				joined = append(joined, result.Cell{})
			}
			joined[at].Requests += column[i].Requests
			joined[at].Denied += column[i].Denied
		}
		t.columns[c] = joined
	}
	t.first, t.seconds = first, wider
}

// count counts a request in the current bucket of a column.
func (t *timeline) count(column int, denied bool) { count(&t.columns[column][t.bucket], denied) }

func count(c *result.Cell, denied bool) {
	c.Requests++
	if denied {
		c.Denied++
	}
}

func (t *timeline) start() time.Time { return time.Unix(t.first*t.seconds, 0).UTC() }

// busiest finds the span of a length with the most requests.
type busiest struct {
	length       int64 // seconds
	number       int64 // of the current span since the epoch
	current      result.Cell
	best         result.Cell
	bestNumber   int64
	hasRequested bool
}

func (b *busiest) count(now limiter.Instant, denied bool) {
	if number := int64(now/1e6) / b.length; number != b.number || !b.hasRequested {
		b.end()
		b.number, b.current, b.hasRequested = number, result.Cell{}, true
	}
	count(&b.current, denied)
}

func (b *busiest) end() {
	if b.current.Requests > b.best.Requests {
		b.best, b.bestNumber = b.current, b.number
	}
}

// span returns the busiest span, nil without requests.
func (b *busiest) span() *result.Span {
	b.end()
	if b.best.Requests == 0 {
		return nil
	}
	return &result.Span{Start: time.Unix(b.bestNumber*b.length, 0).UTC(), Cell: b.best}
}
