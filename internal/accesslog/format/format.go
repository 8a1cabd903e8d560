package format

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
	"github.com/weir-dev/weir/internal/accesslog/logtime"
)

// Format is a form of the lines of a log.
type Format struct {
	// Name as a user chooses it, for example nginx.
	Name string
	// Title is what the format is, for example "nginx combined".
	Title string
	// Example is a line.
	Example string
	// Precision of the times of the log.
	Precision time.Duration
	// HasHost and HasAddress report whether the format has the host of requests, and the address of clients.
	HasHost, HasAddress bool
	// Advice is how to configure the server so that its log has a header of requests, with HEADER in place of its name. It is "" if there is no way.
	Advice string

	layout  func() (*layout, error) // of text
	keys    func() *keys            // of JSON
	haproxy bool
	special special
}

// special formats make records themselves.
type special uint8

const (
	specialAudit special = iota + 1
	specialDecisions
)

// The names of the formats of which options can follow.
const (
	nginxPrefix = "nginx:"
	envoyPrefix = "envoy:"
)

// Formats returns all formats. One that is more specific is earlier than others that can read its lines.
func Formats() []Format {
	return slices.Concat(textFormats(), jsonFormats())
}

func textFormats() []Format {
	const nginxAdvice = `add "$http_HEADER" to log_format, and pass that text as --format 'nginx:…'`
	return []Format{
		{
			Name: "ingress-nginx", Title: "ingress-nginx", Precision: time.Second, HasAddress: true, Advice: nginxAdvice,
			Example: `192.0.2.1 - - [02/Jan/2006:15:04:05 +0000] "GET /v1 HTTP/1.1" 200 612 "-" "curl/8" 89 0.004 [shop-api-80] [] 10.0.0.7:8080 612 0.004 200 6f1f`,
			layout:  restOf(ingressLayout, ""),
		},
		{
			Name: "traefik", Title: "Traefik CLF", Precision: time.Second, HasAddress: true,
			Advice:  `set accessLog.format to json and accessLog.fields.headers.names.HEADER to keep`,
			Example: `192.0.2.1 - - [02/Jan/2006:15:04:05 +0000] "GET /v1 HTTP/1.1" 200 612 "-" "-" 12 "api@docker" "http://10.0.0.7:8080" 4ms`,
			layout:  func() (*layout, error) { return compileLayout(traefikLayout, nginxVariable) },
		},
		{
			Name: "nginx", Title: "nginx combined", Precision: time.Second, HasAddress: true, Advice: nginxAdvice,
			Example: `192.0.2.1 - - [02/Jan/2006:15:04:05 +0000] "GET /v1 HTTP/1.1" 200 612 "-" "curl/8"`,
			layout:  restOf(combinedLayout, "$bytes"),
		},
		{
			Name: "apache-vhost", Title: "Apache vhost_combined", Precision: time.Second, HasHost: true, HasAddress: true,
			Example: `shop.example:443 192.0.2.1 - - [02/Jan/2006:15:04:05 +0000] "GET /v1 HTTP/1.1" 200 612 "-" "curl/8"`,
			layout:  restOf("$host "+combinedLayout, "$bytes"),
		},
		{
			Name: "istio", Title: "Istio text", Precision: time.Millisecond, HasHost: true, HasAddress: true,
			Advice: `add "%REQ(HEADER)%" to accessLogFormat, and pass that text as --format 'envoy:…'`,
			Example: `[2006-01-02T15:04:05.000Z] "GET /v1 HTTP/1.1" 200 - via_upstream - "-" 0 5 7 6 "-" "curl/8" "6f1f" "shop.example" "10.0.0.7:80" ` +
				`inbound|80|| 127.0.0.6:1 10.0.0.7:80 10.0.0.9:4711 - default`,
			layout: func() (*layout, error) { return envoyLayout(istioLayoutText) },
		},
		{
			Name: "envoy", Title: "Envoy default text", Precision: time.Millisecond, HasHost: true,
			Advice:  `add "%REQ(HEADER)%" to the format of the access log, and pass that text as --format 'envoy:…'`,
			Example: `[2006-01-02T15:04:05.000Z] "GET /v1 HTTP/1.1" 200 - 0 612 4 3 "192.0.2.1" "curl/8" "6f1f" "shop.example" "10.0.0.7:8080"`,
			layout:  func() (*layout, error) { return envoyLayout(envoyLayoutText) },
		},
		{
			Name: "haproxy", Title: "HAProxy HTTP", Precision: time.Millisecond, HasAddress: true,
			Advice:  `add "http-request capture req.hdr(HEADER) len 64" to the frontend, and pass --map header:HEADER=capture:1`,
			Example: `192.0.2.1:4711 [02/Jan/2006:15:04:05.000] web api/s1 0/0/1/3/4 200 612 - - ---- 1/1/0/0/0 0/0 "GET /v1 HTTP/1.1"`,
			haproxy: true,
		},
		{
			Name: "alb", Title: "AWS Application Load Balancer", Precision: time.Millisecond, HasHost: true, HasAddress: true,
			Example: `https 2006-01-02T15:04:05.000000Z app/web/50dc6c495c0c9188 192.0.2.1:4711 10.0.0.7:80 0.000 0.004 0.000 200 200 34 366 ` +
				`"GET https://shop.example:443/v1 HTTP/2.0" "curl/8" …`,
			layout: albLayout,
		},
	}
}

