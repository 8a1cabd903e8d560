// Package chart draws pictures as SVG: lines and areas over time, bars, markers, and heat maps. The pictures need no script and no network. Their
// colors are classes, which the page that contains them defines, or [Standalone].
package chart

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
)

// Chart is a picture of elements.
type Chart struct {
	Width, Height int
	// Label describes the picture for readers who do not see it.
	Label    string
	Elements []Element
	// Panels are pictures inside of this one, one below the other.
	Panels []Panel
}

// Panel is a picture inside of another one.
type Panel struct {
	Y int // its top, in pixels
	*Chart
}

// Stack returns a picture with several ones, one below the other.
func Stack(label string, charts ...*Chart) *Chart {
	stack := &Chart{Label: label}
	for _, c := range charts {
		stack.Panels = append(stack.Panels, Panel{stack.Height, c})
		stack.Width, stack.Height = max(stack.Width, c.Width), stack.Height+c.Height
	}
	return stack
}

// Element is one element of a picture. The fields that a kind does not need are zero.
type Element struct {
	Kind  Kind
	Class string
	// X, Y, X2 and Y2 are the position and the end of a line, or the position and the size of a rectangle.
	X, Y, X2, Y2 Coordinate
	Path         string
	Text         string
	Anchor       string // of a text: start, middle or end
	Title        string // shown where a pointer rests
}

// Kind is the kind of an element.
type Kind string

// The kinds of elements.
const (
	Rectangle Kind = "rect"
	Segment   Kind = "line"
	Outline   Kind = "path"
	Label     Kind = "text"
	Dot       Kind = "circle"
)

// Coordinate is a length in pixels.
type Coordinate float64

// String returns the coordinate with one decimal at most.
func (c Coordinate) String() string {
	return strconv.FormatFloat(math.Round(float64(c)*10)/10, 'f', -1, 64)
}

// Template is the text of the template "chart", which draws a Chart.
//
//go:embed chart.tmpl
var Template string

// Style is the style sheet of the classes, in light and dark colors.
//
//go:embed chart.css
var Style string

// Standalone writes a picture as an SVG file.
func Standalone(w io.Writer, c *Chart) error {
	t, err := template.New("").Parse(Template)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, "chart", c); err != nil {
		return err
	}
	svg := strings.TrimSpace(b.String())
	start := strings.Index(svg, ">") + 1
	_, err = io.WriteString(w, strings.Replace(svg[:start], "<svg ", `<svg xmlns="http://www.w3.org/2000/svg" `, 1)+"\n<style>\n"+Style+"</style>\n"+
		`<rect class="paper" x="0" y="0" width="100%" height="100%"/>`+svg[start:]+"\n")
	return err
}

func (c *Chart) add(e Element) { c.Elements = append(c.Elements, e) }

// line adds a line.
func (c *Chart) line(class string, x, y, x2, y2 float64) {
	c.add(Element{Kind: Segment, Class: class, X: Coordinate(x), Y: Coordinate(y), X2: Coordinate(x2), Y2: Coordinate(y2)})
}

// rectangle adds a rectangle with a tooltip.
func (c *Chart) rectangle(class string, x, y, width, height float64, title string) {
	c.add(Element{Kind: Rectangle, Class: class, X: Coordinate(x), Y: Coordinate(y), X2: Coordinate(width), Y2: Coordinate(height), Title: title})
}

// text adds a text.
func (c *Chart) text(class, anchor string, x, y float64, text string) {
	c.add(Element{Kind: Label, Class: class, Anchor: anchor, X: Coordinate(x), Y: Coordinate(y), Text: text})
}
