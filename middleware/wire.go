package middleware

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// Bounds of a check, which limiters set.
const (
	maxCheck   = 64 << 10 // bytes
	maxHeaders = 128
)

// question is the body of POST /v1/check.
type question struct {
	Domain      string            `json:"domain"`
	Method      string            `json:"method,omitempty"`
	Host        string            `json:"host,omitempty"`
	Path        string            `json:"path,omitempty"` // with the query, which may have bytes that JSON has not
	Headers     map[string]string `json:"headers,omitempty"`
	ClientIP    string            `json:"clientIP,omitempty"`
	Claims      map[string]any    `json:"claims,omitempty"`
	Descriptors [][]entry         `json:"descriptors,omitempty"`
	Cost        int64             `json:"cost"`
	Peek        bool              `json:"peek,omitempty"`
}

type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// encode writes c as a body. What a limiter would not read for its size is refused here: it is clients who make requests
// large, and a check that fails must not be a way around the limits.
func encode(c *engine.Check) ([]byte, error) {
	switch r := &c.Request; {
	case c.Override != nil:
		return nil, refused(http.StatusBadRequest, "a limiter cannot be told of an override")
	case c.NoDelay:
		return nil, refused(http.StatusBadRequest, "a limiter cannot be told that a request does not wait")
	case len(r.Headers) > maxHeaders:
		return nil, refused(http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the request has more than %d headers", maxHeaders))
	}
	body, err := json.Marshal(newQuestion(c))
	if err != nil { // claims are of any type
		return nil, refused(http.StatusBadRequest, fmt.Sprintf("write the check: %v", err))
	}
	if len(body) > maxCheck {
		return nil, refused(http.StatusRequestHeaderFieldsTooLarge, "the request's URL and headers are too large for its limits to be checked")
	}
	return body, nil
}

func refused(status int, detail string) error {
	return &ProblemError{reply.NewProblem(status, "", detail)}
}

func newQuestion(c *engine.Check) question {
	r := &c.Request
	q := question{
		Domain: r.Domain, Method: r.Method, Host: r.Host, Headers: r.Headers, Claims: r.Claims,
		Path: target(r), Cost: c.Cost, Peek: c.Peek,
	}
	if r.ClientIP.IsValid() {
		q.ClientIP = r.ClientIP.String()
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

// target is the path, escaped again, and the query: what rules.NormalPath and url.ParseQuery make r's of.
func target(r *rules.Request) string {
	if r.Path == "" && len(r.Query) == 0 {
		return ""
	}
	u := url.URL{Path: r.Path, RawQuery: url.Values(r.Query).Encode()}
	return u.RequestURI()
}

// decode reads what came back. What no limiter answers is as good as no answer: something else is at that URL, or
// between.
func (r response) decode() (engine.Answer, error) {
	switch r.kind {
	case reply.ProblemType:
		p, err := r.problem()
		if err != nil {
			return engine.Answer{}, r.strange(err)
		}
		return engine.Answer{}, &ProblemError{p}
	case "application/json":
		a, err := r.decision()
		if err != nil {
			return engine.Answer{}, r.strange(err)
		}
		return a, nil
	default:
		return engine.Answer{}, r.strange(fmt.Errorf("its Content-Type is %q", r.kind))
	}
}

func (r response) strange(err error) error {
	return &UnreachableError{fmt.Errorf("%s is no answer of a limiter: %w", r.status, err)}
}

func (r response) decision() (engine.Answer, error) {
	a, err := reply.ReadAnswer(r.text)
	if err == nil && r.code != status(a.Allowed) {
		err = fmt.Errorf("allowed is %t", a.Allowed)
	}
	return a, err
}

func status(allowed bool) int {
	if allowed {
		return http.StatusOK
	}
	return http.StatusTooManyRequests
}

// problem reads the problems that limiters have with checks: 400, and a 503 of their own type.
func (r response) problem() (*reply.Problem, error) {
	p := new(reply.Problem)
	if err := json.Unmarshal(r.text, p); err != nil {
		return nil, err
	}
	unavailable := r.code == http.StatusServiceUnavailable && p.Type == reply.Unavailable(engine.ErrNoRules).Type
	if r.code != http.StatusBadRequest && !unavailable {
		return nil, fmt.Errorf("a problem of type %q", p.Type)
	}
	p.Status = r.code
	return p, nil
}
