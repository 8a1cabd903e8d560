package httplimit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter/decision"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// maxCheck is the size of the largest check that limiters decide, in bytes.
const maxCheck = 1 << 20

// checkBody is the body of POST /v1/check.
type checkBody struct {
	Domain      string         `json:"domain"`
	Method      string         `json:"method,omitempty"`
	Host        string         `json:"host,omitempty"`
	Path        string         `json:"path,omitempty"`    // escaped, with the query: unescaped, they may contain bytes that JSON cannot
	Headers     any            `json:"headers,omitempty"` // texts, or lists of lines, by name; nil without headers
	ClientIP    string         `json:"clientIP,omitempty"`
	Claims      map[string]any `json:"claims,omitempty"`
	Descriptors [][]entry      `json:"descriptors,omitempty"`
	Cost        int64          `json:"cost"`
	Peek        bool           `json:"peek,omitempty"`
	Override    *override      `json:"override,omitempty"`
}

// jsonType is the media type of a decision.
const jsonType = "application/json"

type override struct {
	Limit       int64 `json:"limit"`
	WindowMs    int64 `json:"windowMs"`
	WithoutCost bool  `json:"withoutCost,omitempty"`
}

type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// encode writes c as a body. It rejects checks that are too large for a limiter: a client controls the size of a request, and must not be
// able to evade its limits by a check that fails.
func encode(c *Check) ([]byte, error) {
	if c.NoDelay {
		return nil, rejected(http.StatusBadRequest, "a Remote does not support NoDelay")
	}
	body, err := json.Marshal(newCheckBody(c))
	if err != nil { // claims are of any type
		return nil, rejected(http.StatusBadRequest, fmt.Sprintf("encode the check: %v", err))
	}
	if len(body) > maxCheck {
		return nil, rejected(http.StatusRequestHeaderFieldsTooLarge, "the request's URL and headers are too large for its limits to be checked")
	}
	return body, nil
}

func rejected(status int, detail string) error {
	return &ProblemError{reply.NewProblem(status, "", detail)}
}

func newCheckBody(c *Check) checkBody {
	r := &c.Request
	q := checkBody{
		Domain: r.Domain, Method: r.Method, Host: r.Host, Headers: headersOf(r), Claims: r.Claims,
		Path: target(r), Cost: c.Cost, Peek: c.Peek,
	}
	if r.ClientIP.IsValid() {
		q.ClientIP = r.ClientIP.String()
	}
	if o := c.Override; o != nil {
		q.Override = &override{o.Units, (o.Window + time.Millisecond - 1).Milliseconds(), o.WithoutCost}
	}
	for _, d := range r.Descriptors {
		entries := make([]entry, len(d))
		for i, e := range d {
			entries[i] = entry(e)
		}
		q.Descriptors = append(q.Descriptors, entries)
	}
	return q
}

// headersOf returns the headers by name: a text, or lines that make it, for a header that the request repeats.
func headersOf(r *rules.Request) any {
	switch {
	case len(r.Headers) == 0:
		return nil
	case len(r.RepeatedHeaders) == 0:
		return r.Headers
	}
	headers := make(map[string]any, len(r.Headers))
	for name, text := range r.Headers {
		headers[name] = text
	}
	for _, name := range r.RepeatedHeaders {
		headers[name] = strings.SplitN(r.Headers[name], ",", 2)
	}
	return headers
}

// target is the escaped path with the query: the input from which SetTarget and SetQuery produce those of r.
func target(r *rules.Request) string {
	if r.Path == "" && len(r.Query) == 0 && r.RawQuery == "" {
		return ""
	}
	query := url.Values(r.Query).Encode()
	if r.RawQuery != "" {
		query = escapeText(r.RawQuery)
	}
	u := url.URL{Path: r.Path, RawQuery: query}
	if r.RawPath == "" {
		return u.RequestURI()
	}
	u.Path = ""
	return escapeText(r.RawPath) + strings.TrimPrefix(u.RequestURI(), "/")
}

// escapeText escapes the bytes that text in JSON cannot have, and those that are not ASCII.
func escapeText(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c < utf8.RuneSelf {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// decode reads the response. A response that no limiter writes is an UnreachableError: another server is at the URL, or a proxy
// responded. A decision that is too large is a ProblemError, because a client may have caused it: the limiter is available, and the
// request must not be served.
func (r response) decode() (Answer, error) {
	if len(r.text) > maxAnswer {
		tooLarge := fmt.Errorf("larger than %d bytes", maxAnswer)
		if r.kind != jsonType || r.code != status(true) && r.code != status(false) {
			return Answer{}, r.unexpected(tooLarge)
		}
		return Answer{}, fmt.Errorf("response %s is %w: %w", r.status, tooLarge,
			rejected(http.StatusRequestHeaderFieldsTooLarge, "the answer about the request's limits is too large; send shorter headers"))
	}
	switch r.kind {
	case reply.ProblemType:
		p, err := r.problem()
		if err != nil {
			return Answer{}, r.unexpected(err)
		}
		return Answer{}, &ProblemError{p}
	case jsonType:
		a, err := r.decision()
		if err != nil {
			return Answer{}, r.unexpected(err)
		}
		return a, nil
	default:
		return Answer{}, r.unexpected(fmt.Errorf("unknown Content-Type %q", r.kind))
	}
}

func (r response) unexpected(err error) error {
	return &UnreachableError{fmt.Errorf("unexpected response %s, not from a limiter: %w", r.status, err)}
}

func (r response) decision() (Answer, error) {
	a, err := reply.ReadAnswer(r.text)
	if err == nil && r.code != status(a.Allowed) {
		err = fmt.Errorf("allowed is %t, which contradicts the status", a.Allowed)
	}
	return a, err
}

func status(allowed bool) int {
	if allowed {
		return http.StatusOK
	}
	return http.StatusTooManyRequests
}

// problem reads the problems that limiters return for checks: status 400, and status 503 with the type of a limiter.
func (r response) problem() (*Problem, error) {
	p := new(Problem)
	if err := json.Unmarshal(r.text, p); err != nil {
		return nil, err
	}
	unavailable := r.code == http.StatusServiceUnavailable && p.Type == reply.Unavailable(decision.ErrNoRules).Type
	if r.code != http.StatusBadRequest && !unavailable {
		return nil, fmt.Errorf("unknown problem type %q", p.Type)
	}
	p.Status = r.code
	return p, nil
}
