package rules

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// NormalHeaders returns the headers of a request as expressions see them: each name in lower case, the lines of a repeated
// header joined to one value (see JoinHeader).
func NormalHeaders(h map[string][]string) map[string]string {
	headers := make(map[string]string, len(h))
	length := 0
	for name := range h {
		length += len(name)
	}
	var names lowerNames
	names.built.Grow(length)
	for name, values := range h {
		name = names.lower(name)
		headers[name] = JoinHeader(name, values)
	}
	return headers
}

// lowerNames has names in lower case. All names of a request share an allocation: almost every name in an http.Header has a capital.
type lowerNames struct{ built strings.Builder }

// lower is strings.ToLower.
func (b *lowerNames) lower(name string) string {
	from := b.built.Len()
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
	return b.built.String()[from:]
}

// ParseQuery returns the parameters in the query of a request target such as /v1/search?q=x, nil if the target has no query.
// It skips malformed pairs, as HTTP servers do: the text comes from the client and is no reason to reject the request.
func ParseQuery(target string) map[string][]string {
	target, _, _ = strings.Cut(target, "#")
	_, query, found := strings.Cut(target, "?")
	if !found {
		return nil
	}
	return ParseParameters(query)
}

// ParseParameters returns the parameters in a query such as q=x&r=y. It is url.ParseQuery without errors and without its bound, beyond which that
// function returns no parameter at all: a client could hide its parameters from policies behind 10 000 separators.
func ParseParameters(query string) map[string][]string {
	values := map[string][]string{}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" || strings.Contains(pair, ";") {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			continue
		}
		if value, err = url.QueryUnescape(value); err == nil {
			values[name] = append(values[name], value)
		}
	}
	return values
}
