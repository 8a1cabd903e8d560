package format

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
)

// nginxVariable cuts the first variable of a log_format of nginx: $name or ${name}.
func nginxVariable(text string) (before, label string, v variable, rest string, err error) {
	before, after, found := strings.Cut(text, "$")
	if !found {
		return text, "", variable{}, "", nil
	}
	name, inBraces := strings.CutPrefix(after, "{")
	end := strings.IndexFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_'
	})
	if end < 0 {
		end = len(name)
	}
	name, rest = name[:end], name[end:]
	if inBraces {
		var closed bool
		if rest, closed = strings.CutPrefix(rest, "}"); !closed {
			return "", "", variable{}, "", fmt.Errorf("${%s has no closing brace", name)
		}
	}
	if name == "" {
		return "", "", variable{}, "", fmt.Errorf("a $ without the name of a variable before %s", logtext.Quote(rest))
	}
	return before, "$" + name, nginxMeaning(name), rest, nil
}

// nginxMeaning returns what a variable of nginx means. Variables that do not matter are ignored.
func nginxMeaning(name string) variable {
	if f, ok := nginxFields()[name]; ok {
		return variable{field: f}
	}
	if h, ok := strings.CutPrefix(name, "http_"); ok {
		return variable{field: header, name: strings.ReplaceAll(h, "_", "-")}
	}
	return variable{}
}

func nginxFields() map[string]field {
	return map[string]field{
		"remote_addr": source, "remote_user": user, "time_local": logTime, "time_iso8601": logTime, "msec": logTime, "request": requestLine,
		"request_method": method, "request_uri": target, "uri": target, "args": query, "query_string": query, "host": host, "http_host": host,
		"start_local": startTime, "start_iso": startTime, "duration_ms": millis, "client_and_port": sourcePort, // of Traefik and AWS
		"status": status, "request_time": seconds, "http_x_forwarded_for": forwarded, "proxy_add_x_forwarded_for": forwarded,
	}
}

// The layouts of nginx and of servers that follow it, in its notation. NCSA servers wrote the first one.
const (
	commonLayout   = `$remote_addr $ident $remote_user [$time_local] "$request" $status $bytes`
	combinedLayout = commonLayout + ` "$http_referer" "$http_user_agent"`
	// ingressLayout is the default of ingress-nginx.
	ingressLayout = combinedLayout + ` $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr`
	// traefikLayout is the default of Traefik, which writes quotes unescaped.
	traefikLayout = `$remote_addr $ident $remote_user [$start_local] "$request" $status $bytes "$http_referer" "$http_user_agent"` +
		` $count "$router" "$server" ${duration_ms}ms`
)

// nginxLayout compiles a log_format of nginx.
func nginxLayout(text string) (*layout, error) {
	l, err := compileLayout(text, nginxVariable)
	if err != nil {
		return nil, err
	}
	l.escape = backslashes
	return l, nil
}
