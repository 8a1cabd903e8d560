package format

import (
	"fmt"
	"strings"
)

// jsonLog parses lines of JSON with the keys of a tree.
type jsonLog struct {
	root   *node
	values *values
	clock  *clock
	mapped []string // the raw values of the assignments of a Map
	// noHeaders is true if no header is kept, and no assignment reads one.
	noHeaders bool
}

// parse sets the values of a line. The values of a Map are in p.mapped.
func (p *jsonLog) parse(line string, v *values, c *clock) error {
	p.values, p.clock = v, c
	clear(p.mapped)
	return scan(line, p.root, p)
}

// visit implements visitor.
func (p *jsonLog) visit(l *leaf, key, raw string) error {
	if l.mapped > 0 {
		p.mapped[l.mapped-1] = raw
		return nil
	}
	if l.weak && p.values.has(l.field) {
		return nil
	}
	text, err := textOf(raw)
	if err != nil {
		return err
	}
	name := l.name
	if l.prefix != "" {
		if p.noHeaders {
			return nil
		}
		name = strings.ReplaceAll(strings.ToLower(key[len(l.prefix):]), "_", "-")
	}
	if err = p.values.set(l.field, name, text, p.clock); err == nil {
		return nil
	}
	if _, ok := err.(SkipError); ok { //nolint:errorlint // set returns it unwrapped
		return nil // other keys can have the request
	}
	return fmt.Errorf("%s: %w", l.label, err)
}

// has reports whether a field of text is set.
func (v *values) has(f field) bool {
	switch f {
	case host:
		return v.host != ""
	case target:
		return v.target != ""
	case method:
		return v.method != ""
	case source:
		return v.source != ""
	case logTime:
		return !v.logged.IsZero()
	default:
		return false
	}
}

// tree returns the tree of keys with a field each. A weak key has a question mark at its end, and a key with an asterisk at its end is a prefix of
// headers.
func tree(keys map[field]string) *node {
	root := &node{}
	for f, list := range keys {
		for key := range strings.FieldsSeq(list) {
			key, weak := strings.CutSuffix(key, "?")
			if prefix, isPrefix := strings.CutSuffix(key, "*"); isPrefix {
				root.prefixes = append(root.prefixes, leaf{field: header, prefix: prefix, label: "." + key})
				continue
			}
			path := strings.Split(key, "/")
			l := leaf{field: f, weak: weak}
			if f == header {
				l.name = strings.ReplaceAll(path[len(path)-1], "_", "-")
			}
			root.add(l, path...)
		}
	}
	return root
}

// The keys of formats. A slash separates the keys of nested objects.

func envoyTree() *node { // of Envoy's documentation, Istio and Envoy Gateway
	return tree(map[field]string{
		startTime: "start_time", method: "method :method", target: "path :path? x-envoy-origin-path", host: "authority :authority", status: "response_code",
		millis: "duration", source: "downstream_remote_address", forwarded: "x_forwarded_for x-forwarded-for",
		header: "user_agent user-agent x-request-id",
	})
}

func traefikTree() *node {
	return tree(map[field]string{
		startTime: "StartUTC", method: "RequestMethod", target: "RequestPath", host: "RequestHost", status: "DownstreamStatus", nanos: "Duration",
		source: "ClientHost", user: "ClientUsername", forwarded: "request_X-Forwarded-For", headerNames: "request_*",
	})
}

func commonTree() *node { // of nginx with escape=json, and of programs with similar keys
	return tree(map[field]string{
		logTime:   "time_iso8601 msec? time_local? time? timestamp? @timestamp? ts?",
		startTime: "start_time", requestLine: "request", method: "request_method method? http_method?",
		target: "request_uri uri? path? url?", query: "args query_string", host: "host http_host? server_name? vhost?",
		source: "remote_addr client_ip? clientip? remote_ip? client? ip?", forwarded: "http_x_forwarded_for x_forwarded_for x-forwarded-for",
		user: "remote_user", status: "status status_code response_code", seconds: "request_time", millis: "duration_ms", headerNames: "http_*",
		header: "user_agent",
	})
}
