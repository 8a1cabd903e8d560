package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"

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

// WriteFile writes the report of a result to a file. A file that exists is replaced only by a complete report.
func WriteFile(path string, r *result.Result) error {
	return replace(path, func(w io.Writer) error { return Write(w, r) })
}

// replace writes a file, which it replaces only if everything was written.
func replace(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the report was not written to %s: %w", path, err)
		}
	}()
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe or a device cannot be replaced
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".weir-report-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Chmod(0o644), file.Sync())
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// style returns the style sheet of the page.
func style() string { return "\n" + chart.Style + pageStyle }

// policyOf returns the content security policy of the page. It allows nothing but its own style sheet.
func policyOf(css string) string {
	sum := sha256.Sum256([]byte(css))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}
