package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem types that are more than their status code, from draft-ietf-httpapi-ratelimit-headers-11.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// Problem is an RFC 9457 problem. Field is an extension: the part of the request that is wrong, "query.q[1]". So is
// violated-policies, which the rate-limit draft defines.
type Problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Detail           string   `json:"detail"`
	Field            string   `json:"field,omitempty"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// NewProblem returns a problem that its status describes.
func NewProblem(status int, field, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Field: field}
}

// Denied is the problem of a request that a denies: 429, with the policies that it is over.
func Denied(a *engine.Answer) *Problem {
	p := NewProblem(http.StatusTooManyRequests, "", "")
	p.Type, p.Title = typeQuotaExceeded, "Quota Exceeded"
	var room [256]byte
	detail := append(room[:0], "over the limit of "...)
	for r := range enforced(a) {
		if r.Allowed {
			continue
		}
		if len(p.ViolatedPolicies) > 0 {
			detail = append(detail, ", "...)
		}
		detail = append(detail, r.Rule.Policy...)
		p.ViolatedPolicies = append(p.ViolatedPolicies, r.Rule.Policy)
	}
	if r := a.Strictest(); r != nil && r.RetryAfter == limiter.Never {
		detail = append(detail, "; the request costs more than is ever allowed at once"...)
	} else if r != nil {
		detail = append(detail, "; retry in "...)
		detail = strconv.AppendInt(detail, max(1, seconds(r.RetryAfter)), 10)
		detail = append(detail, " s"...)
	}
	p.Detail = string(detail)
	return p
}

// Unavailable is the problem of a request that err, from the engine, left without a decision: 503.
func Unavailable(err error) *Problem {
	p := NewProblem(http.StatusServiceUnavailable, "", why(err))
	p.Type, p.Title = typeReducedCapacity, "Temporary Reduced Capacity"
	return p
}

// why tells clients of err what they may know: an error of the store's names addresses.
func why(err error) string {
	var refused *engine.RefusedError
	switch {
	case errors.Is(err, engine.ErrNoRules):
		return "there are no rules yet; /readyz says why"
	case errors.As(err, &refused):
		return "policy " + refused.Policy + " denies while its counters cannot be reached"
	default: // of counters that nothing stands in for
		return "the counters cannot be reached; whether the request was counted is not known"
	}
}

// JSON is p as a document, a line, the one that encoding/json writes, in a fraction of its time.
func (p *Problem) JSON() []byte {
	b := make([]byte, 0, 320) // holds that of a denial by a policy or two
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
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, c) >= 0 { // what encoding/json does not leave as it is
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(fmt.Sprintf("reply: encoding a string: %v", err))
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Write sends p. When there was no decision, it asks for a second's patience: past the store's deadline, and long enough for
// a failover to make progress. The client may be gone; there is nobody left to tell then.
func (p *Problem) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", ProblemType)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.JSON())
}
