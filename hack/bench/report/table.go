package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Table has a title and rows of cells. The first row is the heading. The first column is aligned left; the others, numbers,
// are aligned right.
type Table struct {
	Title string
	Rows  [][]string
}

// Write writes an empty line and the table.
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

// Unmeasured is written for a missing figure.
const Unmeasured = "–"

// Decimals formats a number with n decimals.
func Decimals(n int, number float64) string {
	if math.IsNaN(number) {
		return Unmeasured
	}
	return fmt.Sprintf("%.*f", n, number)
}

// Times formats a ratio.
func Times(ratio float64) string {
	if math.IsNaN(ratio) {
		return Unmeasured
	}
	return fmt.Sprintf("%.2f×", ratio)
}
