package chart

import "fmt"

// Heat is a map of cells in rows and columns.
type Heat struct {
	Label   string
	Columns []string
	Rows    []HeatRow
}

// HeatRow is a row of a Heat.
type HeatRow struct {
	Name  string // shortened where it does not fit
	Cells []HeatCell
}

// HeatCell is a cell. Level is from 0, which is empty, and -1, which is something that is not hot, to 5.
type HeatCell struct {
	Level int
	Title string
}

// The sizes of heat maps, in pixels.
const (
	maxHeatLeft = 260 // of the names
	heatHeight  = 26
	heatTop     = 8
	heatBottom  = 24
)

// Draw draws the map.
func (h *Heat) Draw() *Chart {
	c := &Chart{Width: plotWidth, Height: heatTop + heatHeight*len(h.Rows) + heatBottom, Label: h.Label}
	names := float64(left)
	for i := range h.Rows {
		names = min(max(names, textWidth(h.Rows[i].Name)*boldWidth+12), maxHeatLeft)
	}
	width := (plotWidth - names - right) / float64(max(len(h.Columns), 1))
	for i := range h.Rows {
		row := &h.Rows[i]
		y := float64(heatTop + i*heatHeight)
		c.add(Element{
			Kind: Label, Class: "strong", Anchor: "end", X: Coordinate(names - 10), Y: Coordinate(y + heatHeight/2 + 4),
			Text: fit(row.Name, names-10), Title: row.Name,
		})
		for k, cell := range row.Cells {
			class := fmt.Sprintf("cell heat-%d", cell.Level)
			switch {
			case cell.Level < 0:
				class = "cell cell-1"
			case cell.Level == 0:
				class = "cell cell-0"
			}
			c.rectangle(class, names+float64(k)*width, y, width, heatHeight, cell.Title)
		}
	}
	every := 1
	for textWidth("00:00")*1.3 > width*float64(every) {
		every++
	}
	for k, name := range h.Columns {
		if k%every == 0 {
			c.text("", "start", names+float64(k)*width+1, float64(heatTop+len(h.Rows)*heatHeight+16), name)
		}
	}
	return c
}

// fit returns the end of a text that fits into a width: names of policies differ at their ends.
func fit(text string, width float64) string {
	runes := []rune(text)
	for len(runes) > 1 && textWidth(string(runes))*boldWidth > width {
		runes = runes[1:]
	}
	if len(runes) < len([]rune(text)) {
		return "…" + string(runes[1:])
	}
	return text
}
