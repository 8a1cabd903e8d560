package reading

import (
	"net/url"
	"strings"
)

// maxParameters is the number of parameters of a query that are read. A client must not make a limiter store more.
const maxParameters = 4096

// Query has the readings of the query of a target.
type Query struct {
	Usual   map[string][]string
	Others  []map[string][]string // of other servers; nil if all agree
	Raw     string                // as the client has sent it, if there are other readings
	Partial bool                  // whether it has more parameters than are read
}

// QueryOf returns the readings of the query of a target, such as /v1/search?q=x. Malformed pairs are no error: the text comes from the client.
func QueryOf(target string) (q Query) {
	_, text, found := strings.Cut(target, "?")
	if !found {
		return Query{}
	}
	withoutFragment, _, hasFragment := strings.Cut(target, "#")
	_, usual, _ := strings.Cut(withoutFragment, "?")
	q.Usual, q.Partial = parseQuery(usual, "&", false)
	if !hasFragment && !strings.Contains(text, ";") && !hasMalformedEscape(text) {
		return q
	}
	q.Raw = text
	for _, separators := range []string{"&", "&;"} {
		reading, partial := parseQuery(text, separators, true)
		q.Others = append(q.Others, reading)
		q.Partial = q.Partial || partial
	}
	return q
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
