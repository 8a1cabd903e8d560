package format

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
)

// envoyVariable cuts the first operator of a format string of Envoy: %NAME%, %NAME(ARGUMENT)% or %NAME(ARGUMENT):LENGTH%.
func envoyVariable(text string) (before, label string, v variable, rest string, err error) {
	before, after, found := strings.Cut(text, "%")
	if !found {
		return text, "", variable{}, "", nil
	}
	operator, rest, closed := cutOperator(after)
	if !closed {
		return "", "", variable{}, "", fmt.Errorf("%s has no closing %%", logtext.Quote("%"+after))
	}
	return before, "%" + operator + "%", envoyMeaning(operator), rest, nil
}

// cutOperator cuts text at the first percent sign outside of parentheses.
func cutOperator(text string) (operator, rest string, closed bool) {
	depth := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '%' && depth <= 0:
			return text[:i], text[i+1:], i > 0
		}
	}
	return "", "", false
}

// envoyMeaning returns what an operator of Envoy means. Operators that do not matter are ignored.
func envoyMeaning(operator string) variable {
	name, argument, _ := strings.Cut(operator, "(")
	argument, _, _ = strings.Cut(argument, ")")
	switch name {
	case "START_TIME":
		return variable{field: startTime}
	case "RESPONSE_CODE":
		return variable{field: status}
	case "DURATION":
		return variable{field: millis}
	case "DOWNSTREAM_REMOTE_ADDRESS", "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS":
		return variable{field: source}
	case "REQ", "REQ_WITHOUT_QUERY":
		return envoyHeader(strings.ToLower(argument))
	default:
		return variable{}
	}
}

// envoyHeader returns what a header of the request means. An alternative follows a question mark.
func envoyHeader(argument string) variable {
	name, alternative, _ := strings.Cut(argument, "?")
	switch {
	case name == ":method":
		return variable{field: method}
	case name == ":path" || alternative == ":path":
		return variable{field: target}
	case name == ":authority" || name == "host":
		return variable{field: host}
	case name == "x-forwarded-for":
		return variable{field: forwarded}
	case strings.HasPrefix(name, ":"):
		return variable{}
	default:
		return variable{field: header, name: name}
	}
}

// The default formats of Envoy and Istio.
const (
	envoyLayoutText = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
		`%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" ` +
		`"%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"`
	istioLayoutText = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
		`%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% ` +
		`%DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" ` +
		`"%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% ` +
		`%DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%`
)

// envoyLayout compiles a format string of Envoy.
func envoyLayout(text string) (*layout, error) {
	return compileLayout(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), `\n`), envoyVariable)
}
