package throttle

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// retryAfterBound bounds the Retry-After of a denial: client-go waits up to ten times.
const retryAfterBound = time.Minute

// Settings state which writes are exempt, and how responses are worded. Create them with [NewSettings].
type Settings struct {
	namespaces, users, groups map[string]bool
	retryAfter                time.Duration
	warnPercent               int64
}

// Options are the input of [NewSettings].
type Options struct {
	// Writes to ExemptNamespaces, and by ExemptUsers and ExemptGroups, are never limited. The webhook configuration already excludes them,
	// but the endpoint does not rely on it.
	ExemptNamespaces, ExemptUsers, ExemptGroups []string
	// MaxRetryAfter is the longest Retry-After of a denial, in whole seconds, at most a minute. With 0 no Retry-After is sent.
	MaxRetryAfter time.Duration
	// WarnPercent is the percentage of a limit, 0 to 100, from which on allowed writes come with a warning. 0 disables warnings.
	WarnPercent int
}

// NewSettings validates the options.
func NewSettings(o Options) (*Settings, error) {
	if o.MaxRetryAfter < 0 || o.MaxRetryAfter > retryAfterBound || o.MaxRetryAfter%time.Second != 0 {
		return nil, fmt.Errorf("the longest retry-after %v must be in whole seconds, from 0s to %v", o.MaxRetryAfter, retryAfterBound)
	}
	if o.WarnPercent < 0 || o.WarnPercent > 100 {
		return nil, fmt.Errorf("the warning percentage %d must be from 0 to 100", o.WarnPercent)
	}
	return &Settings{
		namespaces: set(o.ExemptNamespaces), users: set(o.ExemptUsers), groups: set(o.ExemptGroups),
		retryAfter: o.MaxRetryAfter, warnPercent: int64(o.WarnPercent),
	}, nil
}

// isExempt reports whether the write is never limited.
func (s *Settings) isExempt(in *admissionv1.AdmissionRequest) bool {
	return s.namespaces[in.Namespace] || s.users[in.UserInfo.Username] ||
		slices.ContainsFunc(in.UserInfo.Groups, func(group string) bool { return s.groups[group] })
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		if name != "" { // "" is the namespace of cluster-scoped objects
			m[name] = true
		}
	}
	return m
}
