package main

import (
	"fmt"
	"time"

	"github.com/weir-dev/weir/hack/bench/report"
)

// sample is what one turn has shown of one row.
type sample struct {
	requests              int
	elapsed               time.Duration
	p50, p99              time.Duration
	client, server, redis time.Duration // processor time
	cached                float64       // part of the decisions that were known
}

func (s sample) perSecond() float64 { return float64(s.requests) / s.elapsed.Seconds() }

// perMillion is the seconds of processor time that a million requests take.
func (s sample) perMillion(used time.Duration) float64 {
	return used.Seconds() / float64(s.requests) * 1e6
}

// processor is the seconds of it that a million requests take of all together. Beside a busy neighbour it says more than
// the throughput.
func (s sample) processor() float64 { return s.perMillion(s.client + s.server + s.redis) }

// results are the samples of every row, one a round.
type results map[string][]sample

func (r results) median(name string, figure func(sample) float64) float64 {
	return report.Median(figures(r[name], figure))
}

// ratio is the median of what name's figure is to another's in the same round.
func (r results) ratio(name, other string, figure func(sample) float64) float64 {
	return report.MedianRatio(figures(r[name], figure), figures(r[other], figure))
}

func figures(samples []sample, figure func(sample) float64) []float64 {
	figures := make([]float64, len(samples))
	for i, s := range samples {
		figures[i] = figure(s)
	}
	return figures
}

func (r results) table(contenders []contender) report.Table {
	rows := [][]string{{"", "/s", "÷ floor", "p50 ms", "p99 ms", "client", "server", "Redis", "all ÷ floor", "known"}}
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	for _, c := range contenders {
		known := fmt.Sprintf("%.0f %%", 100*r.median(c.name, func(s sample) float64 { return s.cached }))
		if c.name == c.floor {
			known = report.Unmeasured
		}
		rows = append(rows, []string{
			c.name,
			report.Decimals(0, r.median(c.name, sample.perSecond)),
			report.Times(r.ratio(c.name, c.floor, sample.perSecond)),
			report.Decimals(2, r.median(c.name, func(s sample) float64 { return milliseconds(s.p50) })),
			report.Decimals(2, r.median(c.name, func(s sample) float64 { return milliseconds(s.p99) })),
			report.Decimals(1, r.median(c.name, func(s sample) float64 { return s.perMillion(s.client) })),
			report.Decimals(1, r.median(c.name, func(s sample) float64 { return s.perMillion(s.server) })),
			report.Decimals(1, r.median(c.name, func(s sample) float64 { return s.perMillion(s.redis) })),
			report.Times(r.ratio(c.name, c.floor, sample.processor)),
			known,
		})
	}
	return report.Table{
		Title: "Requests a second, and seconds of processor time for a million; medians over the rounds, and of the rounds' ratios",
		Rows:  rows,
	}
}
