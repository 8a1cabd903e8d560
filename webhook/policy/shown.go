package policy

import (
	"fmt"

	"github.com/weir-dev/weir/internal/compile"
)

// Warnings are shown to people as they type: short, as the API server asks of webhooks, and few.
const (
	warningLength = 120 // characters
	warningCount  = 8
)

// shown is all warnings, or the first and how many more there are.
func shown(warnings []compile.Warning) (texts []string) {
	for i, w := range warnings {
		if i == warningCount-1 && len(warnings) > warningCount {
			return append(texts, fmt.Sprintf("and %d more warnings", len(warnings)-i))
		}
		texts = append(texts, shortened(w.String()))
	}
	return texts
}

func shortened(text string) string {
	runes := []rune(text)
	if len(runes) <= warningLength {
		return text
	}
	return string(runes[:warningLength-1]) + "…"
}
