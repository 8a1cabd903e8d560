package reply

import (
	"cmp"
	"net/http"

	"github.com/weir-dev/weir/limiter/decision"
	"github.com/weir-dev/weir/limiter/rules"
)

// Denial is the response to a denied request at an HTTP endpoint: that of the policy that decides, or its problem document.
type Denial struct {
	Status  int
	Problem *Problem
	policy  *rules.Denial // nil if the policy sets nothing
}

// NewDenial returns the response to a request that a denies.
func NewDenial(a *decision.Answer) Denial {
	d := Denial{Status: http.StatusTooManyRequests, Problem: Denied(a), policy: a.Denial()}
	if d.policy != nil {
		d.Status = d.policy.StatusCode()
	}
	return d
}

// Text returns the message of the policy, or the detail of the problem, for protocols whose responses have a text instead of a body.
func (d *Denial) Text() string {
	if d.policy == nil {
		return d.Problem.Detail
	}
	return cmp.Or(d.policy.Message, d.Problem.Detail)
}

// ContentType returns the media type of the body.
func (d *Denial) ContentType() string {
	if d.policy == nil || d.policy.Message == "" {
		return ProblemType
	}
	return d.policy.MediaType()
}

// AppendBody appends the body.
func (d *Denial) AppendBody(b []byte) []byte {
	if d.policy != nil && d.policy.Message != "" {
		return append(b, d.policy.Message...)
	}
	d.Problem.Status = d.Status
	return d.Problem.AppendJSON(b)
}

// AppendFields appends the Content-Type and, if the policy sets a response, its headers and Cache-Control: caches may keep a response with status
// 404 for other clients. They must not keep one with status 429, that of other denials (RFC 6585).
func (d *Denial) AppendFields(dst []Field) []Field {
	dst = append(dst, Field{Name: "Content-Type", Lower: "content-type", Value: d.ContentType()})
	if d.policy == nil {
		return dst
	}
	dst = append(dst, Field{Name: "Cache-Control", Lower: "cache-control", Value: "no-store"})
	for _, h := range d.policy.Headers {
		dst = append(dst, Field{Name: http.CanonicalHeaderKey(h.Name), Lower: h.Name, Value: h.Value})
	}
	return dst
}

// Write sends the response. It keeps the rate-limit headers that are set. It ignores errors, because then the client has disconnected.
func (d *Denial) Write(w http.ResponseWriter) {
	var room [1]Field
	for _, f := range d.AppendFields(room[:0]) {
		w.Header().Set(f.Name, f.Value)
	}
	w.WriteHeader(d.Status)
	_, _ = w.Write(d.AppendBody(make([]byte, 0, usualBody)))
}
