package adminproxy

import (
	"bytes"
	"encoding/json"
)

// Answer has the answers of all replicas of a Limiter.
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

// withoutRepetitions replaces bodies that an earlier replica has too: a rule set can have megabytes.
func withoutRepetitions(replicas []Replica) []Replica {
	for i := range replicas {
		for j := range i {
			if len(replicas[i].Body) > 0 && replicas[i].Status == replicas[j].Status && bytes.Equal(replicas[i].Body, replicas[j].Body) {
				replicas[i].Body, replicas[i].SameAs = nil, replicas[j].Pod
				break
			}
		}
	}
	return replicas
}
