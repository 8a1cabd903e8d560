package h1

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// head is the head of a request. Its memory is used again for the next one of the connection.
type head struct {
	method, target, host string
	fields               http.Header // without Host
	length               int64       // of the body
	closes               bool        // the client closes the connection after the response

	values []string          // of fields
	names  map[string]string // as in http.Header, by the spelling of the client
}

const (
	// maxNames bounds the names that a connection remembers, and maxName their length, in bytes.
	maxNames, maxName = 64, 64
	// maxLength bounds bodies, in bytes. net/http reads as much of a body that its handler has not read.
	maxLength = 256 << 10
)

// parse reads the head of a request with the empty line at its end. It returns false for each form that is unusual: for example another
// version, method or framing, fields without a value or in several lines, repeated Host or Content-Length, controls, and all that is
// invalid. What it accepts, net/http reads as the same request.
func (h *head) parse(text string) bool {
	if len(h.values) > maxNames { // an idle connection keeps this memory
		h.fields, h.values = http.Header{}, nil
	}
	clear(h.fields)
	clear(h.values)
	h.values = h.values[:0]
	h.host, h.length, h.closes = "", 0, false
	line, text, valid := cutLine(text)
	if !valid || !h.parseRequestLine(line) {
		return false
	}
	for {
		if line, text, valid = cutLine(text); !valid {
			return false
		}
		if line == "" {
			break
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !h.parseField(name, strings.Trim(value, " \t")) {
			return false
		}
	}
	if pragma := h.fields["Pragma"]; len(pragma) > 0 && pragma[0] == "no-cache" && h.fields["Cache-Control"] == nil {
		h.fields["Cache-Control"] = []string{"no-cache"} // as net/http does
	}
	return h.host != ""
}

// cutLine returns the text before and after the first CR LF.
func cutLine(text string) (line, rest string, found bool) {
	end := strings.IndexByte(text, '\n')
	if end < 1 || text[end-1] != '\r' {
		return "", "", false
	}
	return text[:end-1], text[end+1:], true
}

func (h *head) parseRequestLine(line string) bool {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions: // not HEAD: its response has no body
	default:
		return false
	}
	h.method, h.target = method, target
	return version == "HTTP/1.1" && strings.HasPrefix(target, "/")
}

func (h *head) parseField(name, value string) bool {
	name = h.canonical(name)
	if name == "" || !isText(value) {
		return false
	}
	first := h.fields[name] == nil
	switch name {
	case "Host":
		if h.host != "" || !isHost(value) {
			return false
		}
		h.host = value
		return true
	case "Content-Length":
		length, err := strconv.ParseUint(value, 10, 32) // not ParseInt, which accepts a sign
		if err != nil || !first || length > maxLength {
			return false
		}
		h.length = int64(length)
	case "Connection":
		h.closes = equalFold(value, "close")
		if !first || !h.closes && !equalFold(value, "keep-alive") {
			return false
		}
	case "Transfer-Encoding", "Trailer", "Expect":
		return false
	}
	if !first {
		h.fields[name] = append(h.fields[name], value)
		return true
	}
	h.values = append(h.values, value)
	last := len(h.values)
	h.fields[name] = h.values[last-1 : last : last] // appending copies it
	return true
}

// equalFold compares a value with a text in ASCII, without regard to case. strings.EqualFold also knows letters of more bytes, such as ſ for s.
func equalFold(value, text string) bool {
	return len(value) == len(text) && strings.EqualFold(value, text)
}

// canonical returns the name of a field as in http.Header, or "" if it is invalid.
func (h *head) canonical(name string) string {
	if known := h.names[name]; known != "" {
		return known
	}
	for i := range len(name) {
		if !isToken(name[i]) {
			return ""
		}
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	if len(h.names) < maxNames && len(name) <= maxName {
		h.names[strings.Clone(name)] = strings.Clone(canonical)
	}
	return canonical
}

// isToken reports whether c can be in the name of a field.
func isToken(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// isText reports whether a value has no control characters.
func isText(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isHost reports whether a Host field has a usual form.
func isHost(host string) bool {
	for i := range len(host) {
		if c := host[i]; !isAlphanumeric(c) && strings.IndexByte("-._:[]", c) < 0 {
			return false
		}
	}
	return host != ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
