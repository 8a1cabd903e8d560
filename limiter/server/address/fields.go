package address

import (
	"iter"
	"slices"
	"strings"
)

// fromRight yields the entries of the lines of the field from the end: the last line first, and in a line the last entry first. It yields ""
// for an invalid entry.
func (f Field) fromRight(lines []string) iter.Seq[string] {
	read := xForwardedFor
	if f == Forwarded {
		read = forwarded
	}
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			if !read(line, yield) {
				return
			}
		}
	}
}

// xForwardedFor yields the entries of a line. It skips empty entries, as in all lists of HTTP.
func xForwardedFor(line string, yield func(string) bool) bool {
	for rest := line; rest != ""; {
		comma := strings.LastIndexByte(rest, ',')
		entry := strings.Trim(rest[comma+1:], " \t")
		rest = rest[:max(comma, 0)]
		if entry != "" && !yield(entry) {
			return false
		}
	}
	return true
}

// forwarded yields the for= of each element of a line. It reads from the right because the part from the client is on the left:
// read from the left, an unclosed quote of the client would hide the entries of the proxies.
func forwarded(line string, yield func(string) bool) bool {
	for rest := line; rest != ""; {
		comma := lastComma(rest)
		element := strings.Trim(rest[comma+1:], " \t")
		rest = rest[:max(comma, 0)]
		if element != "" && !yield(forOf(element)) {
			return false
		}
	}
	return true
}

// lastComma returns the index of the last comma outside quotes, -1 if there is no comma. If a quote to the right of it was never opened,
// it returns -1, too: forOf rejects such an element.
func lastComma(text string) int {
	for index := len(text) - 1; index >= 0; index-- {
		switch text[index] {
		case ',':
			return index
		case '"':
			index = openingQuote(text[:index])
		}
	}
	return -1
}

// openingQuote returns the index of the last quote without a backslash before it, -1 if there is no such quote. An opening quote follows an
// equals sign, so a backslash before a quote always belongs to a quoted value, or the element is malformed.
func openingQuote(text string) int {
	quote := strings.LastIndexByte(text, '"')
	for quote > 0 && text[quote-1] == '\\' {
		quote = strings.LastIndexByte(text[:quote], '"')
	}
	return quote
}

// forOf returns the for= of an element such as for="[2001:db8::1]:4711";proto=https. It returns "" if the element has no for=, has two,
// or is malformed.
func forOf(element string) string {
	var node string
	for rest := element; rest != ""; {
		name, remainder, found := strings.Cut(rest, "=")
		if !found || strings.Contains(name, `"`) {
			return ""
		}
		var value string
		if value, rest, found = pairValue(remainder); !found {
			return ""
		}
		if !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		if node != "" || value == "" {
			return ""
		}
		node = value
	}
	return node
}

// pairValue reads a value, which is a token or a quoted string, and the semicolon after it.
func pairValue(text string) (value, rest string, found bool) {
	if !strings.HasPrefix(text, `"`) {
		value, rest, _ = strings.Cut(text, ";")
		return strings.Trim(value, " \t"), rest, !strings.Contains(value, `"`)
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			rest = strings.TrimLeft(text[i+1:], " \t")
			if rest != "" && rest[0] != ';' {
				return "", "", false
			}
			return b.String(), strings.TrimPrefix(rest, ";"), true
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}
