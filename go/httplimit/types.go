package httplimit

import (
	"github.com/weir-dev/weir/limiter/decision"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// What a [Decider] decides, and its answer. Programs can rely on the fields that are listed here.
type (
	// Check is one request to decide. A program changes it in [Describe]:
	//
	//   - Request [Request]
	//   - Cost int64: how many times the request counts, 0 or more; the policies' own costs multiply it
	//   - Override *Override: a limit that comes with the request, for example from a contract; nil for those of the policies
	//   - MaxDelay Duration: the longest wait for a turn in a LeakyBucket; a longer one is a denial; 0 for any
	//   - NoDelay bool: any wait is a denial
	//   - Peek bool: decide without counting
	Check = decision.Check
	// Request is what policies can match, and count by:
	//
	//   - Domain string: whose policies apply
	//   - Method string
	//   - Host string: in lower case, without a port
	//   - Path string
	//   - Headers map[string]string: by name in lower case, for calls without HTTP
	//   - HeaderLines map[string][]string: the headers of an HTTP request
	//   - ClientIP Addr: invalid if unknown
	//   - Claims map[string]any: of a token that the program has verified
	//   - Descriptors []Descriptor: for policies that match descriptors
	Request = rules.Request
	// Descriptor is a list of entries, as Envoy's rate limit service has them.
	Descriptor = rules.Descriptor
	// Entry is an entry of a Descriptor:
	//
	//   - Key string
	//   - Value string
	Entry = rules.Entry
	// Override is a limit that comes with a request. An identifier has one counter for all overrides with one window. Without a valid limit, the limits of
	// the policies apply; to deny every request of a client, use a tier with limit 0:
	//
	//   - Units int64: of the limit, 1 to 1 000 000 000
	//   - Window Duration: 1 s to 30 days
	//   - WithoutCost bool: the request costs 1 unit, whatever the cost in the policy is
	Override = decision.Override
	// Answer is the decision about a request:
	//
	//   - Allowed bool
	//   - Delay Duration: how long an allowed request waits for its turn in a LeakyBucket
	//   - Results []Result: the enforced policies, strictest first, then those in Shadow
	//   - Source Source: "redis", "memory", "cache", "lease", "local" while Redis is unavailable; another value for a request without a counter
	//   - Revision string: of the policies
	Answer = decision.Answer
	// Result is the decision under one policy:
	//
	//   - Rule *Compiled: the policy, a [Rule]
	//   - Identifier string: as it is counted
	//   - Tier string: of the policy, "" without one
	//   - Window Duration
	//   - Source Source: as in Answer
	//   - Allowed bool
	//   - Limit int64: units per window
	//   - Remaining int64: units
	//   - ResetAfter Duration: until the whole limit is available again
	//   - RetryAfter Duration: until the same request would be allowed; 0 if it is
	Result = decision.Result
	// Rule is the policy of a Result. A [Decider] of a program sets at least Policy, for example in a test: rule := new(httplimit.Rule), and
	// rule.Policy = "shop/per-client":
	//
	//   - Policy string: "namespace/name"
	//   - Shadow bool: the policy only observes; its results come last
	Rule = decision.Rule
	// Denial is the response to a request that a policy denies:
	//
	//   - Status int
	//   - Problem *Problem: nil if the policy has its own response
	Denial = reply.Denial
	// Problem is the response to a request that is not served (RFC 9457):
	//
	//   - Type string
	//   - Title string
	//   - Status int
	//   - Detail string
	//   - Field string: of the request that is wrong, or ""
	//   - ViolatedPolicies []string: "namespace/name"
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
