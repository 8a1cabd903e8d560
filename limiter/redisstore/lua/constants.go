package lua

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	// constantLine is a line of Lua that declares constants: their names have capitals only.
	constantLine = regexp.MustCompile(`^local ([A-Z][A-Z_0-9]*(?:, [A-Z][A-Z_0-9]*)*) = (.+?)(?: -- .*)?$`)
	// literal is a number, a string, a boolean, or an expression of whole numbers.
	literal = regexp.MustCompile(`^(?:[-+*() 0-9]+|'[^']*'|true|false)$`)
	// word is a name, or a string or a comment, in which nothing is replaced.
	word = regexp.MustCompile(`--.*|'[^']*'|[A-Za-z_][A-Za-z_0-9]*`)
)

// inlineConstants replaces the constants of a script by their values. Each run of a script executes all of it: a function that uses a local
// outside of it costs as many instructions as a small command, for each such local.
func inlineConstants(script string) string {
	values := constantValues{}
	lines := strings.Split(script, "\n")
	kept := lines[:0]
	for _, line := range lines {
		hasName := !strings.HasPrefix(line, "--") && strings.ContainsFunc(line, unicode.IsUpper)
		if !hasName { // as most lines: the expressions below take a hundred times as long
			kept = append(kept, line)
		} else if !values.declare(line) {
			kept = append(kept, values.replaceIn(line))
		}
	}
	return strings.Join(kept, "\n")
}

// constantValues are the values of constants, by name.
type constantValues map[string]string

func (c constantValues) replaceIn(code string) string {
	return word.ReplaceAllStringFunc(code, func(w string) string {
		if value, is := c[w]; is {
			return value
		}
		return w
	})
}

// declare adds the constants that a line declares. It reports whether the line does this, and nothing else.
func (c constantValues) declare(line string) bool {
	declared := constantLine.FindStringSubmatch(line)
	if declared == nil {
		return false
	}
	names, texts := strings.Split(declared[1], ", "), strings.Split(c.replaceIn(declared[2]), ", ")
	if len(names) != len(texts) || slices.ContainsFunc(texts, func(text string) bool { return !literal.MatchString(text) }) {
		return false
	}
	for i, text := range texts {
		if text[0] != '\'' && strings.ContainsAny(text, "-+*") {
			text = "(" + text + ")"
		}
		c[names[i]] = text
	}
	return true
}
