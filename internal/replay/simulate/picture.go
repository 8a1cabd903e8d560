package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/replay/report/chart"
)

// Picture draws what a scenario has shown: the requests and the admitted ones of each variant, and the most requests of one identifier that each variant
// has admitted within a window.
func (r *Result) Picture() *chart.Chart {
	largest := int64(0)
	for k := range r.Variants {
		v := &r.Variants[k]
		largest = max(largest, slices.Max(v.Offered), slices.Max(v.AdmittedOver))
	}
	var panels []*chart.Chart
	for k := range r.Variants {
		panels = append(panels, r.requests(&r.Variants[k], largest))
	}
	return chart.Stack(r.Title, append(panels, r.window())...)
}

func classOf(i int) string { return []string{"deny", "second", "third"}[i%maxVariants] }

// steps returns the points of a series, and the time after the last bucket.
func (r *Result) steps(values []int64) (points []chart.Point) {
	for i, n := range values {
		points = append(points, chart.Point{X: float64(i) * r.BucketSeconds, Y: float64(n)})
	}
	return append(points, chart.Point{X: r.DurationSeconds, Y: float64(values[len(values)-1])})
}

func (r *Result) axis() chart.Axis {
	return chart.Elapsed(time.Duration(r.DurationSeconds * float64(time.Second)))
}

// requests draws the requests and the admitted ones of a variant. largest is the largest number of all variants.
func (r *Result) requests(v *Outcome, largest int64) *chart.Chart {
	plot := chart.Plot{
		Title: v.Name, Label: fmt.Sprintf("%s, %s: %s of %s requests are admitted", r.Title, v.Name, chart.Count(v.Admitted), chart.Count(v.Requests)), Height: 170,
		X: r.axis(), Y: chart.Counts(float64(largest), "requests per "+shortDuration(r.BucketSeconds)), Marks: r.marks(),
		Series: []chart.Series{
			{Class: "demand", Name: "requests", Area: true, Steps: true, Points: r.steps(v.Offered)},
			{Class: "deny", Name: "admitted", Steps: true, Points: r.steps(v.AdmittedOver)},
		},
	}
	return plot.Draw()
}

// window draws the most admitted requests of one identifier within a window.
func (r *Result) window() *chart.Chart {
	plot := chart.Plot{X: r.axis(), Marks: r.marks(), Label: r.Title + ": the most requests of one identifier that are admitted within the window"}
	largest := int64(0)
	for k := range r.Variants {
		v := &r.Variants[k]
		plot.Series = append(plot.Series, chart.Series{Class: classOf(k), Name: v.Name, Steps: true, Points: r.steps(v.InWindow)})
		largest = max(largest, v.Limit, v.MostInWindow)
		if !slices.ContainsFunc(plot.Levels, func(l chart.Level) bool { return l.At == float64(v.Limit) }) {
			plot.Levels = append(plot.Levels, chart.Level{At: float64(v.Limit), Text: "limit " + chart.Count(v.Limit)})
		}
	}
	plot.X.Title = "time since the beginning"
	plot.Y = chart.Counts(float64(largest)*1.05, "most admitted of one identifier within "+shortDuration(float64(r.Variants[0].WindowSeconds)))
	return plot.Draw()
}

func (r *Result) marks() (marks []chart.Mark) {
	for _, o := range r.Outages {
		marks = append(marks, chart.Mark{At: o.From, Text: "Redis unavailable", Other: true}, chart.Mark{At: o.To, Text: "available", Other: true})
	}
	return marks
}

func shortDuration(seconds float64) string {
	text := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
	if strings.HasSuffix(text, "m0s") {
		return strings.TrimSuffix(text, "0s")
	}
	return text
}
