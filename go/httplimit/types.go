package httplimit

import (
	"github.com/weir-dev/weir/limiter/decision"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// What a [Decider] decides, and its answer.
type (
	// Check is one request to decide.
	Check = decision.Check
	// Request is what policies can match, and count by.
	Request = rules.Request
	// Descriptor is a list of entries, as Envoy's rate limit service has them.
	Descriptor = rules.Descriptor
	// Entry is a key and a value of a Descriptor.
	Entry = rules.Entry
	// Override is a limit that comes with a request.
	Override = decision.Override
	// Answer is the decision about a request.
	Answer = decision.Answer
	// Result is the decision under one policy.
	Result = decision.Result
	// Denial is the response to a request that a policy denies.
	Denial = reply.Denial
	// Problem is the response to a request that is not served (RFC 9457).
	Problem = reply.Problem
	// HeaderStyle is a set of response headers that describe limits, for the option [Style].
	HeaderStyle = reply.Style
)

// The styles of the response headers that describe limits.
const (
	RateLimitHeaders  = reply.RateLimitHeaders  // RateLimit and RateLimit-Policy, draft-ietf-httpapi-ratelimit-headers
	XRateLimitHeaders = reply.XRateLimitHeaders // X-RateLimit-Limit, -Remaining and -Reset, as Envoy has them
	GitHubHeaders     = reply.GitHubHeaders     // the same fields, with the reset as a time
	NoHeaders         = reply.NoHeaders
)
