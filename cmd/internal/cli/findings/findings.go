// Package findings writes what a command finds in files, in the formats that people and continuous integration read.
package findings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/terminal"
)

// The formats of a Report.
const (
	Text   = "text"
	JSON   = "json"
	SARIF  = "sarif"  // 2.1.0
	JUnit  = "junit"  // XML
	GitHub = "github" // workflow commands, which become annotations
	GitLab = "gitlab" // a code quality report
)

// Formats returns the formats of a Report.
func Formats() []string { return []string{Text, JSON, SARIF, JUnit, GitHub, GitLab} }

// Report is what a command finds.
type Report struct {
	// Version of the program.
	Version string
	// Findings are sorted by file and line.
	Findings []Finding
	// Objects are what was validated, sorted by file and line.
	Objects []Object
	// Strict makes warnings failures.
	Strict bool
	// Summary is one line.
	Summary string
	// Counts are numbers of what was read, by name.
	Counts map[string]int
}

// Finding is a problem of a file.
type Finding struct {
	Rule     string            `json:"rule"`
	Severity lintrule.Severity `json:"severity"`
	File     string            `json:"file"`
	Line     int               `json:"line"`             // from 1
	Column   int               `json:"column,omitempty"` // from 1
	Policy   string            `json:"policy,omitempty"` // "namespace/name" or "_cluster/name"
	Field    string            `json:"field,omitempty"`
	Message  string            `json:"message"`
	URL      string            `json:"url"` // of the documentation of the rule
	// Suppressed is the reason for which the finding does not count, "" if it counts.
	Suppressed string `json:"suppressed,omitempty"`
}

// Object is a validated object.
type Object struct {
	Name string // "shop/tenant-daily"
	File string
	Line int
}

// Failed reports whether the report has a finding because of which the command fails.
func (r *Report) Failed() bool {
	for i := range r.Findings {
		if r.fails(&r.Findings[i]) {
			return true
		}
	}
	return false
}

func (r *Report) fails(f *Finding) bool {
	return f.Suppressed == "" && (f.Severity == lintrule.Error || r.Strict && f.Severity == lintrule.Warning)
}

// counted returns the findings that are not suppressed.
func (r *Report) counted() (list []*Finding) {
	for i := range r.Findings {
		if r.Findings[i].Suppressed == "" {
			list = append(list, &r.Findings[i])
		}
	}
	return list
}

// Text returns the place, the policy, the field, the message and the rule of a finding as one line, without the severity.
func (f *Finding) Text() string {
	return terminal.Line(fmt.Sprintf("%s:%d: %s [%s]", f.File, f.Line, f.about(), f.Rule))
}

// about returns the policy, the field and the message.
func (f *Finding) about() string {
	parts := []string{}
	for _, part := range []string{f.Policy, f.Field, strings.ReplaceAll(f.Message, "\n", " ")} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// MaxPrinted is the number of findings of each severity that a report in text has. Their number is in the summary.
const MaxPrinted = 1000

// Write writes the report in a format.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case JSON:
		return r.writeJSON(w)
	case SARIF:
		return r.writeSARIF(w)
	case JUnit:
		return r.writeJUnit(w)
	case GitHub:
		return r.writeGitHub(w)
	case GitLab:
		return r.writeGitLab(w)
	default:
		r.WriteText(w, w)
		return nil
	}
}

// WriteText writes errors to one writer, and warnings, notes and the summary to another.
func (r *Report) WriteText(errors, others io.Writer) {
	printed := map[lintrule.Severity]int{}
	for _, f := range r.counted() {
		if printed[f.Severity]++; printed[f.Severity] > MaxPrinted {
			continue
		}
		if f.Severity == lintrule.Error {
			terminal.Println(errors, f.Text())
			continue
		}
		terminal.Println(others, string(f.Severity)+": "+f.Text())
	}
	for _, severity := range []lintrule.Severity{lintrule.Error, lintrule.Warning, lintrule.Note} {
		more := printed[severity] - MaxPrinted
		switch {
		case more <= 0:
		case severity == lintrule.Error:
			terminal.Println(errors, fmt.Sprintf("and %d more", more))
		default:
			terminal.Println(others, fmt.Sprintf("%s: and %d more", severity, more))
		}
	}
	terminal.Println(others, r.Summary)
}

func (r *Report) writeJSON(w io.Writer) error {
	found := r.Findings
	if found == nil {
		found = []Finding{}
	}
	return encode(w, map[string]any{"findings": found, "counts": r.Counts, "failed": r.Failed()})
}

func encode(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// relative returns the name of a file as code hosts need it: relative to the current directory, with slashes.
func relative(file string) string {
	if file == "-" {
		return "stdin"
	}
	if here, err := os.Getwd(); err == nil {
		if at, err := filepath.Abs(file); err == nil {
			if inside, err := filepath.Rel(here, at); err == nil && filepath.IsLocal(inside) {
				file = inside
			}
		}
	}
	return filepath.ToSlash(file)
}

// fingerprints returns a stable and unique text for each finding. It does not depend on the line, so that an edit above a finding keeps it.
func fingerprints(findings []*Finding) []string {
	seen, texts := map[string]int{}, make([]string, len(findings))
	for i, f := range findings {
		key := strings.Join([]string{f.Rule, relative(f.File), f.Policy, f.Field, f.Message}, "\x00")
		seen[key]++
		hash := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, seen[key]))
		texts[i] = hex.EncodeToString(hash[:16])
	}
	return texts
}
