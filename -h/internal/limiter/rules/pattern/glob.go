package pattern

import "strings"

// glob is a pattern in which every "*" stands for any text, also the empty text: the texts between the stars. A pattern without a star is one
// text.
type glob []string

func newGlob(pattern string) glob { return strings.Split(pattern, "*") }

// matches compares the whole text. It takes the first occurrence of each part, so it never goes back, and its time is bounded by the length
// of the text times the length of the pattern.
func (g glob) matches(text string) bool {
	last := len(g) - 1
	if last == 0 {
		return text == g[0]
	}
	text, ok := strings.CutPrefix(text, g[0])
	if !ok {
		return false
	}
	for _, part := range g[1:last] {
		if _, text, ok = strings.Cut(text, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(text, g[last])
}

// GlobMatches reports whether the pattern of a [rules.DescriptorMatch] matches text.
func GlobMatches(pattern, text string) bool { return newGlob(pattern).matches(text) }
