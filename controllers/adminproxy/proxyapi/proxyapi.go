// Package proxyapi has the types of the admin endpoint of the operator, which forwards requests to the replicas of a Limiter. Its clients and its
// server share them; it imports only the standard library.
package proxyapi

import "encoding/json"

// Prefix of all paths, followed by the namespace and the name of a Limiter.
const Prefix = "/admin/v1/limiters/"

// Answer is the response to a request: what the replicas of a Limiter answer.
type Answer struct {
	Limiter  string    `json:"limiter"`
	Replicas []Replica `json:"replicas"`
}

// Replica is the answer of one replica: an error, an answer, or the name of another replica with the same answer.
type Replica struct {
	// Pod is the name of the pod.
	Pod string `json:"pod"`
	// Error is why the replica did not answer.
	Error string `json:"error,omitempty"`
	// Status is the HTTP status, 0 if the replica did not answer.
	Status int `json:"status,omitempty"`
	// Body of the answer. Empty if it is that of replica SameAs.
	Body   json.RawMessage `json:"body,omitempty"`
	SameAs string          `json:"sameAs,omitempty"`
}
