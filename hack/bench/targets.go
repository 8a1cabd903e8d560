package main

import (
	"fmt"
	"math"

	"github.com/weir-dev/weir/hack/bench/report"
	"github.com/weir-dev/weir/limiter"
)

// target is a bound that Weir must meet.
type target struct {
	name   string
	figure float64 // NaN if it was not measured
	want   bound
}

// bound is the bound of a figure.
type bound struct {
	value    float64
	relation relation
	unit     string
}

type relation string

const (
	atLeast relation = "≥"
	atMost  relation = "≤"
	above   relation = ">"
)

func (b target) met() bool {
	switch b.want.relation {
	case atLeast:
		return b.figure >= b.want.value
	case atMost:
		return b.figure <= b.want.value
	default:
		return b.figure > b.want.value
	}
}

func (b target) verdict() string {
	switch {
	case math.IsNaN(b.figure):
		return "not measured"
	case b.met():
		return "met"
	default:
		return "NOT met"
	}
}

// targets returns all targets.
func (m measured) targets() []target {
	var targets []target
	add := func(name string, figure float64, relation relation, value float64, unit string) {
		targets = append(targets, target{name: name, figure: figure, want: bound{value: value, relation: relation, unit: unit}})
	}
	each := func(add func(name, short string)) {
		for _, algorithm := range algorithms() {
			add(weirPrefix+string(algorithm), string(algorithm))
		}
	}
	for _, of := range []struct {
		callers int
		value   float64
	}{{64, 2}, {512, 2.5}} {
		each(func(name, short string) {
			zset := m.throughput.ratio(of.callers, name, zsetGoRedis, throughput)
			rueidis := m.throughput.ratio(of.callers, name, zsetRueidis, throughput)
			add(fmt.Sprintf("%d callers, %s, throughput compared with %s", of.callers, short, zsetGoRedis), zset, atLeast, of.value, "×")
			add(fmt.Sprintf("%d callers, %s, throughput compared with %s", of.callers, short, zsetRueidis), rueidis, above, 1, "×")
		})
	}
	add("512 callers, three policies, throughput compared with one of "+zsetGoRedis,
		m.throughput.ratio(512, threeOfWeir, zsetGoRedis, throughput), atLeast, 1.3, "×")
	each(func(name, short string) {
		add("1 caller, "+short+", latency compared with "+redisRate, m.throughput.ratio(1, name, redisRate, latency), atMost, 1.15, "×")
	})
	each(func(name, short string) {
		if short != string(limiter.SlidingWindowLog) {
			add("memory of a key, "+short+", compared with "+zsetGoRedis, of(m.memory.key, name)/of(m.memory.key, zsetGoRedis), atMost, 0.8, "×")
		}
	})
	add("memory of a unit, SlidingWindowLog", of(m.memory.unit, weirPrefix+string(limiter.SlidingWindowLog)), atMost, 12, " bytes")
	each(func(name, short string) {
		add("512 callers, "+short+", CPU time of the client for a million decisions", m.throughput.median(512, name, clientCPU), atMost, 5, " s")
	})
	each(func(name, short string) {
		add("allocations per decision beyond those of go-redis, "+short, beyondGoRedis(m.allocations, name), atMost, 10, "")
	})
	return targets
}

// targetTable returns the table of targets.
func targetTable(targets []target) report.Table {
	rows := [][]string{{"target", "bound", "figure", ""}}
	for _, b := range targets {
		figure := report.Decimals(2, b.figure)
		if figure != report.Unmeasured {
			figure += b.want.unit
		}
		rows = append(rows, []string{b.name, fmt.Sprintf("%s %g%s", b.want.relation, b.want.value, b.want.unit), figure, b.verdict()})
	}
	return report.Table{Title: "Targets", Rows: rows}
}

// countNotMet returns the number of targets that are not met or not measured.
func countNotMet(targets []target) int {
	n := 0
	for _, b := range targets {
		if !b.met() {
			n++
		}
	}
	return n
}
