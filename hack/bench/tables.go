package main

import (
	"fmt"
	"math"

	"github.com/weir-dev/weir/hack/bench/report"
)

// measured has all results.
type measured struct {
	throughput  results
	allocations map[string]allocation
	memory      memory
}

// tables returns the tables of the parts that were measured.
func (m measured) tables(contenders []contender, callers []int) []report.Table {
	var all []report.Table
	if m.throughput != nil {
		all = append(all, m.throughputTable(contenders, callers), m.processorTable(contenders, callers))
	}
	if m.allocations != nil {
		all = append(all, m.allocationTable(contenders))
	}
	if m.memory.key != nil {
		all = append(all, m.memoryTable(contenders))
	}
	return all
}

func (m measured) throughputTable(contenders []contender, callers []int) report.Table {
	heading := []string{"callers"}
	for _, n := range callers {
		heading = append(heading, fmt.Sprintf("%d: /s", n), "÷ zset")
		if n == 1 {
			heading = append(heading, "µs per call", "÷ redis_rate")
		}
	}
	rows := [][]string{heading}
	for _, c := range contenders {
		row := []string{c.name}
		for _, n := range callers {
			row = append(row,
				report.Decimals(0, m.throughput.median(n, c.name, throughput)), report.Times(m.throughput.ratio(n, c.name, zsetGoRedis, throughput)))
			if n == 1 {
				row = append(row,
					report.Decimals(1, m.throughput.median(n, c.name, latency)), report.Times(m.throughput.ratio(n, c.name, redisRate, latency)))
			}
		}
		rows = append(rows, row)
	}
	return report.Table{Title: "Decisions per second: medians over the rounds, and medians of the ratios in each round to " + zsetGoRedis, Rows: rows}
}

func (m measured) processorTable(contenders []contender, callers []int) report.Table {
	heading := []string{"callers"}
	for _, n := range callers {
		heading = append(heading, fmt.Sprintf("%d: client", n), "server")
	}
	rows := [][]string{heading}
	for _, c := range contenders {
		row := []string{c.name}
		for _, n := range callers {
			row = append(row,
				report.Decimals(2, m.throughput.median(n, c.name, clientCPU)), report.Decimals(2, m.throughput.median(n, c.name, serverCPU)))
		}
		rows = append(rows, row)
	}
	return report.Table{Title: "Seconds of CPU time for a million decisions, medians", Rows: rows}
}

func (m measured) allocationTable(contenders []contender) report.Table {
	rows := [][]string{{"one caller", "objects", "bytes", "objects beyond " + bare}}
	for _, c := range allocated(contenders) {
		if of, found := m.allocations[c.name]; found {
			rows = append(rows, []string{
				c.name, report.Decimals(1, of.objects), report.Decimals(0, of.bytes), report.Decimals(1, beyondGoRedis(m.allocations, c.name)),
			})
		}
	}
	return report.Table{Title: "Allocations per decision, in the client", Rows: rows}
}

func (m measured) memoryTable(contenders []contender) report.Table {
	rows := [][]string{{"bytes in Redis", "per key", "÷ zset", fmt.Sprintf("per unit of %d", loggedUnits)}}
	for _, c := range contenders {
		if key := of(m.memory.key, c.name); !math.IsNaN(key) {
			rows = append(rows, []string{
				c.name, report.Decimals(1, key), report.Times(key / of(m.memory.key, zsetGoRedis)), report.Decimals(1, of(m.memory.unit, c.name)),
			})
		}
	}
	return report.Table{Title: fmt.Sprintf("Memory: per key with one unit, over %d keys with the same names; per admitted unit", memoryKeys), Rows: rows}
}

// of returns the figure of a contender; NaN if it was not measured.
func of(figures map[string]float64, name string) float64 {
	if figure, found := figures[name]; found {
		return figure
	}
	return math.NaN()
}
