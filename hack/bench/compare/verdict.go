package main

import (
	"fmt"
	"math"
	"os"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"github.com/weir-dev/weir/hack/bench/report"
)

// alpha is the probability below which a difference is taken for real. A comparison has some 30 figures, so the usual 0.05 would report a
// difference in most comparisons of equal revisions.
const alpha = 0.01

// figure is a column of numbers of a load.
type figure struct {
	unit   string // as Go benchmarks name it
	higher bool   // is better
	digits int
	least  float64 // difference that counts
	of     func(*sample) float64
}

func figures() []figure {
	perDecision := func(s *sample, nanoseconds int64) float64 { return float64(nanoseconds) / 1e3 / float64(s.Decided()) }
	return []figure{
		{"decisions/s", true, 0, 0, func(s *sample) float64 { return s.PerSecond() }},
		{"limiter-µs/op", false, 1, 0.2, func(s *sample) float64 { return perDecision(s, s.limiter.Nanoseconds()) }},
		{"redis-µs/op", false, 1, 0.2, func(s *sample) float64 { return perDecision(s, s.redis.Nanoseconds()) }},
		{"p99-ms", false, 2, 0.1, func(s *sample) float64 { return float64(s.Quantile(0.99).Microseconds()) / 1e3 }},
	}
}

// verdict is a row of the table.
type verdict struct {
	load       string
	figure     figure
	base, head float64 // medians
	change     float64 // percent
	p          float64
	outcome    outcome
}

type outcome string

const (
	isBetter outcome = "better"
	isWorse  outcome = "WORSE"
	isSame   outcome = "~"
)

func (r results) verdicts(loads []load, tolerance float64) []verdict {
	var all []verdict
	for _, l := range loads {
		for _, f := range figures() {
			all = append(all, compare(l.name, f, r[l.name], tolerance))
		}
	}
	return all
}

func compare(name string, f figure, samples *[2][]sample, tolerance float64) verdict {
	thresholds := &benchmath.Thresholds{CompareAlpha: alpha}
	var both [2]*benchmath.Sample
	for side := range both {
		values := make([]float64, len(samples[side]))
		for i := range values {
			values[i] = f.of(&samples[side][i])
		}
		both[side] = benchmath.NewSample(values, thresholds)
	}
	v := verdict{
		load: name, figure: f, base: report.Median(both[base].Values), head: report.Median(both[head].Values),
		p: benchmath.AssumeNothing.Compare(both[base], both[head]).P, outcome: isSame,
	}
	v.change = 100 * (v.head/v.base - 1)
	if v.p < alpha && math.Abs(v.change) >= tolerance && math.Abs(v.head-v.base) >= f.least {
		if v.outcome = isWorse; v.change > 0 == f.higher {
			v.outcome = isBetter
		}
	}
	return v
}

func table(verdicts []verdict) report.Table {
	rows := [][]string{{"load", "figure", "base", "head", "change", "p", ""}}
	for _, v := range verdicts {
		change := "~"
		if v.outcome != isSame {
			change = fmt.Sprintf("%+.1f %%", v.change)
		}
		rows = append(rows, []string{
			v.load, v.figure.unit, report.Decimals(v.figure.digits, v.base), report.Decimals(v.figure.digits, v.head), change,
			report.Decimals(3, v.p), strings.TrimPrefix(string(v.outcome), string(isSame)),
		})
	}
	return report.Table{Title: "Medians over the rounds; p by the Mann-Whitney U test", Rows: rows}
}

func count(verdicts []verdict, of outcome) int {
	n := 0
	for _, v := range verdicts {
		if v.outcome == of {
			n++
		}
	}
	return n
}

// writeRaw writes the figures of each revision to a file, as benchstat reads them.
func (r results) writeRaw(path string, sides [2]side) error {
	for i, side := range sides {
		var b strings.Builder
		w := benchfmt.NewWriter(&b)
		for _, l := range loads() {
			if r[l.name] == nil {
				continue
			}
			for _, s := range r[l.name][i] {
				name := strings.NewReplacer(" ", "_", ",", "").Replace(l.name)
				result := &benchfmt.Result{Name: benchfmt.Name("RLS/" + name), Iters: s.Decided()}
				for _, f := range figures() {
					result.Values = append(result.Values, benchfmt.Value{Value: f.of(&s), Unit: f.unit})
				}
				if err := w.Write(result); err != nil {
					return err
				}
			}
		}
		if err := os.WriteFile(path+"."+side.name, []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