func jsonFormats() []Format {
	return []Format{
		{
			Name: "audit", Title: "Kubernetes audit log", Precision: time.Microsecond, HasAddress: true, special: specialAudit,
			Example: `{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"create",` +
				`"requestReceivedTimestamp":"2006-01-02T15:04:05.000000Z",…}`,
		},
		{
			Name: "decisions", Title: "decision log of Weir", Precision: time.Nanosecond, special: specialDecisions,
			Example: `{"time":"2006-01-02T15:04:05.000Z","level":"INFO","msg":"decision","endpoint":"check","result":"allowed","policy":"shop/api",…}`,
		},
		{
			Name: "traefik-json", Title: "Traefik JSON", Precision: time.Nanosecond, HasHost: true, HasAddress: true, keys: traefikKeys,
			Advice:  `set accessLog.fields.headers.names.HEADER to keep`,
			Example: `{"StartUTC":"2006-01-02T15:04:05.000000000Z","RequestMethod":"GET","RequestPath":"/v1","RequestHost":"shop.example","ClientHost":"192.0.2.1",…}`,
		},
		{
			Name: "envoy-json", Title: "Envoy JSON", Precision: time.Millisecond, HasHost: true, HasAddress: true, keys: envoyKeys,
			Advice:  `add a key with "%REQ(HEADER)%" to json_format, and pass --map header:HEADER=.KEY`,
			Example: `{"start_time":"2006-01-02T15:04:05.000Z","method":"GET","path":"/v1","authority":"shop.example","response_code":200,…}`,
		},
		{
			Name: "json", Title: "JSON lines, as nginx writes them", Precision: time.Second, HasHost: true, HasAddress: true, keys: commonKeys,
			Advice: `add "http_HEADER":"$http_HEADER" to log_format`,
			Example: `{"time_iso8601":"2006-01-02T15:04:05+00:00","request_method":"GET","request_uri":"/v1","host":"shop.example",` +
				`"remote_addr":"192.0.2.1","status":200}`,
		},
	}
}

// restOf returns the constructor of a layout of nginx after which text may follow. What follows the variable optional may be absent.
func restOf(text, optional string) func() (*layout, error) {
	return func() (*layout, error) {
		l, err := nginxLayout(text)
		if err != nil {
			return nil, err
		}
		l.rest = true
		for i := range l.steps {
			if l.steps[i].label == optional {
				l.required = i + 1
			}
		}
		return l, nil
	}
}

