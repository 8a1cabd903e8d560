package server

import (
	"encoding/json"
	"net/http"
)

// Problem types that are more than their status code, from draft-ietf-httpapi-ratelimit-headers-11.
const typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

// problem is an RFC 9457 problem. Field is an extension: the part of the request that is wrong, "query.q[1]".
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
}

// newProblem returns a problem that its status describes.
func newProblem(status int, field, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Field: field}
}

// badField returns the problem of a request whose field is wrong; why completes the sentence that the field begins.
func badField(field, why string) *problem {
	return newProblem(http.StatusBadRequest, field, field+" "+why)
}

// wrongKind returns the problem of a value that is of another kind than its field.
func wrongKind(field, want, got string) *problem {
	return badField(field, "must be "+want+", not "+got)
}

// write sends p. The client may be gone; there is nobody left to tell then.
func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // plain data encodes; only the client can fail
}
