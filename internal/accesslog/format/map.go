package format

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/jsonscan"
	"github.com/weir-dev/weir/internal/accesslog/logtext"
	"github.com/weir-dev/weir/internal/accesslog/logtime"
	"github.com/weir-dev/weir/limiter/rules"
)

// Map is a list of assignments of fields. It is the value of --map.
type Map []assignment

// assignment sets a field, such as method or a header, from a source.
type assignment struct {
	field field
	name  string // of a header or claim
	label string // as the user wrote it
	from  origin
}

// origin is where the value of an assignment comes from.
type origin struct {
	kind originKind
	path []string // of originJSON
	name string   // of a cookie, header, claim or parameter, or the constant
	n    int      // of a segment of the path, or of a captured header; from 1
}

type originKind uint8

const (
	originJSON originKind = iota
	originConstant
	originSegment
	originCookie
	originHeader
	originClaim
	originQuery
	originCapture
	originUser
)

// ParseMap parses lists of assignments of the form FIELD=SOURCE with commas between them.
//
// FIELD is method, path, query, request, host, status, time, start, seconds, milliseconds, address, forwarded, user, domain, header:NAME or claim:NAME.
// SOURCE is .a.b, a key of a JSON object in the line, with quotes around a key that has dots as in .a."b.c"; 'text', a constant; path:N, the Nth
// segment of the path; cookie:NAME, header:NAME, claim:NAME or query:NAME, of the same request; capture:N, the Nth captured header of HAProxy; or user.
//
// The error names the assignment and what it must be.
func ParseMap(lists []string) (Map, error) {
	var assignments []string
	for _, list := range lists {
		assignments = append(assignments, splitAssignments(list)...)
	}
	m := make(Map, 0, len(assignments))
	for _, text := range assignments {
		to, from, found := strings.Cut(text, "=")
		if !found {
			return nil, fmt.Errorf("%q has no =: must be FIELD=SOURCE, for example header:x-tenant-id=.tenant", text)
		}
		a, err := parseField(to)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if a.from, err = parseOrigin(from); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		a.label = text
		m = append(m, a)
	}
	return m, nil
}

// splitAssignments cuts a list at the commas that are neither in a constant nor in a key in quotes.
func splitAssignments(list string) (assignments []string) {
	begin, closing := 0, byte(0)
	for i := range len(list) {
		switch c := list[i]; {
		case closing == '\'' && c == closing: // a constant can have quotes
			if i+1 == len(list) || list[i+1] == ',' {
				closing = 0
			}
		case closing != 0:
			if c == closing {
				closing = 0
			}
		case c == '\'' && i > 0 && list[i-1] == '=', c == '"' && i > 0 && list[i-1] == '.':
			closing = c
		case c == ',':
			assignments, begin = append(assignments, list[begin:i]), i+1
		}
	}
	return append(assignments, list[begin:])
}

func parseField(text string) (a assignment, err error) {
	switch kind, name, named := strings.Cut(text, ":"); {
	case named && kind == "header" && name != "":
		return assignment{field: header, name: strings.ToLower(name)}, nil
	case named && kind == "claim" && name != "":
		return assignment{field: claim, name: name}, nil
	}
	fields := map[string]field{
		"method": method, "path": target, "query": query, "request": requestLine, "host": host, "status": status, "time": logTime, "start": startTime,
		"seconds": seconds, "milliseconds": millis, "address": source, "forwarded": forwarded, "user": user, "domain": domain,
	}
	f, found := fields[text]
	if !found {
		return assignment{}, fmt.Errorf("%q is no field: must be method, path, query, request, host, status, time, start, seconds, milliseconds, address, "+
			"forwarded, user, domain, header:NAME or claim:NAME", text)
	}
	return assignment{field: f}, nil
}

func parseOrigin(text string) (origin, error) {
	const sources = `must be .KEY, 'text', path:N, cookie:NAME, header:NAME, claim:NAME, query:NAME, capture:N or user`
	if rest, isPath := strings.CutPrefix(text, "."); isPath {
		path, err := parsePath(rest)
		return origin{kind: originJSON, path: path}, err
	}
	if text == "user" {
		return origin{kind: originUser}, nil
	}
	if len(text) >= 2 && text[0] == '\'' && text[len(text)-1] == '\'' {
		return origin{kind: originConstant, name: text[1 : len(text)-1]}, nil
	}
	kind, name, _ := strings.Cut(text, ":")
	named := map[string]originKind{"cookie": originCookie, "header": originHeader, "claim": originClaim, "query": originQuery}
	counted := map[string]originKind{"path": originSegment, "capture": originCapture}
	if k, found := named[kind]; found && name != "" {
		if k == originHeader {
			name = strings.ToLower(name)
		}
		return origin{kind: k, name: name}, nil
	}
	if k, found := counted[kind]; found {
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 {
			return origin{}, fmt.Errorf("%q is no number of a position: must be 1 or more", name)
		}
		return origin{kind: k, n: n}, nil
	}
	return origin{}, fmt.Errorf("%q is no source: %s", text, sources)
}