// Named returns the format with a name, or of a configuration: nginx:TEXT is a log_format of nginx, and envoy:TEXT is a format string of Envoy.
func Named(name string) (Format, error) {
	if text, ok := strings.CutPrefix(name, nginxPrefix); ok {
		return configured("nginx", "log_format of nginx", text, nginxLayout)
	}
	if text, ok := strings.CutPrefix(name, envoyPrefix); ok {
		return configured("envoy", "format string of Envoy", text, envoyLayout)
	}
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("%q is invalid: must be %s, nginx:LOG_FORMAT or envoy:FORMAT_STRING", name, strings.Join(names, ", "))
}

// configured returns the format of a text layout.
func configured(name, title, text string, compile func(string) (*layout, error)) (Format, error) {
	l, err := compile(text)
	if err != nil {
		return Format{}, fmt.Errorf("the %s is invalid: %w", title, err)
	}
	f := Format{Name: name, Title: title, Example: text, Precision: time.Second, layout: func() (*layout, error) { return compile(text) }}
	hasTime := false
	for i := range l.steps {
		switch s := &l.steps[i]; s.field {
		case host:
			f.HasHost = true
		case source:
			f.HasAddress = true
		case startTime, logTime:
			hasTime = true
		default:
		}
	}
	if !hasTime {
		return Format{}, fmt.Errorf("the %s has no time: it needs $time_local, $time_iso8601, $msec or %%START_TIME%%", title)
	}
	return f, nil
}

// Parser parses lines. It must not be used concurrently.
type Parser struct {
	settings *Settings
	clock    logtime.Clock
	values   values
	layout   *layout
	haproxy  bool
	json     *jsonLog
	audit    *auditLog
	decision *decisionLog
}

