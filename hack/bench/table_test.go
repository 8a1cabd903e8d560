package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/hack/bench/report"
)

func render(t *testing.T, of report.Table) string {
	t.Helper()
	var b strings.Builder
	if err := of.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTables_ShowWhatWasMeasured(t *testing.T) {
	weir := contenders()[0]
	zset := contender{name: zsetGoRedis}
	rate := contender{name: redisRate}
	second := func(decisions int64, latency time.Duration) []sample {
		return []sample{{
			decisions: decisions, elapsed: time.Second, latency: latency, used: usage{client: time.Second / 10, server: time.Second / 5},
		}}
	}
	m := measured{
		throughput: results{
			1:  {weir.name: second(20_000, 50*time.Microsecond), zset.name: second(10_000, 0), rate.name: second(1, 100*time.Microsecond)},
			64: {weir.name: second(100_000, 0)},
		},
		allocations: map[string]allocation{bare: {16, 800}, weir.name: {20, 1000}},
		memory: memory{
			key: map[string]float64{weir.name: 100, zset.name: 200}, unit: map[string]float64{zset.name: 126.8},
		},
	}
	var got strings.Builder
	for _, of := range m.tables([]contender{weir, zset}, []int{1, 64}) {
		got.WriteString(render(t, of))
	}
	const want = `
Decisions per second: medians over the rounds, and medians of the ratios in each round to zset/go-redis
  callers           1: /s  ÷ zset  µs per call  ÷ redis_rate  64: /s  ÷ zset
  weir/FixedWindow  20000   2.00×         50.0         0.50×  100000       –
  zset/go-redis     10000   1.00×          0.0         0.00×       –       –

Seconds of CPU time for a million decisions, medians
  callers           1: client  server  64: client  server
  weir/FixedWindow       5.00   10.00        1.00    2.00
  zset/go-redis         10.00   20.00           –       –

Allocations per decision, in the client
  one caller        objects  bytes  objects beyond bare EVALSHA
  bare EVALSHA         16.0    800                          0.0
  weir/FixedWindow     20.0   1000                          4.0

Memory: per key with one unit, over 100000 keys with the same names; per admitted unit
  bytes in Redis    per key  ÷ zset  per unit of 1000
  weir/FixedWindow    100.0   0.50×                 –
  zset/go-redis       200.0   1.00×             126.8
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
	if tables := (measured{}).tables([]contender{weir}, []int{1}); len(tables) != 0 {
		t.Errorf("%d tables without measurements, want 0", len(tables))
	}
}
