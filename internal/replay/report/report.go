package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/weir-dev/weir/internal/replay/report/chart"
	"github.com/weir-dev/weir/internal/replay/result"
)

//go:embed report.tmpl
var pageText string

//go:embed report.css
var pageStyle string

// Write writes the report of a result.
func Write(w io.Writer, r *result.Result) error {
	t, err := template.New("page").Parse(chart.Template + pageText)
	if err != nil {
		return fmt.Errorf("the template of the report: %w", err)
	}
	buffered := bufio.NewWriter(w)
	if err := t.Execute(buffered, newPage(r)); err != nil {
		return err
	}
	return buffered.Flush()
}

// style returns the style sheet of the page.
func style() string { return "\n" + chart.Style + pageStyle }

// policyOf returns the content security policy of the page. It allows nothing but its own style sheet.
func policyOf(css string) string {
	sum := sha256.Sum256([]byte(css))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}