// parsePath parses the keys of .a."b.c" after the first dot.
func parsePath(text string) (path []string, err error) {
	for {
		var key string
		if strings.HasPrefix(text, `"`) {
			end := strings.IndexByte(text[1:], '"')
			if end < 0 {
				return nil, fmt.Errorf("%s has no closing quote", logtext.Quote(text))
			}
			key, text = text[1:end+1], text[end+2:]
		} else {
			end := strings.IndexByte(text, '.')
			if end < 0 {
				end = len(text)
			}
			key, text = text[:end], text[end:]
		}
		if key == "" {
			return nil, errors.New("the path has an empty key")
		}
		if path = append(path, key); text == "" {
			return path, nil
		}
		var found bool
		if text, found = strings.CutPrefix(text, "."); !found {
			return nil, fmt.Errorf("expected a dot before %s", logtext.Quote(text))
		}
	}
}

// readsJSON reports whether m reads a key of a JSON object.
func (m Map) readsJSON() bool {
	for i := range m {
		if m[i].from.kind == originJSON {
			return true
		}
	}
	return false
}

// addTo adds the paths of m to keys.
func (m Map) addTo(k *keys) {
	for i := range m {
		if m[i].from.kind == originJSON {
			k.add(leaf{mapped: i + 1}, m[i].from.path...)
		}
	}
}

// sets reports whether an assignment of m sets a field.
func (m Map) sets(f field) bool {
	for i := range m {
		if m[i].field == f {
			return true
		}
	}
	return false
}

// apply sets the fields of m, in order. mapped has the raw values of its paths.
func (m Map) apply(v *values, mapped []string, c *logtime.Clock) error {
	for i := range m {
		a := &m[i]
		text, native, err := a.from.value(v, mapped, i)
		if err != nil {
			return fmt.Errorf("%s: %w", a.label, err)
		}
		if a.field == claim {
			if text != "" || native != nil {
				v.claims = append(v.claims, pair{name: a.name, value: text, native: native})
			}
			continue
		}
		if err := v.set(a.field, a.name, text, c); err != nil {
			if skip, ok := err.(SkipError); ok { //nolint:errorlint // set returns it unwrapped
				return skip
			}
			return fmt.Errorf("%s: %w", a.label, err)
		}
	}
	return nil
}

// value returns the text of an origin, or a claim that is no text.
func (o *origin) value(v *values, mapped []string, index int) (text string, native any, err error) {
	switch o.kind {
	case originJSON:
		raw := mapped[index]
		if raw != "" && raw[0] != '"' {
			native = nativeClaim(raw)
		}
		text, err = jsonscan.Text(raw)
		return text, native, err
	case originConstant:
		return o.name, nil, nil
	case originSegment:
		return segment(v.target, o.n), nil, nil
	case originCapture:
		return part(v.captures, '|', o.n), nil, nil
	case originCookie:
		q := rules.Request{Headers: map[string]string{"cookie": last(v.headers, "cookie")}}
		text, _ = q.Cookie(o.name) // an ambiguous one is no identifier in production either
		return text, nil, nil
	case originHeader:
		if o.name == "x-forwarded-for" && v.forwarded != "" {
			return v.forwarded, nil, nil
		}
		return last(v.headers, o.name), nil, nil
	case originClaim:
		return last(v.claims, o.name), nil, nil
	case originQuery:
		return parameter(v.target, v.query, o.name), nil, nil
	default:
		return v.user, nil, nil
	}
}

// last returns the value of the last pair with a name.
func last(pairs []pair, name string) string {
	for _, one := range slices.Backward(pairs) {
		if one.name == name {
			return one.value
		}
	}
	return ""
}

// segment returns the nth segment of the path of a target, decoded.
func segment(target string, n int) string {
	if _, path, ok := cutURL(target); ok {
		target = path
	}
	path, _, _ := strings.Cut(target, "?")
	text := part(strings.TrimPrefix(path, "/"), '/', n)
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}
	return text
}

// part returns the nth part of a text, from 1, and "" if there are fewer.
func part(text string, separator byte, n int) string {
	for ; n > 1; n-- {
		index := strings.IndexByte(text, separator)
		if index < 0 {
			return ""
		}
		text = text[index+1:]
	}
	if index := strings.IndexByte(text, separator); index >= 0 {
		return text[:index]
	}
	return text
}

// parameter returns the first value of a parameter of the query.
func parameter(target, query, name string) string {
	if _, own, found := strings.Cut(target, "?"); found {
		query = own
	}
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(key); err == nil && decoded == name {
			if decoded, err := url.QueryUnescape(value); err == nil {
				return decoded
			}
			return value
		}
	}
	return ""
}
