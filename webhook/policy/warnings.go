package policy

import (
	"fmt"

	"github.com/weir-dev/weir/internal/compile/warning"
)

// kubectl prints warnings to the user. The API server requires that webhooks return few and short warnings.
const (
	warningLength = 120 // characters
	warningCount  = 8
)

// limitWarnings returns all warnings, or the first ones and the number of the others.
func limitWarnings(warnings []warning.Warning) (texts []string) {
	for i, w := range warnings {
		if i == warningCount-1 && len(warnings) > warningCount {
			return append(texts, fmt.Sprintf("and %d more warnings", len(warnings)-i))
		}
		texts = append(texts, truncate(w.String()))
	}
	return texts
}

// truncate shortens text to warningLength characters.
func truncate(text string) string {
	runes := []rune(text)
	if len(runes) <= warningLength {
		return text
	}
	return string(runes[:warningLength-1]) + "…"
}
