package rules

import (
	"strings"
	"unicode/utf8"
)

// NormalHeaders returns the headers of a request as expressions see them: each name in lower case, the lines of a repeated
// header joined to one value (see JoinHeader). It returns the names of the headers with several
// lines too, except for cookies.
func NormalHeaders(h map[string][]string) (headers map[string]string, repeated []string) {
	headers = make(map[string]string, len(h))
	length := 0
	for name := range h {
		length += len(name)
	}
	var names lowerNames
	names.built.Grow(length)
	for name, values := range h {
		name = names.lower(name)
		headers[name] = JoinHeader(name, values)
		if len(values) > 1 && name != "cookie" {
			repeated = append(repeated, name)
		}
	}
	return headers, repeated
}

// lowerNames has names in lower case. All names of a request share an allocation: almost every name in an http.Header has a capital.
type lowerNames struct{ built strings.Builder }

// lower is strings.ToLower.
func (b *lowerNames) lower(name string) string {
	start := b.built.Len()
	for i := range len(name) {
		c := name[i]
		if c >= utf8.RuneSelf {
			return strings.ToLower(name)
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b.built.WriteByte(c)
	}
	return b.built.String()[start:]
}

// Shorten shortens a text for an error message.
func Shorten(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
