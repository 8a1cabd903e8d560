package throttle

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// maxRetryAfter bounds what a client can be told to wait: client-go obeys it ten times over.
const retryAfterBound = time.Minute

// Terms are whom a cluster limits, and how it tells them. Build them with [NewTerms].
type Settings struct {
	namespaces, users, groups map[string]bool
	retryAfter                time.Duration
	warnPercent               int64
}

// Settings are what NewTerms takes.
type Options struct {
	// ExemptNamespaces are those in which nothing is limited, ExemptUsers and ExemptGroups who is never. A registration
	// keeps API servers from asking about them; here they are exempt whatever the registration says.
	ExemptNamespaces, ExemptUsers, ExemptGroups []string
	// MaxRetryAfter is the longest wait that a denied client is told, in whole seconds, at most a minute. 0: none is told.
	MaxRetryAfter time.Duration
	// WarnPercent of a limit, 0 … 100: who has used as much is warned. 0 warns never.
	WarnPercent int
}

// NewTerms returns terms, or says which setting is out of bounds.
func NewSettings(s Options) (*Settings, error) {
	if s.MaxRetryAfter < 0 || s.MaxRetryAfter > retryAfterBound || s.MaxRetryAfter%time.Second != 0 {
		return nil, fmt.Errorf("a longest wait of %v is not of whole seconds from 0s to %v", s.MaxRetryAfter, retryAfterBound)
	}
	if s.WarnPercent < 0 || s.WarnPercent > 100 {
		return nil, fmt.Errorf("a warning from %d percent on is outside 0 … 100", s.WarnPercent)
	}
	return &Settings{
		namespaces: set(s.ExemptNamespaces), users: set(s.ExemptUsers), groups: set(s.ExemptGroups),
		retryAfter: s.MaxRetryAfter, warnPercent: int64(s.WarnPercent),
	}, nil
}

// exempt says whether a write is none of a limiter's business.
func (t *Settings) isExempt(in *admissionv1.AdmissionRequest) bool {
	return t.namespaces[in.Namespace] || t.users[in.UserInfo.Username] ||
		slices.ContainsFunc(in.UserInfo.Groups, func(group string) bool { return t.groups[group] })
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		if name != "" { // that of objects in no namespace
			m[name] = true
		}
	}
	return m
}
