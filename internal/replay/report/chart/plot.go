package chart

import (
	"strings"
)

// Plot is a picture with two axes.
type Plot struct {
	Label string
	// Title is above the plot, left of the title of the Y axis.
	Title string
	X, Y  Axis
	// Series are drawn in their order.
	Series []Series
	Bars   []Bar
	// Marks are vertical lines with a text.
	Marks []Mark
	// Levels are horizontal lines with a text.
	Levels []Level
	// Bands show a text where a pointer rests.
	Bands []Band
	// Height in pixels, 220 by default.
	Height int
}

// Series is a line, or an area down to the axis.
type Series struct {
	Class  string // demand, deny, second or third
	Name   string // of the legend
	Points []Point
	Area   bool
	// Steps draws a horizontal line from each point to the next, for values that hold until the next point.
	Steps bool
	// Dots marks the points, for values between which the line is a guess.
	Dots bool
}

// Point is a value.
type Point struct{ X, Y float64 }

// Bar is a bar from the axis to a value.
type Bar struct {
	From, To, Value float64
	Over            bool // whether it is beyond what is allowed
	Title           string
}

// Mark is a vertical line.
type Mark struct {
	At    float64
	Text  string
	Other bool // a second kind of marks
}

// Level is a horizontal line.
type Level struct {
	At   float64
	Text string
}

// Band is a vertical part of the plot with a text.
type Band struct {
	From, To float64
	Title    string
}

// The sizes of plots, in pixels.
const (
	plotWidth  = 920
	plotHeight = 220
	left       = 62
	right      = 16
	top        = 34
	bottom     = 40
	titleGap   = 12 // between a title and what follows it
)

// canvas converts values to positions.
type canvas struct {
	chart *Chart
	plot  *Plot
	high  float64 // the position of the X axis
}

func (c *canvas) x(value float64) float64 { return left + c.plot.X.at(value)*(plotWidth-left-right) }
func (c *canvas) y(value float64) float64 { return c.high - c.plot.Y.at(value)*(c.high-top) }

// Draw draws the plot.
func (p *Plot) Draw() *Chart {
	height := p.Height
	if height == 0 {
		height = plotHeight
	}
	chart := &Chart{Width: plotWidth, Height: height, Label: p.Label}
	c := &canvas{chart, p, float64(height - bottom)}
	c.axes()
	for i := range p.Bars {
		c.bar(&p.Bars[i])
	}
	for i := range p.Series {
		c.series(&p.Series[i])
	}
	for _, b := range p.Bands {
		from, to := c.x(b.From), c.x(b.To)
		chart.rectangle("hit", from, top, to-from, c.high-top, b.Title)
	}
	for _, l := range p.Levels {
		y := c.y(l.At)
		chart.line("mark", left, y, plotWidth-right, y)
		chart.text("mark", "start", left+4, y-5, l.Text)
	}
	c.marks()
	c.legend()
	return chart
}

func (c *canvas) axes() {
	for _, tick := range c.plot.Y.Ticks {
		y := c.y(tick.Value)
		c.chart.line("grid", left, y, plotWidth-right, y)
		c.chart.text("", "end", left-8, y+4, tick.Label)
	}
	c.chart.line("axis", left, c.high, plotWidth-right, c.high)
	free := 0.0 // the position from which on a label fits
	for _, tick := range c.plot.X.Ticks {
		x := c.x(tick.Value)
		c.chart.line("axis", x, c.high, x, c.high+4)
		half := textWidth(tick.Label) / 2
		if x-half < free {
			continue
		}
		center := min(x, plotWidth-half)
		c.chart.text("", "middle", center, c.high+17, tick.Label)
		free = center + half + 10
	}
	if c.plot.X.Title != "" {
		c.chart.text("", "middle", (left+plotWidth-right)/2.0, c.high+34, c.plot.X.Title)
	}
	if c.plot.Title != "" {
		c.chart.text("strong", "start", 4, 14, c.plot.Title)
	}
	if c.plot.Y.Title != "" {
		c.chart.text("", "start", 4+textWidth(c.plot.Title)*boldWidth+titleGap*float64(min(len(c.plot.Title), 1)), 14, c.plot.Y.Title)
	}
}

// boldWidth is the width of a bold text relative to that of a regular one.
const boldWidth = 1.12

// textWidth estimates the width of a text in pixels.
func textWidth(text string) float64 { return 6.6 * float64(len([]rune(text))) }

func (c *canvas) bar(b *Bar) {
	const gap, least = 1, 2
	from, to := c.x(b.From)+gap, c.x(b.To)-gap
	if b.Value <= 0 || to <= from {
		return
	}
	class := "bar"
	if b.Over {
		class = "bar-over"
	}
	height := max(c.high-c.y(b.Value), least)
	c.chart.rectangle(class, from, c.high-height, to-from, height, b.Title)
}

func (c *canvas) series(s *Series) {
	if len(s.Points) == 0 {
		return
	}
	var path strings.Builder
	for i, point := range s.Points {
		x, y := Coordinate(c.x(point.X)).String(), Coordinate(c.y(point.Y)).String()
		switch {
		case i == 0:
			path.WriteString("M" + x + " " + y)
		case s.Steps:
			path.WriteString("H" + x + "V" + y)
		default:
			path.WriteString("L" + x + " " + y)
		}
	}
	if s.Area {
		base := Coordinate(c.high).String()
		first, last := Coordinate(c.x(s.Points[0].X)).String(), Coordinate(c.x(s.Points[len(s.Points)-1].X)).String()
		area := path.String() + "L" + last + " " + base + "L" + first + " " + base + "Z"
		c.chart.add(Element{Kind: Outline, Class: s.Class + "-fill", Path: area})
	}
	c.chart.add(Element{Kind: Outline, Class: s.Class, Path: path.String()})
	if s.Dots {
		for _, point := range s.Points {
			c.chart.add(Element{Kind: Dot, Class: s.Class, X: Coordinate(c.x(point.X)), Y: Coordinate(c.y(point.Y))})
		}
	}
}

// marks draws the marks. Their texts are on the right of their lines, or on the left where they would cross the next line or the border.
func (c *canvas) marks() {
	for i, m := range c.plot.Marks {
		class := "mark"
		if m.Other {
			class = "mark-other"
		}
		x, width := c.x(m.At), textWidth(m.Text)+8
		previous, next := float64(left), float64(plotWidth-right)
		if i > 0 {
			previous = c.x(c.plot.Marks[i-1].At)
		}
		if i+1 < len(c.plot.Marks) {
			next = c.x(c.plot.Marks[i+1].At)
		}
		anchor, start := "start", x+6
		if x+width > next && x-width > previous {
			anchor, start = "end", x-6
		}
		c.chart.line(class, x, top-4, x, c.high)
		c.chart.text(class, anchor, start, top+8, m.Text)
	}
}

// legend names the series at the top, from the right.
func (c *canvas) legend() {
	x := float64(plotWidth - right)
	for i := len(c.plot.Series) - 1; i >= 0; i-- {
		if s := &c.plot.Series[i]; s.Name != "" {
			c.chart.text(s.Class, "end", x, 14, s.Name)
			x -= textWidth(s.Name) * boldWidth
			c.chart.line(s.Class, x-30, 10, x-10, 10)
			x -= 54
		}
	}
}
