package celexpr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
)

// maxIssues is the maximum number of errors in one message. Later errors usually follow from the first.
const maxIssues = 3

// compileError joins the errors of CEL in one line: "1:9: undefined field 'pth' …; 2:1: …".
func (l *language) compileError(issues *cel.Issues) error {
	var found []string
	for i, e := range issues.Errors() {
		if i == maxIssues {
			found = append(found, fmt.Sprintf("and %d more", len(issues.Errors())-i))
			break
		}
		line, column := max(e.Location.Line(), 1), max(e.Location.Column(), 0)+1 // an error of the whole expression has no position
		found = append(found, fmt.Sprintf("%d:%d: %s", line, column, l.readable(e.Message)))
	}
	return errors.New(strings.Join(found, "; "))
}

// readable removes details of the parser from a CEL message, and adds what to write instead.
func (l *language) readable(message string) string {
	message = strings.TrimSuffix(message, " (in container '')")
	message = strings.ReplaceAll(message, "mismatched input '<EOF>'", "the expression ends too early")
	message = strings.ReplaceAll(message, "'<EOF>'", "the end")
	if syntax, ok := strings.CutPrefix(message, "Syntax error: "); ok {
		syntax, _, _ = strings.Cut(syntax, " expecting {")
		return "syntax error: " + syntax
	}
	if name, ok := strings.CutPrefix(message, "undeclared reference to '"); ok {
		name = strings.TrimSuffix(name, "'")
		if _, ok := l.objects[requestName].byName[name]; ok {
			return message + "; use request." + name
		}
	}
	if strings.HasPrefix(message, "undefined field") {
		return message + "; " + l.fields
	}
	return message
}
