package format

import (
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/jsonscan"
)

// leaf is what a value at a key of JSON means.
type leaf struct {
	field  field
	name   string // of a header or claim
	label  string // the path, for messages
	prefix string // of keys that begin with it; the rest of the key is the name
	rank   uint8  // keys with a lower one win; 0 for keys without others
	mapped int    // the index of an assignment of a Map, plus 1; 0 for keys of the format itself
}

// keys are the keys of JSON that a format reads, with what they mean.
type keys struct {
	tree   jsonscan.Tree
	leaves []leaf // by the ids of the tree
}

// add adds a key at a path.
func (k *keys) add(l leaf, path ...string) {
	if l.label == "" {
		l.label = "." + strings.Join(path, ".")
	}
	k.tree.Add(len(k.leaves), path...)
	k.leaves = append(k.leaves, l)
}

// keysOf returns keys with a field each. Of several keys for one field, the first that a line has wins. A slash separates the keys of nested objects. A
// key with an asterisk at its end is a prefix of headers.
func keysOf(lists map[field]string) *keys {
	k := &keys{}
	for f, list := range lists {
		for i, key := range strings.Fields(list) {
			if prefix, isPrefix := strings.CutSuffix(key, "*"); isPrefix {
				k.tree.AddPrefix(len(k.leaves), prefix)
				k.leaves = append(k.leaves, leaf{field: header, prefix: prefix, label: "." + key})
				continue
			}
			path := strings.Split(key, "/")
			l := leaf{field: f, rank: uint8(i + 1)}
			if f == header {
				l.name, l.rank = strings.ReplaceAll(path[len(path)-1], "_", "-"), 0
			}
			k.add(l, path...)
		}
	}
	return k
}

func envoyKeys() *keys { // of Envoy's documentation, Istio and Envoy Gateway
	return keysOf(map[field]string{
		startTime: "start_time", method: "method :method", target: "path :path x-envoy-origin-path", host: "authority :authority", status: "response_code",
		millis: "duration", source: "downstream_remote_address", forwarded: "x_forwarded_for x-forwarded-for",
		header: "user_agent user-agent x-request-id",
	})
}

func traefikKeys() *keys {
	return keysOf(map[field]string{
		startTime: "StartUTC", method: "RequestMethod", target: "RequestPath", host: "RequestHost", status: "DownstreamStatus", nanos: "Duration",
		source: "ClientHost", user: "ClientUsername", forwarded: "request_X-Forwarded-For", headerNames: "request_*",
	})
}

func commonKeys() *keys { // of nginx with escape=json, and of programs with similar keys
	return keysOf(map[field]string{
		logTime:   "time_iso8601 msec time_local time timestamp @timestamp ts",
		startTime: "start_time", requestLine: "request", method: "request_method method http_method",
		target: "request_uri uri path url", query: "args query_string", host: "host http_host server_name vhost",
		source: "remote_addr client_ip clientip remote_ip client ip", forwarded: "http_x_forwarded_for x_forwarded_for x-forwarded-for",
		user: "remote_user", status: "status status_code response_code", seconds: "request_time", millis: "duration_ms", headerNames: "http_*",
		header: "user_agent",
	})
}
