package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// The lines of a page that enclose the generated text.
const (
	begin = "<!-- tested: begin; written by make compatibility -->"
	end   = "<!-- tested: end -->"
)

// format formats a table for each group. It contains no date and no duration, so that the same results give the same text.
func format(groups []group) string {
	var b strings.Builder
	for _, g := range groups {
		head := []string{g.name, "from"}
		for _, c := range g.columns {
			head = append(head, c.name)
		}
		b.WriteString(row(head) + "\n" + row(slices.Repeat([]string{"---"}, len(head))) + "\n")
		for _, r := range g.results {
			b.WriteString(row(r.cells()) + "\n")
		}
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}

func row(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }

func (r result) cells() []string {
	cells := []string{r.version, r.server.source}
	for _, failed := range r.failed {
		cell := "passed"
		if len(failed) > 0 {
			cell = "failed: " + strings.Join(failed, ", ")
		}
		cells = append(cells, cell)
	}
	if r.server.lacks != "" {
		cells[0] += " (without " + r.server.lacks + ")"
	}
	return cells
}

// splice replaces the text between the marks of a page.
func splice(page []byte, text string) ([]byte, error) {
	before, rest, hasBegin := bytes.Cut(page, []byte(begin))
	_, after, hasEnd := bytes.Cut(rest, []byte(end))
	if !hasBegin || !hasEnd {
		return nil, errors.New("the page must contain the lines " + begin + " and " + end)
	}
	return slices.Concat(before, []byte(begin+"\n\n"+text+"\n\n"+end), after), nil
}
