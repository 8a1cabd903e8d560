package capacity

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Plot writes a picture in SVG: above the latency, below what is decided and what is rejected.
func (c *Curve) Plot(w io.Writer) error {
	latency, answers := plot.New(), plot.New()
	latency.Title.Text = "Latency and answers of a limiter under load"
	latency.Y.Label.Text = "latency (ms)"
	latency.Y.Scale, latency.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	answers.X.Label.Text = fmt.Sprintf("offered load (%% of the capacity, %.0f decisions a second)", c.Capacity)
	answers.Y.Label.Text = "answers (% of the capacity)"
	answers.Y.Min = 0
	for _, line := range []struct {
		in    *plot.Plot
		name  string
		color color.RGBA
		of    func(Point) float64
	}{
		{latency, "p50", color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}, func(p Point) float64 { return milliseconds(p.P50) }},
		{latency, "p99", color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}, func(p Point) float64 { return milliseconds(p.P99) }},
		{answers, "decided", color.RGBA{R: 0x2c, G: 0xa0, B: 0x2c, A: 0xff}, func(p Point) float64 { return p.Decided }},
		{answers, "rejected", color.RGBA{R: 0x7f, G: 0x7f, B: 0x7f, A: 0xff}, func(p Point) float64 { return p.Rejected }},
	} {
		points := make(plotter.XYs, 0, len(c.Points))
		for _, p := range c.Points {
			if line.in == latency && line.of(p) <= 0 {
				continue // nothing was decided
			}
			points = append(points, plotter.XY{X: p.Offered, Y: line.of(p)})
		}
		drawn, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("plot %s: %w", line.name, err)
		}
		drawn.Color, drawn.Width, dots.Color, dots.Shape = line.color, vg.Points(1.5), line.color, draw.CircleGlyph{}
		line.in.Add(drawn, dots)
		line.in.Legend.Add(line.name, drawn, dots)
	}
	for _, p := range []*plot.Plot{latency, answers} {
		p.Add(plotter.NewGrid())
		p.X.Min, p.X.Max = 0, 300
		p.Legend.Top, p.Legend.Left = true, true
	}
	const width, height = 7 * vg.Inch, 6 * vg.Inch
	canvas := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(12), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(12)}
	rows := [][]*plot.Plot{{latency}, {answers}}
	for i, at := range plot.Align(rows, tiles, draw.New(canvas)) {
		rows[i][0].Draw(at[0])
	}
	_, err := canvas.WriteTo(w)
	return err
}
