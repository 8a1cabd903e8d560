package rules

import (
	"net/url"
	"slices"
	"strings"
)

// maxParameters is the number of parameters of a query that are read. A client must not make a limiter store more.
const maxParameters = 4096

// SetQuery sets the query of the request from its target, such as /v1/search?q=x, as the client has sent it. Malformed pairs are no reason to
// reject the request: the text comes from the client.
func (r *Request) SetQuery(target string) {
	_, query, found := strings.Cut(target, "?")
	if !found {
		return
	}
	withoutFragment, _, hasFragment := strings.Cut(target, "#")
	_, usual, _ := strings.Cut(withoutFragment, "?")
	r.Query, r.PartialQuery = parseQuery(usual, "&", false)
	if !hasFragment && !strings.Contains(query, ";") && !hasMalformedEscape(query) {
		return
	}
	r.RawQuery = query
	for _, separators := range []string{"&", "&;"} {
		reading, partial := parseQuery(query, separators, true)
		r.OtherQueries = append(r.OtherQueries, reading)
		r.PartialQuery = r.PartialQuery || partial
	}
}

// parseQuery returns one reading of a query. Go (net/url) drops pairs with a semicolon or a malformed escape. Node.js, PHP and Python keep their
// text. Rack and older versions of Python separate pairs by semicolons too. Unlike [url.ParseQuery], it returns what it has read of a query that is
// too large.
func parseQuery(query, separators string, keepMalformed bool) (values map[string][]string, partial bool) {
	values = map[string][]string{}
	count := 0
	for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return strings.ContainsRune(separators, c) }) {
		if !keepMalformed && strings.Contains(pair, ";") {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := unescapeQuery(name)
		value, valueErr := unescapeQuery(value)
		if !keepMalformed && (nameErr != nil || valueErr != nil) {
			continue
		}
		if count++; count > maxParameters {
			return values, true
		}
		values[name] = append(values[name], value)
	}
	return values, false
}

// unescapeQuery is url.QueryUnescape. It returns the text itself with an error.
func unescapeQuery(text string) (string, error) {
	unescaped, err := url.QueryUnescape(text)
	if err != nil {
		return text, err
	}
	return unescaped, nil
}

// hasMalformedEscape reports whether a percent sign is not followed by two hexadecimal digits.
func hasMalformedEscape(text string) bool {
	for i := strings.IndexByte(text, '%'); i >= 0; {
		if i+2 >= len(text) || hexDigit(text[i+1]) < 0 || hexDigit(text[i+2]) < 0 {
			return true
		}
		next := strings.IndexByte(text[i+3:], '%')
		if next < 0 {
			return false
		}
		i += 3 + next
	}
	return false
}

// parameter returns the value of a parameter of the query. It is ambiguous if the request has several values, of which servers read the first or
// the last, or if readings of the query differ.
func (r *Request) parameter(name string) (value string, isAmbiguous bool) {
	values, count := r.Query[name], len(r.Query[name])
	for _, other := range r.OtherQueries {
		isAmbiguous = isAmbiguous || len(other[name]) != count
		values = append(slices.Clip(values), other[name]...)
	}
	if len(values) == 0 {
		return "", r.PartialQuery
	}
	for _, other := range values[1:] {
		isAmbiguous = isAmbiguous || other != values[0]
	}
	return values[0], isAmbiguous || r.PartialQuery
}
