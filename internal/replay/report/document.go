package report

import (
	"bufio"
	"fmt"
	"html/template"
	"io"

	"github.com/weir-dev/weir/internal/replay/report/chart"
)

// Document is a report of pictures and tables, for example of simulations.
type Document struct {
	Title, Lead string
	Generator   string // the command that wrote it
	Sections    []*Section
}

// Section is a picture with its explanation and its numbers.
type Section struct {
	Title, Text string
	Picture     *chart.Chart
	// Heads and Rows are the table. The first column is text, the others are numbers.
	Heads []string
	Rows  [][]string
}

// Column returns the class of a column.
func (*Section) Column(i int) string { return (&table{Left: 1}).Column(i) }

// Style returns the style sheet of the page.
func (*Document) Style() template.CSS { return template.CSS(style()) } //nolint:gosec // embedded

// Policy returns the content security policy of the page.
func (*Document) Policy() string { return policyOf(style()) }

// WriteDocument writes a document.
func WriteDocument(w io.Writer, d *Document) error {
	t, err := template.New("page").Parse(chart.Template + pageText)
	if err != nil {
		return fmt.Errorf("the template of the report: %w", err)
	}
	buffered := bufio.NewWriter(w)
	if err := t.ExecuteTemplate(buffered, "document", d); err != nil {
		return err
	}
	return buffered.Flush()
}
