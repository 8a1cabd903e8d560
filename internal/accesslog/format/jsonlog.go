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

	ranks  [fields]uint8 // of the keys that have set the fields, plus 1; 0 for fields that are not set
	failed error         // about the value of a key, which matters only if no other key sets its field
	of     field         // of failed
}

// parse sets the values of a line. The values of a Map are in p.mapped.
func (p *jsonLog) parse(line string, v *values, c *clock) error {
	p.values, p.clock = v, c
	p.ranks, p.failed = [fields]uint8{}, nil
	clear(p.mapped)
	if err := scan(line, p.root, p); err != nil {
		return err
	}
	if p.failed != nil && p.ranks[p.of] == 0 {
		return p.failed
	}
	return nil
}

// visit implements visitor.
func (p *jsonLog) visit(l *leaf, key, raw string) error {
	if l.mapped > 0 {
		p.mapped[l.mapped-1] = raw
		return nil
	}
	text, err := textOf(raw)
	if err != nil {
		return err
	}
	if l.rank > 0 {
		if set := p.ranks[l.field]; text == "" || text == "-" || set != 0 && set < l.rank {
			return nil
		}
	}
	name := l.name
	if l.prefix != "" {
		if p.noHeaders {
			return nil
		}
		name = strings.ReplaceAll(strings.ToLower(key[len(l.prefix):]), "_", "-")
	}
	switch err = p.values.set(l.field, name, text, p.clock); {
	case err == nil:
		p.ranks[l.field] = l.rank
		return nil
	case p.failed == nil:
		if _, ok := err.(SkipError); !ok { //nolint:errorlint // set returns it unwrapped; other keys can have the request
			p.failed, p.of = fmt.Errorf("%s: %w", l.label, err), l.field
		}
	}
	return nil
}

// tree returns the tree of keys with a field each. Of several keys for one field, the first that a line has wins. A key with an asterisk at its end is a
// prefix of headers.
func tree(keys map[field]string) *node {
	root := &node{}
	for f, list := range keys {
		for i, key := range strings.Fields(list) {
			if prefix, isPrefix := strings.CutSuffix(key, "*"); isPrefix {
				root.prefixes = append(root.prefixes, leaf{field: header, prefix: prefix, label: "." + key})
				continue
			}
			path := strings.Split(key, "/")
			l := leaf{field: f, rank: uint8(i + 1)}
			if f == header {
				l.name, l.rank = strings.ReplaceAll(path[len(path)-1], "_", "-"), 0
			}
			root.add(l, path...)
		}
	}
	return root
}

// The keys of formats. A slash separates the keys of nested objects.

func envoyTree() *node { // of Envoy's documentation, Istio and Envoy Gateway
	return tree(map[field]string{
		startTime: "start_time", method: "method :method", target: "path :path x-envoy-origin-path", host: "authority :authority", status: "response_code",
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
		logTime:   "time_iso8601 msec time_local time timestamp @timestamp ts",
		startTime: "start_time", requestLine: "request", method: "request_method method http_method",
		target: "request_uri uri path url", query: "args query_string", host: "host http_host server_name vhost",
		source: "remote_addr client_ip clientip remote_ip client ip", forwarded: "http_x_forwarded_for x_forwarded_for x-forwarded-for",
		user: "remote_user", status: "status status_code response_code", seconds: "request_time", millis: "duration_ms", headerNames: "http_*",
		header: "user_agent",
	})
}
