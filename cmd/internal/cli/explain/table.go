package explain

import (
	"io"
	"text/tabwriter"

	"github.com/weir-dev/weir/internal/terminal"
)

// TableWriter writes a table. The caller calls Flush at the end.
type TableWriter struct{ *tabwriter.Writer }

// NewTable returns a table with these columns.
func NewTable(w io.Writer, columns ...string) TableWriter {
	t := TableWriter{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.Row(columns...)
	return t
}

// Row writes a row. An empty cell becomes "-".
func (t TableWriter) Row(cells ...string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		if shown[i] = cell; cell == "" {
			shown[i] = "-"
		}
	}
	terminal.Row(t.Writer, shown...)
}
