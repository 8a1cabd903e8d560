package policyfile

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/terminal"
)

// Problem is one reason why a document, or a policy in it, is not enforced.
type Problem struct {
	// Rule is the id of a rule of package lintrule.
	Rule string
	File string
	// Line is the line of the field, or of the nearest enclosing field if the field is absent. The first line is 1.
	Line int
	// Column is the column of the field, from 1. It is 0 if it is unknown.
	Column int
	// Policy is "namespace/name" or "_cluster/name", or empty if the document is not a policy.
	Policy string
	// Field is a path such as "spec.match.http.paths[0].value", or empty if the problem concerns the whole document.
	Field   string
	Message string
}

// The maximum sizes of the texts of a Problem, in bytes. Longer ones come from invalid names and values.
const (
	maxPolicy  = 320 // a namespace has at most 63 bytes, and a name 253
	maxField   = 512
	maxMessage = 1024
)

// newProblem returns a Problem, with long texts shortened.
func newProblem(rule, file string, line int, policy, field, message string) Problem {
	return Problem{
		Rule: rule, File: file, Line: line, Policy: terminal.Shorten(policy, maxPolicy), Field: terminal.Shorten(field, maxField),
		Message: terminal.Shorten(message, maxMessage),
	}
}

// String returns "policies.yaml:12: shop/tenant-daily: spec.limit: message".
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: ", p.File, p.Line)
	for _, part := range []string{p.Policy, p.Field} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(strings.ReplaceAll(p.Message, "\n", " "))
	return terminal.Line(b.String())
}

// Skipped is a document that is not a policy.
type Skipped struct {
	File             string
	Line             int
	APIVersion, Kind string
}
