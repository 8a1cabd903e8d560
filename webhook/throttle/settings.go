package throttle

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// retryAfterBound bounds the Retry-After of a denial: client-go waits up to ten times.
const retryAfterBound = time.Minute

// Settings state which writes are exempt, and how responses are worded. Create them with [NewSettings].
type Settings struct {
	// namespaces, users and groups are exempt.
	namespaces, users, groups map[string]bool
	retryAfter                time.Duration
	warnPercent               int64
}

// Options are the input of [NewSettings].
type Options struct {
	// Exempt lists whose writes are never limited, and where, in addition to the writes that are always exempt. The webhook configuration
	// already excludes both, but the endpoint does not rely on it.
	Exempt exempt.Lists
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
		namespaces: set(o.Exempt.Namespaces), users: set(o.Exempt.Users), groups: set(o.Exempt.Groups),
		retryAfter: o.MaxRetryAfter, warnPercent: int64(o.WarnPercent),
	}, nil
}

// isExempt reports whether the write is never limited. An API server sends the name of a Namespace object as its namespace.
func (s *Settings) isExempt(request *admissionv1.AdmissionRequest, write *rules.KubernetesRequest) bool {
	return s.namespaces[request.Namespace] || s.users[write.User] ||
		slices.ContainsFunc(write.Groups, func(group string) bool { return s.groups[group] }) ||
		exempt.Write(write)
}

// Read reads the AdmissionReview of a write. It returns the write as rules match it, and whether it is never limited.
func (s *Settings) Read(review []byte) (write rules.Request, isExempt bool, bad *reply.Problem) {
	request, bad := decodeReview(review)
	if bad != nil {
		return rules.Request{}, false, bad
	}
	write = toRequest(request)
	return write, s.isExempt(request, write.Kubernetes), nil
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
