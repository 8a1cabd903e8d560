package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// table is rows of cells below a title. Its first row is the heading; its first column stands at the left, the others,
// numbers, at the right.
type table struct {
	title string
	rows  [][]string
}

func (t table) write(w io.Writer) error {
	width := 0
	for _, row := range t.rows {
		width = max(width, utf8.RuneCountInString(row[0]))
	}
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tabs, "\n%s\n", t.title)
	for _, row := range t.rows {
		fmt.Fprintf(tabs, "%-*s\t%s\t\n", width, row[0], strings.Join(row[1:], "\t"))
	}
	return tabs.Flush()
}

const unmeasured = "–"

// decimals writes a number with so many of them.
func decimals(n int, number float64) string {
	if math.IsNaN(number) {
		return unmeasured
	}
	return fmt.Sprintf("%.*f", n, number)
}

// times writes a ratio.
func times(ratio float64) string {
	if math.IsNaN(ratio) {
		return unmeasured
	}
	return fmt.Sprintf("%.2f×", ratio)
}
