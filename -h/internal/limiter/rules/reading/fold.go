package reading

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// FoldPath returns text in the form that is equal for texts that differ only in case, as strings.EqualFold and the flag i of regular expressions
// compare them. Servers fold ASCII only (Express, nginx) or all of Unicode (ASP.NET): the latter includes the former.
func FoldPath(text string) string {
	for i := range len(text) {
		if c := text[i]; 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf {
			return foldFrom(text, i)
		}
	}
	return text
}

func foldFrom(text string, offset int) string {
	var b strings.Builder
	b.Grow(len(text))
	b.WriteString(text[:offset])
	for offset < len(text) {
		r, size := utf8.DecodeRuneInString(text[offset:])
		if r == utf8.RuneError && size == 1 {
			b.WriteByte(text[offset]) // not UTF-8
		} else {
			b.WriteRune(foldRune(r))
		}
		offset += size
	}
	return b.String()
}

// foldRune returns the lower case of the first of all characters that are equal to r.
func foldRune(r rune) rune {
	if r >= utf8.RuneSelf {
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			if next < r {
				return foldRune(next)
			}
		}
	}
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}
