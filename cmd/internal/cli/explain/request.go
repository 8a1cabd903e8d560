package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-dev/weir/limiter/clientip"
)

// Request is a request in the JSON of POST /v1/check.
type Request struct {
	Domain   string              `json:"domain,omitempty"`
	Method   string              `json:"method,omitempty"`
	Host     string              `json:"host,omitempty"`
	Path     string              `json:"path,omitempty"`
	Query    map[string][]string `json:"query,omitempty"`
	Headers  map[string]string   `json:"headers,omitempty"`
	ClientIP string              `json:"clientIP,omitempty"`
	Claims   json.RawMessage     `json:"claims,omitempty"`
	// Descriptors as in Envoy's rate limit API.
	Descriptors [][]Entry `json:"descriptors,omitempty"`
	Cost        int64     `json:"cost,omitempty"`
}

// Entry is an entry of a descriptor.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Read reads a request in one of these forms: the JSON body of POST /v1/check, a curl command, a HAR file, or a line of an access log in the
// combined format or in Envoy's default format. Of a HAR file it reads the first request. The note, which can be empty, describes what
// was left out.
func Read(text []byte) (r Request, note string, err error) {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return Request{}, "", errors.New("the request is empty")
	case text[0] == '{' && isHAR(text):
		return readHAR(text)
	case text[0] == '{':
		return r, "", decodeStrictly(text, &r)
	case bytes.HasPrefix(text, []byte("curl ")):
		r, err = readCurl(string(text))
		return r, "", err
	default:
		line, rest, _ := strings.Cut(string(text), "\n")
		if strings.TrimSpace(rest) != "" {
			note = "only the first line is explained"
		}
		r, err = readAccessLog(line)
		return r, note, err
	}
}

// decodeStrictly rejects unknown fields, as POST /v1/check does.
func decodeStrictly(text []byte, r *Request) error {
	var given struct {
		*Request

		Peek *bool `json:"peek"` // allowed, and without effect
	}
	given.Request = r
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return fmt.Errorf("the JSON is not the body of POST /v1/check: %w", err)
	}
	return nil
}

// Merge sets the fields of r that are set in flags.
func (r *Request) Merge(flags Request) {
	for _, field := range []struct{ target, source *string }{
		{&r.Domain, &flags.Domain}, {&r.Method, &flags.Method}, {&r.Host, &flags.Host}, {&r.Path, &flags.Path}, {&r.ClientIP, &flags.ClientIP},
	} {
		if *field.source != "" {
			*field.target = *field.source
		}
	}
	for name, value := range flags.Headers {
		r.setHeader(name, value)
	}
	if len(flags.Claims) > 0 {
		r.Claims = flags.Claims
	}
	r.Descriptors = append(r.Descriptors, flags.Descriptors...)
	if flags.Cost != 0 {
		r.Cost = flags.Cost
	}
}

func (r *Request) setHeader(name, value string) {
	if r.Headers == nil {
		r.Headers = map[string]string{}
	}
	r.Headers[strings.ToLower(name)] = value
}

// addHeader adds a header as HTTP servers read it: Host is the host, and lines with the same name are joined.
func (r *Request) addHeader(name, value string) {
	name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
	switch previous, has := r.Headers[name]; {
	case name == "" || strings.HasPrefix(name, ":"): // HTTP/2 sends the method, the path and the host in such lines
	case name == "host":
		r.Host = value
	case has && name == "cookie":
		r.setHeader(name, previous+"; "+value)
	case has:
		r.setHeader(name, previous+","+value)
	default:
		r.setHeader(name, value)
	}
}

// setURL sets the host and the path, with the query.
func (r *Request) setURL(raw string) error {
	if _, rest, hasScheme := strings.Cut(raw, "://"); hasScheme {
		raw = rest
	}
	raw, _, _ = strings.Cut(raw, "#")
	end := strings.IndexAny(raw, "/?")
	if end < 0 {
		end = len(raw)
	}
	host, path := raw[:end], raw[end:]
	if index := strings.LastIndexByte(host, '@'); index >= 0 {
		host = host[index+1:]
	}
	if host == "" {
		return fmt.Errorf("URL %q has no host", raw)
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if r.Host == "" { // a header Host takes precedence
		r.Host = host
	}
	r.Path = path
	return nil
}

// ParseHeader parses "Name: value".
func ParseHeader(text string) (name, value string, err error) {
	name, value, found := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); !found || name == "" {
		return "", "", fmt.Errorf("header %q is invalid: must be \"Name: value\"", text)
	}
	return name, strings.TrimSpace(value), nil
}

// ParseDescriptor parses "key=value,key=value".
func ParseDescriptor(text string) ([]Entry, error) {
	var entries []Entry
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(part, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("descriptor %q is invalid: must be key=value, or several entries with commas", text)
		}
		entries = append(entries, Entry{Key: key, Value: value})
	}
	return entries, nil
}

// addressOnly returns the address in a text, or "".
func addressOnly(text string) string {
	if ip, ok := clientip.Parse(text); ok {
		return ip.String()
	}
	return ""
}
