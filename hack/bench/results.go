package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/hack/bench/report"
)

// results has the samples of every contender, by the number of callers; one sample per round.
type results map[int]map[string][]sample

func (r results) add(callers int, name string, s sample) {
	if r[callers] == nil {
		r[callers] = map[string][]sample{}
	}
	r[callers][name] = append(r[callers][name], s)
}

// median returns the median of a figure over the samples of a contender; NaN if there are no samples.
func (r results) median(callers int, name string, figure func(sample) float64) float64 {
	return report.Median(figures(r[callers][name], figure))
}

// ratio returns the median of the ratios of a figure of two contenders in the same round; NaN if one is missing.
func (r results) ratio(callers int, name, other string, figure func(sample) float64) float64 {
	return report.MedianRatio(figures(r[callers][name], figure), figures(r[callers][other], figure))
}

func figures(samples []sample, figure func(sample) float64) []float64 {
	figures := make([]float64, len(samples))
	for i, s := range samples {
		figures[i] = figure(s)
	}
	return figures
}

// denials reports the contenders that denied more than 1 % of the requests, because a denial costs less than an admission.
func (r results) denials() string {
	var b strings.Builder
	for _, callers := range slices.Sorted(maps.Keys(r)) {
		for _, name := range slices.Sorted(maps.Keys(r[callers])) {
			if share := r.median(callers, name, denied); share > 0.01 {
				fmt.Fprintf(&b, "With %d callers %s denied %.0f %% of its requests.\n", callers, name, 100*share)
			}
		}
	}
	return b.String()
}

// The figures of a sample.
func throughput(s sample) float64 { return s.perSecond() }
func latency(s sample) float64    { return float64(s.latency.Nanoseconds()) / 1e3 } // µs
func clientCPU(s sample) float64  { return s.perMillion(s.used.client) }
func serverCPU(s sample) float64  { return s.perMillion(s.used.server) }

func denied(s sample) float64 { return float64(s.denied) / float64(s.decisions) }
