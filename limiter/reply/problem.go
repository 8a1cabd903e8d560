package reply

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/decision"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem types of draft-ietf-httpapi-ratelimit-headers-11.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// Problem is an RFC 9457 problem document with two extensions: Field is the invalid part of the request, for example "query.q[1]",
// and violated-policies is defined by the rate-limit draft.
type Problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Detail           string   `json:"detail"`
	Field            string   `json:"field,omitempty"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// NewProblem returns a problem without a type of its own: its title is that of the status.
func NewProblem(status int, field, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Field: field}
}

// Denied returns the problem for a request that a denies: status 429, with the policies that deny it. It names those that the header fields list.
func Denied(a *decision.Answer) *Problem {
	p := NewProblem(http.StatusTooManyRequests, "", "")
	p.Type, p.Title = typeQuotaExceeded, "Quota Exceeded"
	var room [256]byte
	detail := append(room[:0], "over the limit of "...)
	for i := range listed(a) {
		r := &a.Results[i]
		if r.Allowed {
			continue
		}
		if len(p.ViolatedPolicies) > 0 {
			detail = append(detail, ", "...)
		}
		detail = append(detail, r.Rule.Policy...)
		p.ViolatedPolicies = append(p.ViolatedPolicies, r.Rule.Policy)
	}
	switch r := a.Strictest(); {
	case r == nil:
	case r.Missing != "":
		detail = append(room[:0], "policy "+r.Rule.Policy+" denies requests without an identifier; send the "+r.Missing...)
	case isEndless(r):
		detail = append(detail, "; the limit is 0, so every request is denied"...)
	case r.RetryAfter == limiter.Never:
		detail = append(detail, "; the request costs more than the limit, so a retry cannot succeed"...)
	default:
		detail = append(detail, "; retry in "...)
		detail = strconv.AppendInt(detail, max(1, seconds(r.RetryAfter)), 10)
		detail = append(detail, " s"...)
	}
	if p.Detail = string(detail); len(a.Results) == 0 {
		p.Detail = "the URL and headers of the request are too large to be checked"
	}
	return p
}

// Unavailable returns the problem for a request that has no decision because of err, an error of the engine: status 503.
func Unavailable(err error) *Problem {
	p := NewProblem(http.StatusServiceUnavailable, "", unavailableDetail(err))
	p.Type, p.Title = typeReducedCapacity, "Temporary Reduced Capacity"
	return p
}

// unavailableDetail describes err without the text of the store's error, which may contain addresses.
func unavailableDetail(err error) string {
	var refused *decision.RefusedError
	switch {
	case errors.Is(err, decision.ErrNoRules):
		return "no rules are loaded yet; see /readyz for the reason"
	case errors.Is(err, limiter.ErrOverloaded):
		return "this limiter is overloaded; the request was not counted"
	case errors.As(err, &refused):
		return "policy " + refused.Policy + " denies requests while its counters are unavailable"
	default: // a store that does not fail over
		return "the counters are unavailable; the request may or may not have been counted"
	}
}

// usualBody is the length of a denial by two policies, in bytes.
const usualBody = 320

// JSON returns p as one line of JSON.
func (p *Problem) JSON() []byte {
	return p.AppendJSON(make([]byte, 0, usualBody))
}

// AppendJSON appends p as one line of JSON: the same bytes as encoding/json, in a fraction of its time.
func (p *Problem) AppendJSON(b []byte) []byte {
	b = appendString(append(b, `{"type":`...), p.Type)
	b = appendString(append(b, `,"title":`...), p.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(p.Status), 10)
	b = appendString(append(b, `,"detail":`...), p.Detail)
	if p.Field != "" {
		b = appendString(append(b, `,"field":`...), p.Field)
	}
	for i, policy := range p.ViolatedPolicies {
		if i == 0 {
			b = append(b, `,"violated-policies":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, policy)
	}
	if len(p.ViolatedPolicies) > 0 {
		b = append(b, ']')
	}
	return append(b, '}', '\n')
}

// appendString appends s as JSON.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if isEscaped(s[i]) {
			return appendValue(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// isEscaped reports whether encoding/json escapes a byte, or may escape it.
func isEscaped(c byte) bool {
	return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}

// Write sends p. With status 503 it sets Retry-After to one second: longer than the store's deadline, and long enough for a failover
// to make progress. It ignores errors, because then the client has disconnected.
func (p *Problem) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", ProblemType)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.JSON())
}
