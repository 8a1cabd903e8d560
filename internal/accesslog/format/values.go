package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
	"github.com/weir-dev/weir/internal/accesslog/logtime"
	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/rules"
)

// A field is a property of a request that a format can log.
type field uint8

const (
	ignored     field = iota
	requestLine       // "GET /v1/search?q=x HTTP/1.1"
	method
	target // the path with the query, or a URL
	query  // the query alone, for formats that log it apart from the path
	host
	status
	startTime   // of the request
	logTime     // of the line, when the response ended
	seconds     // the duration of the request, in seconds
	millis      // in milliseconds
	nanos       // in nanoseconds
	source      // the address that sent the request to the proxy
	sourcePort  // the same with a port, and without brackets around an IPv6 address
	forwarded   // X-Forwarded-For
	user        // as the proxy authenticated it
	domain      // of the policies
	header      // with a name
	claim       // with a name
	captures    // the headers that HAProxy captured, by position
	headerNames // the names of the headers are in the log
	fields      // the number of fields
)

// A pair is a header or claim that a line has.
type pair struct {
	name, value string
	native      any // a claim that is no text
}

// values has what a line has, as texts of the line. "" and "-" are absent values.
type values struct {
	method, target, query, host, source, forwarded, user, domain string
	status                                                       int
	start, logged                                                time.Time
	duration                                                     time.Duration
	headers, claims                                              []pair
	captures                                                     string
}

func (v *values) reset() {
	*v = values{headers: v.headers[:0], claims: v.claims[:0]}
}

// set sets a field from its text. The name is that of a header or claim. The error describes what is wrong with the text.
func (v *values) set(f field, name, text string, clock *logtime.Clock) error {
	if text == "" || text == "-" {
		return nil // absent
	}
	var err error
	switch f {
	case requestLine:
		return v.setRequestLine(text)
	case method:
		v.method = text
	case target:
		v.target = text
	case query:
		v.query = text
	case host:
		v.host = text
	case status:
		var code int
		if code, err = parseStatus(text); err == nil {
			v.status = code
		}
	case startTime, logTime, seconds, millis, nanos:
		return v.setTime(f, text, clock)
	case source:
		v.source = text
	case sourcePort:
		v.source = withoutPort(text)
	case forwarded:
		v.forwarded = text
		v.headers = append(v.headers, pair{name: "x-forwarded-for", value: text})
	case user:
		v.user = text
	case domain:
		v.domain = text
	case header:
		v.headers = append(v.headers, pair{name: name, value: text})
	case claim:
		v.claims = append(v.claims, pair{name: name, value: text})
	case captures:
		v.captures = text
	case ignored, headerNames, fields:
	}
	return err
}

// withoutPort returns the address of an address with a port: 192.0.2.1:4711, 2001:db8::1:4711 or [2001:db8::1]:4711.
func withoutPort(text string) string {
	if colon := strings.LastIndexByte(text, ':'); colon >= 0 {
		return text[:colon]
	}
	return text
}

// setTime sets a time or the duration. An invalid text changes nothing: another key of JSON can have set it.
func (v *values) setTime(f field, text string, clock *logtime.Clock) error {
	unit := time.Second
	switch f {
	case startTime, logTime:
		at, err := clock.Parse(text)
		if err != nil {
			return err
		}
		if f == startTime {
			v.start = at
		} else {
			v.logged = at
		}
		return nil
	case millis:
		text, unit = strings.TrimSuffix(text, "ms"), time.Millisecond
	case nanos:
		unit = time.Nanosecond
	default:
	}
	took, err := logtime.ParseDuration(text, unit)
	if err == nil {
		v.duration = took
	}
	return err
}

// setRequestLine sets method and target from the first line of a request.
func (v *values) setRequestLine(line string) error {
	first := strings.IndexByte(line, ' ')
	if first <= 0 || !isMethod(line[:first]) || line[:first] == "PRI" { // PRI begins HTTP/2 on a port without it
		return ErrNoRequest
	}
	v.method = line[:first]
	v.target = line[first+1:]
	if last := strings.LastIndexByte(v.target, ' '); last >= 0 && strings.HasPrefix(v.target[last+1:], "HTTP/") {
		v.target = v.target[:last]
	}
	if v.target == "" || v.target == "-" {
		return ErrNoRequest
	}
	return nil
}

// isMethod reports whether text is a token of HTTP in upper case, as all methods are. A line of another protocol does not begin with one.
func isMethod(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return text[0] != '-'
}

func parseStatus(text string) (int, error) {
	if len(text) == 3 && logtext.IsDigit(text[0]) && logtext.IsDigit(text[1]) && logtext.IsDigit(text[2]) {
		return int(text[0]-'0')*100 + int(text[1]-'0')*10 + int(text[2]-'0'), nil
	}
	if text == "0" || text == "000" || text == "-1" { // the client has disconnected
		return 0, nil
	}
	return 0, fmt.Errorf("%s is no status code: must be three digits", logtext.Quote(text))
}

