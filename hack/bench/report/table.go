package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Table is rows of cells below a title. Its first row is the heading; its first column stands at the left, the others,
// numbers, at the right.
type Table struct {
	Title string
	Rows  [][]string
}

// Write writes the table below an empty line.
func (t Table) Write(w io.Writer) error {
	width := 0
	for _, row := range t.Rows {
		width = max(width, utf8.RuneCountInString(row[0]))
	}
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tabs, "\n%s\n", t.Title)
	for _, row := range t.Rows {
		fmt.Fprintf(tabs, "%-*s\t%s\t\n", width, row[0], strings.Join(row[1:], "\t"))
	}
	return tabs.Flush()
}

// Unmeasured stands for a figure that there is none of.
const Unmeasured = "–"

// Decimals writes a number with so many of them.
func Decimals(n int, number float64) string {
	if math.IsNaN(number) {
		return Unmeasured
	}
	return fmt.Sprintf("%.*f", n, number)
}

// Times writes a ratio.
func Times(ratio float64) string {
	if math.IsNaN(ratio) {
		return Unmeasured
	}
	return fmt.Sprintf("%.2f×", ratio)
}
