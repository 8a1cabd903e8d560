package rules

import (
	"net/http"
	"slices"
)

// Header returns the joined lines of a header by its name in lower case.
func (r *Request) Header(name string) (value string, found bool) {
	if r.HeaderLines == nil {
		value, found = r.Headers[name]
		return value, found
	}
	lines := linesOf(r.HeaderLines, name)
	return JoinHeader(name, lines), len(lines) > 0
}

// IsRepeated reports whether the request has several lines of a header. Those of a cookie are one value.
func (r *Request) IsRepeated(name string) bool {
	if r.HeaderLines == nil {
		return slices.Contains(r.RepeatedHeaders, name)
	}
	return name != "cookie" && len(linesOf(r.HeaderLines, name)) > 1
}

// ReadHeaders sets Headers and RepeatedHeaders from HeaderLines, which becomes nil. Code that reads all headers calls it first.
func (r *Request) ReadHeaders() {
	if r.HeaderLines != nil {
		r.Headers, r.RepeatedHeaders = NormalHeaders(r.HeaderLines)
		r.HeaderLines = nil
	}
}

// linesOf returns the lines of a header by its name in lower case. It allocates nothing.
func linesOf(h map[string][]string, name string) []string {
	const usual = 64 // bytes of a name, or fewer
	if len(name) > usual {
		return h[http.CanonicalHeaderKey(name)]
	}
	var room [usual]byte
	key := append(room[:0], name...)
	for i, c := range key {
		if (i == 0 || key[i-1] == '-') && 'a' <= c && c <= 'z' {
			key[i] = c - ('a' - 'A')
		}
	}
	return h[string(key)]
}