// NewParser returns a parser of the format. sample has lines of the log, if there are any: an audit log can omit stages of requests.
func (f *Format) NewParser(s *Settings, sample []string) (*Parser, error) {
	p := &Parser{settings: s, clock: logtime.Clock{Location: s.Location}, haproxy: f.haproxy}
	if s.Map.readsJSON() && f.keys == nil {
		return nil, fmt.Errorf("--map reads keys of JSON, which the format %s does not have", f.Title)
	}
	switch {
	case f.special == specialDecisions:
		p.decision = newDecisionLog(&p.clock)
	case f.special == specialAudit:
		p.audit = newAuditLog(&p.clock, s, sample)
	case f.keys != nil:
		p.json = newJSONLog(f.keys(), s)
	case f.layout != nil:
		var err error
		if p.layout, err = f.layout(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Parse parses a line into r, which must be empty. It sets all fields but File and Line. The error is a [SkipError] if the line is valid but no request to
// replay, and a [ListError] if it contains other lines. Other errors describe what is wrong with the line.
func (p *Parser) Parse(line string, r *Record) (err error) {
	switch {
	case p.decision != nil:
		return p.decision.parse(line, r)
	case p.audit != nil:
		return p.audit.parse(line, r)
	}
	p.values.reset()
	var mapped []string
	switch {
	case p.haproxy:
		err = parseHAProxy(line, &p.values, &p.clock)
	case p.json != nil:
		err = p.json.parse(line, &p.values, &p.clock, p.settings.Map)
		mapped = p.json.mapped
	default:
		err = p.layout.parse(line, &p.values, &p.clock)
	}
	if err == nil && len(p.settings.Map) > 0 {
		err = p.settings.Map.apply(&p.values, mapped, &p.clock)
	}
	if err != nil {
		return err
	}
	return p.values.record(r, p.settings)
}

// Detect returns the format of the lines, which must not be empty. The error shows the first line.
func Detect(lines []string, s *Settings) (Format, error) {
	type candidate struct {
		format Format
		fit    fit
	}
	var candidates []candidate
	for _, f := range Formats() {
		candidates = append(candidates, candidate{format: f, fit: f.fit(lines, s)})
	}
	best := slices.MaxFunc(candidates, func(a, b candidate) int { // the first of equal ones
		return cmp.Or(cmp.Compare(a.fit.score, b.fit.score), cmp.Compare(a.fit.addresses, b.fit.addresses))
	})
	if best.fit.score < len(lines) { // at least half of the lines are requests
		if s.Map.readsJSON() {
			without := *s
			without.Map = nil
			if f, err := Detect(lines, &without); err == nil && f.keys == nil {
				return Format{}, fmt.Errorf("--map reads keys of JSON, and the lines are of the format %s; the first line is %s", f.Title, logtext.Quote(lines[0]))
			}
		}
		return Format{}, fmt.Errorf("the format is unknown; the first line is %s; %s", logtext.Quote(lines[0]), adviceOn(lines, s))
	}
	return best.format, nil
}

// adviceOn returns what to do about lines of an unknown format.
func adviceOn(lines []string, s *Settings) string {
	const usual = "set it with --format, or describe JSON lines with --map"
	first := strings.TrimSpace(lines[0])
	switch {
	case strings.HasPrefix(first, "["):
		return "if it is a list of JSON objects, write each of them on its own line, for example with jq -c '.[]'"
	case strings.HasPrefix(first, "{") && !strings.HasSuffix(first, "}"):
		return "if the log has JSON objects of several lines, write each of them on its own line, for example with jq -c ."
	case strings.HasPrefix(first, "{"):
		f, _ := Named("json")
		p, err := f.NewParser(s, lines)
		if err == nil {
			err = p.Parse(lines[0], &Record{})
		}
		if errors.Is(err, ErrNoRequest) {
			err = errors.New("it has no key for a method or a path")
		}
		return fmt.Sprintf("as a line of JSON: %v; %s", err, usual)
	default:
		return usual
	}
}

// each calls do with the result of each line, and of each line in a list.
func (p *Parser) each(lines []string, do func(r *Record, err error)) {
	for _, line := range lines {
		var r Record
		err := p.Parse(line, &r)
		if list, isList := errors.AsType[ListError](err); isList {
			for _, item := range list {
				var r Record
				do(&r, p.Parse(item, &r))
			}
			continue
		}
		do(&r, err)
	}
}

// Earliest returns the earliest start of the requests of lines. It is the zero time if they have no requests.
func (f *Format) Earliest(lines []string, s *Settings) (first time.Time, err error) {
	p, err := f.NewParser(s, lines)
	if err != nil {
		return first, err
	}
	p.each(lines, func(r *Record, err error) {
		if err == nil && (first.IsZero() || r.Start.Before(first)) {
			first = r.Start
		}
	})
	return first, nil
}

// fit is how well lines fit a format.
type fit struct {
	score     int // 2 for each line that is a request, and 1 for each line that is another line of the format
	addresses int // requests with an address, for formats whose lines others can read with another field in its place
}

// fit returns how well lines fit the format.
func (f *Format) fit(lines []string, s *Settings) (fit fit) {
	p, err := f.NewParser(s, lines)
	if err != nil {
		return fit
	}
	requests, others := 0, 0
	p.each(lines, func(r *Record, err error) {
		var skip SkipError
		switch {
		case err == nil:
			requests++
			if r.Request.ClientIP.IsValid() {
				fit.addresses++
			}
		case errors.As(err, &skip) && f.keys == nil:
			others++
		}
	})
	if f.special == specialDecisions && requests == 0 { // any JSON has other messages
		return fit
	}
	fit.score = 2*requests + others
	return fit
}

// Check returns an error if no line is of the format. It shows the first line, and what the format expects.
func (f *Format) Check(lines []string, s *Settings) error {
	p, err := f.NewParser(s, lines)
	if err != nil {
		return err
	}
	valid := false
	var reason error
	p.each(lines, func(_ *Record, err error) {
		reason = cmp.Or(reason, err)
		valid = valid || err == nil || errors.Is(err, ErrOtherMessage) && f.special == specialDecisions // which begins after the start of the limiter
	})
	if valid || f.fit(lines, s).score > 0 {
		return nil
	}
	message := fmt.Sprintf("the lines are not of the format %s: the first line is %s: %v; a line of this format is %s", f.Title, logtext.Quote(lines[0]), reason,
		f.Example)
	if other, err := Detect(lines, s); err == nil && other.Name != f.Name {
		message += fmt.Sprintf("; the lines look like %s: set --format %s", other.Title, other.Name)
	}
	return errors.New(message)
}
