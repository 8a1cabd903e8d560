package main

import (
	"fmt"
	"time"

	"github.com/weir-dev/weir/hack/bench/report"
)

// sample is the result of one turn of one row.
type sample struct {
	requests              int
	elapsed               time.Duration
	p50, p99              time.Duration
	client, server, redis time.Duration // processor time
	cached                float64       // fraction of decisions from the denial cache
}

func (s sample) perSecond() float64 { return float64(s.requests) / s.elapsed.Seconds() }

// perMillion returns the processor time of a million requests, in seconds.
func (s sample) perMillion(used time.Duration) float64 {
	return used.Seconds() / float64(s.requests) * 1e6
}

// processor returns the processor time of all processes for a million requests, in seconds. On a busy machine it is more reliable than
// the throughput.
func (s sample) processor() float64 { return s.perMillion(s.client + s.server + s.redis) }

// results are the samples of each row, one per round.
type results map[string][]sample

func (r results) median(name string, figure func(sample) float64) float64 {
	return report.Median(figures(r[name], figure))
}

// ratio returns the median of the ratios of two rows in the same round.
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
	rows := [][]string{{"", "/s", "÷ baseline", "p50 ms", "p99 ms", "client", "server", "Redis", "all ÷ baseline", "known"}}
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	for _, c := range contenders {
		known := fmt.Sprintf("%.0f %%", 100*r.median(c.name, func(s sample) float64 { return s.cached }))
		if c.name == c.baseline {
			known = report.Unmeasured
		}
		rows = append(rows, []string{
			c.name,
			report.Decimals(0, r.median(c.name, sample.perSecond)),
			report.Times(r.ratio(c.name, c.baseline, sample.perSecond)),
			report.Decimals(2, r.median(c.name, func(s sample) float64 { return milliseconds(s.p50) })),
			report.Decimals(2, r.median(c.name, func(s sample) float64 { return milliseconds(s.p99) })),
			report.Decimals(1, r.median(c.name, func(s sample) float64 { return s.perMillion(s.client) })),
			report.Decimals(1, r.median(c.name, func(s sample) float64 { return s.perMillion(s.server) })),
			report.Decimals(1, r.median(c.name, func(s sample) float64 { return s.perMillion(s.redis) })),
			report.Times(r.ratio(c.name, c.baseline, sample.processor)),
			known,
		})
	}
	return report.Table{
		Title: "Requests per second, and processor seconds per million requests; medians over the rounds, ratios within a round",
		Rows:  rows,
	}
}
