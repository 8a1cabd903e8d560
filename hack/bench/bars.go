package main

import (
	"fmt"
	"math"

	"github.com/weir-dev/weir/hack/bench/report"
	"github.com/weir-dev/weir/limiter"
)

// bar is what Weir is held to.
type bar struct {
	name   string
	figure float64 // NaN when it was not measured
	wanted wanted
}

// wanted is a bound of a figure.
type wanted struct {
	bound    float64
	relation relation
	unit     string
}

type relation string

const (
	atLeast relation = "≥"
	atMost  relation = "≤"
	above   relation = ">"
)

func (b bar) met() bool {
	switch b.wanted.relation {
	case atLeast:
		return b.figure >= b.wanted.bound
	case atMost:
		return b.figure <= b.wanted.bound
	default:
		return b.figure > b.wanted.bound
	}
}

func (b bar) verdict() string {
	switch {
	case math.IsNaN(b.figure):
		return "not measured"
	case b.met():
		return "met"
	default:
		return "NOT met"
	}
}

// bars are all.
func (m measured) bars() []bar {
	var bars []bar
	add := func(name string, figure float64, relation relation, bound float64, unit string) {
		bars = append(bars, bar{name: name, figure: figure, wanted: wanted{bound: bound, relation: relation, unit: unit}})
	}
	each := func(add func(name, short string)) {
		for _, algorithm := range algorithms() {
			add(weirPrefix+string(algorithm), string(algorithm))
		}
	}
	for _, of := range []struct {
		callers int
		bound   float64
	}{{64, 2}, {512, 2.5}} {
		each(func(name, short string) {
			zset := m.throughput.ratio(of.callers, name, zsetGoRedis, throughput)
			rueidis := m.throughput.ratio(of.callers, name, zsetRueidis, throughput)
			add(fmt.Sprintf("%d callers, %s, throughput beside %s", of.callers, short, zsetGoRedis), zset, atLeast, of.bound, "×")
			add(fmt.Sprintf("%d callers, %s, throughput beside %s", of.callers, short, zsetRueidis), rueidis, above, 1, "×")
		})
	}
	add("512 callers, three policies, throughput beside one of "+zsetGoRedis,
		m.throughput.ratio(512, threeOfWeir, zsetGoRedis, throughput), atLeast, 1.3, "×")
	each(func(name, short string) {
		add("1 caller, "+short+", latency beside "+redisRate, m.throughput.ratio(1, name, redisRate, latency), atMost, 1.15, "×")
	})
	each(func(name, short string) {
		if short != string(limiter.SlidingWindowLog) {
			add("memory of a key, "+short+", beside "+zsetGoRedis, of(m.memory.key, name)/of(m.memory.key, zsetGoRedis), atMost, 0.8, "×")
		}
	})
	add("memory of a unit, SlidingWindowLog", of(m.memory.unit, weirPrefix+string(limiter.SlidingWindowLog)), atMost, 12, " bytes")
	each(func(name, short string) {
		add("512 callers, "+short+", client's processor time for a million", m.throughput.median(512, name, clientCPU), atMost, 5, " s")
	})
	each(func(name, short string) {
		add("allocations a decision beyond go-redis's, "+short, beyondGoRedis(m.allocations, name), atMost, 10, "")
	})
	return bars
}

// barTable tells of bars.
func barTable(bars []bar) report.Table {
	rows := [][]string{{"bar", "wanted", "figure", ""}}
	for _, b := range bars {
		figure := report.Decimals(2, b.figure)
		if figure != report.Unmeasured {
			figure += b.wanted.unit
		}
		rows = append(rows, []string{b.name, fmt.Sprintf("%s %g%s", b.wanted.relation, b.wanted.bound, b.wanted.unit), figure, b.verdict()})
	}
	return report.Table{Title: "Bars", Rows: rows}
}

// notMet counts bars that are not known to be met.
func notMet(bars []bar) int {
	n := 0
	for _, b := range bars {
		if !b.met() {
			n++
		}
	}
	return n
}
