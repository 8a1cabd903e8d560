package explain

import (
	"fmt"
	"strings"
)

// readAccessLog reads a line in one of these formats:
//
//	combined:  address - user [time] "METHOD target PROTOCOL" status bytes "referer" "agent"
//	Envoy:     [time] "METHOD path PROTOCOL" status … "x-forwarded-for" "agent" "request ID" "authority" "upstream"
//
// An unset value is "-". Neither format has other headers.
func readAccessLog(line string) (Request, error) {
	invalid := fmt.Errorf("%.80q is no request: expected the JSON of POST /v1/check, a curl command, a HAR file or a line of an access log", line)
	prefix, rest, _ := strings.Cut(line, `"`)
	quoted := quotedParts(`"` + rest)
	if len(quoted) == 0 {
		return Request{}, invalid
	}
	words := strings.Fields(quoted[0])
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/") {
		return Request{}, invalid
	}
	r := Request{Method: words[0], Path: words[1]}
	if strings.Contains(words[1], "://") { // a proxy logs the whole URL
		if err := r.setURL(words[1]); err != nil {
			return Request{}, err
		}
	}
	agent := 2 // in quoted
	if strings.HasPrefix(prefix, "[") {
		if len(quoted) < 5 {
			return Request{}, invalid
		}
		r.Host = unlessUnset(quoted[4])
		client, _, _ := strings.Cut(quoted[1], ",")
		r.ClientIP = addressOnly(strings.TrimSpace(client))
	} else if fields := strings.Fields(prefix); len(fields) > 0 {
		r.ClientIP = addressOnly(fields[0])
	}
	if len(quoted) > agent && unlessUnset(quoted[agent]) != "" {
		r.setHeader("user-agent", quoted[agent])
	}
	return r, nil
}

// quotedParts returns the texts in double quotes.
func quotedParts(line string) (parts []string) {
	for {
		_, rest, found := strings.Cut(line, `"`)
		if !found {
			return parts
		}
		text, length, err := unquote(rest, '"', true)
		if err != nil {
			return parts
		}
		parts, line = append(parts, text), rest[length:]
	}
}

func unlessUnset(text string) string {
	if text == "-" {
		return ""
	}
	return text
}
