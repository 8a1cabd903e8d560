package rules

import (
	"net/url"
	"strings"
)

// NormalHeaders returns the headers of a request as expressions see them: each name in lower case, the lines of a repeated
// header joined to one value (see JoinHeader).
func NormalHeaders(h map[string][]string) map[string]string {
	headers := make(map[string]string, len(h))
	for name, values := range h {
		name = strings.ToLower(name)
		headers[name] = JoinHeader(name, values)
	}
	return headers
}

// ParseQuery returns the parameters in the query of a request target such as /v1/search?q=x, nil if the target has no query.
// It skips malformed pairs, as HTTP servers do: the text comes from the client and is no reason to reject the request.
func ParseQuery(target string) map[string][]string {
	target, _, _ = strings.Cut(target, "#")
	_, query, found := strings.Cut(target, "?")
	if !found {
		return nil
	}
	values, _ := url.ParseQuery(query)
	return values
}
