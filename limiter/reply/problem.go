package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	for r := range enforced(a) {
		if !r.Allowed {
			p.ViolatedPolicies = append(p.ViolatedPolicies, r.Rule.Policy)
		}
	}
	p.Detail = "over the limit of " + strings.Join(p.ViolatedPolicies, ", ")
	if r := a.Strictest(); r != nil && r.RetryAfter == limiter.Never {
		p.Detail += "; the request costs more than is ever allowed at once"
	} else if r != nil {
		p.Detail += fmt.Sprintf("; retry in %d s", max(1, seconds(r.RetryAfter)))
	}
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

// JSON is p as a document, a line.
func (p *Problem) JSON() []byte {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(p); err != nil {
		panic(fmt.Sprintf("reply: encoding plain data: %v", err))
	}
	return b.Bytes()
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