// Settings of a parser.
type Settings struct {
	// Domain of the policies, for requests without their own.
	Domain string
	// Map sets fields from others, see [ParseMap].
	Map Map
	// SkipQuery leaves the query of requests out, for policies that do not read it: its parameters need memory for each line.
	SkipQuery bool
	// SkipObjects leaves the objects of writes to the Kubernetes API out, for policies that do not read them. Their kinds remain.
	SkipObjects bool
	// Headers are the names of the headers to keep, in lower case. Nil keeps all headers that the log has, and an empty list keeps no header.
	Headers []string
	// Location of times without an offset. Nil is UTC.
	Location *time.Location
	// ClientOf returns the address of the client of a request that a proxy received from source, with a value of ClientHeader, which can be absent. Without
	// a source, it is the last address that X-Forwarded-For has, which the proxy wrote. Nil returns source.
	ClientOf func(source netip.Addr, value string) netip.Addr
	// ClientHeader is in lower case. "" is X-Forwarded-For.
	ClientHeader string
}

// readHeaders returns the names of the headers that are kept or that another field comes from, nil for all.
func (s *Settings) readHeaders() []string {
	if s.Headers == nil {
		return nil
	}
	read := append([]string{}, s.Headers...)
	if s.ClientHeader != "" {
		read = append(read, s.ClientHeader)
	}
	for i := range s.Map {
		switch from := &s.Map[i].from; from.kind {
		case originHeader:
			read = append(read, from.name)
		case originCookie:
			read = append(read, "cookie")
		default:
		}
	}
	return read
}

// record completes r from the values of a line. It sets the fields that a line determines, and leaves File and Line.
func (v *values) record(r *Record, s *Settings) error {
	switch {
	case v.method == "" && v.target == "":
		return ErrNoRequest
	case v.start.IsZero() && v.logged.IsZero():
		return errors.New("the line has no time")
	}
	v.setTimes(r)
	q := &r.Request
	q.Domain, q.Method = v.domain, v.method
	if q.Domain == "" {
		q.Domain = s.Domain
	}
	v.setHostAndTarget(q, s)
	v.setClient(q, s)
	v.setHeaders(q, s)
	v.setClaims(q)
	r.Status = v.status
	return nil
}

func (v *values) setTimes(r *Record) {
	if r.Start, r.Logged = v.start, v.logged; v.start.IsZero() {
		r.Start = v.logged.Add(-v.duration)
	} else if v.logged.IsZero() {
		r.Logged = v.start.Add(v.duration)
	}
}

func (v *values) setHostAndTarget(q *rules.Request, s *Settings) {
	text := v.target
	if text == "" {
		text = "/"
	}
	if text[0] != '/' {
		if own, path, ok := cutURL(text); ok {
			text = path
			if v.host == "" {
				v.host = own
			}
		}
	}
	if v.host != "" {
		q.Host = rules.NormalHost(v.host)
	}
	q.SetTarget(text)
	if s.SkipQuery {
		return
	}
	if v.query != "" && !strings.Contains(text, "?") {
		text += "?" + strings.TrimPrefix(v.query, "?")
	}
	q.SetQuery(text)
}

// cutURL returns the host and the target of a URL.
func cutURL(text string) (host, target string, ok bool) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return "", "", false
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		return rest, "/", true
	}
	if host, target = rest[:end], rest[end:]; target[0] != '/' {
		target = "/" + target
	}
	return host, target, true
}

func (v *values) setClient(q *rules.Request, s *Settings) {
	if v.source != "" {
		q.ClientIP, _ = clientip.Parse(v.source)
	}
	if !q.ClientIP.IsValid() && v.forwarded != "" {
		q.ClientIP, _ = clientip.Parse(v.forwarded[strings.LastIndexByte(v.forwarded, ',')+1:])
	}
	if s.ClientOf == nil || !q.ClientIP.IsValid() {
		return
	}
	value := v.forwarded
	if s.ClientHeader != "" {
		value = last(v.headers, s.ClientHeader)
	}
	q.ClientIP = s.ClientOf(q.ClientIP, value)
}

func (v *values) setHeaders(q *rules.Request, s *Settings) {
	for _, h := range v.headers {
		if s.Headers != nil && !slices.Contains(s.Headers, h.name) {
			continue
		}
		if q.Headers == nil {
			q.Headers = make(map[string]string, len(v.headers))
		}
		q.Headers[h.name] = h.value
	}
}

func (v *values) setClaims(q *rules.Request) {
	if v.user == "" && len(v.claims) == 0 {
		return
	}
	q.Claims = make(map[string]any, len(v.claims)+1)
	if v.user != "" {
		q.Claims["sub"] = v.user
	}
	for _, c := range v.claims {
		if q.Claims[c.name] = c.value; c.native != nil {
			q.Claims[c.name] = c.native
		}
	}
}

// nativeClaim returns a JSON value that is no string as rules read claims, and nil for null and malformed values.
func nativeClaim(raw string) any {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return nil
	}
	return value
}
