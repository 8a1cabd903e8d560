package compile

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// valid is a policy that can be enforced: only validate builds it.
type valid struct {
	candidate

	limit limiter.Limit
	tiers []limiter.Limit // of spec.Tiers; the zero Limit for one that is unlimited
}

// validate returns the policy of a group made ready for lowering, or everything that stands against enforcing it, in
// the order of the policy's fields. An enum that is empty has its default: the API fills it in, Go code need not.
func validate(same []candidate) (valid, []Problem) {
	policy := same[0]
	c := checker{policy: policy.name, cluster: policy.cluster != nil, kubernetes: isKubernetes(policy.spec)}
	if len(same) > 1 {
		c.add("metadata.name", "%d policies have this name and none of them is enforced; rename all but one", len(same))
		return valid{}, c.problems
	}
	spec := policy.spec
	c.checkPlace(policy)
	c.checkAxis(spec)
	limit := c.checkLimit(spec)
	c.checkIdentifier(spec)
	c.checkScope(spec)
	c.checkMatch(spec.Match)
	tiers := c.checkTiers(spec)
	c.checkCost(spec, limit, tiers)
	checkEnum(&c, "spec.enforcement", spec.Enforcement, v1alpha1.EnforcementEnforce, v1alpha1.EnforcementShadow)
	checkEnum(&c, "spec.onStoreFailure", spec.OnStoreFailure, v1alpha1.StoreFailureLocal, v1alpha1.StoreFailureAllow, v1alpha1.StoreFailureDeny)
	if policy.cluster != nil {
		c.checkCluster(policy.cluster)
	}
	return valid{candidate: policy, limit: limit, tiers: tiers}, c.problems
}

// checker collects the problems of one policy.
type checker struct {
	policy     string
	cluster    bool
	kubernetes bool // for writes to the Kubernetes API
	problems   []Problem
}

func (c *checker) add(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{
		Policy: c.policy, Cluster: c.cluster, Field: field, Reason: v1alpha1.ReasonInvalid, Message: fmt.Sprintf(format, args...),
	})
}

// checkEnum refuses a value that is neither empty nor one of the known.
func checkEnum[T ~string](c *checker, field string, value T, known ...T) {
	if value == "" {
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		if value == k {
			return
		}
		names[i] = string(k)
	}
	c.add(field, "unknown value %q; supported values: %s", value, strings.Join(names, ", "))
}

func (c *checker) checkName(field, name string) {
	switch {
	case name == "":
		c.add(field, "must not be empty")
	case strings.Contains(name, "/"):
		c.add(field, "%q must not contain a slash", name)
	}
}

func (c *checker) checkAxis(spec *v1alpha1.RateLimitPolicySpec) {
	if spec.Axis == "" {
		c.add("spec.axis", "must not be empty; set the axis, such as Tenant")
	}
	checkEnum(c, "spec.axis", spec.Axis,
		v1alpha1.AxisIP, v1alpha1.AxisTenant, v1alpha1.AxisUser, v1alpha1.AxisAPIKey, v1alpha1.AxisEndpoint, v1alpha1.AxisNamespace,
		v1alpha1.AxisServiceAccount, v1alpha1.AxisCustom)
	c.checkAxisOfKind(spec.Axis)
}

// counting is how a policy counts: its algorithm and window, and sound ones in place of those that are wrong.
type counting struct {
	algorithm               limiter.Algorithm
	window                  time.Duration
	algorithmErr, windowErr error
}

func (h counting) sound() bool { return h.algorithmErr == nil && h.windowErr == nil }

func howCounted(spec *v1alpha1.RateLimitPolicySpec) counting {
	how := counting{algorithm: limiter.Algorithm(cmp.Or(spec.Algorithm, v1alpha1.SlidingWindowCounter))}
	if _, how.algorithmErr = limiter.NewLimit(how.algorithm, 1, limiter.MinWindow); how.algorithmErr != nil {
		how.algorithm = limiter.SlidingWindowCounter
	}
	how.window, how.windowErr = ParseWindow(spec.Window)
	how.window = max(how.window, limiter.MinWindow)
	return how
}

// checkLimit judges limit, window and algorithm each by itself, beside a sound value of what is wrong, and then the burst,
// which depends on all three. It returns the zero Limit if anything is wrong.
func (c *checker) checkLimit(spec *v1alpha1.RateLimitPolicySpec) limiter.Limit {
	how := howCounted(spec)
	limit, limitErr := limiter.NewLimit(how.algorithm, spec.Limit, how.window)
	for _, check := range []struct {
		field string
		err   error
	}{{"spec.limit", limitErr}, {"spec.window", how.windowErr}, {"spec.algorithm", how.algorithmErr}} {
		if check.err != nil {
			c.add(check.field, "%v", check.err)
		}
	}
	if limitErr != nil || !how.sound() {
		return limiter.Limit{}
	}
	return c.checkBurst("spec.burst", limit, spec.Burst)
}

// checkBurst returns limit with the burst that is given, the zero Limit if it cannot have that.
func (c *checker) checkBurst(field string, limit limiter.Limit, given *int64) limiter.Limit {
	if given == nil {
		return limit
	}
	withBurst, err := limit.WithBurst(*given)
	if err != nil {
		c.add(field, "%v", err)
	}
	return withBurst
}

func (c *checker) checkIdentifier(spec *v1alpha1.RateLimitPolicySpec) {
	const field = "spec.identifier"
	id := spec.Identifier
	if id == nil {
		if spec.Axis == v1alpha1.AxisCustom {
			c.add(field, "identifier is required with axis Custom; set identifier, or use an axis that has a default identifier")
		}
		return
	}
	c.checkIdentifierOfKind(spec.Axis, id)
	if spec.Axis == v1alpha1.AxisEndpoint {
		c.add(field, "identifier must not be set with axis Endpoint, because the endpoint is the identifier; remove identifier, "+
			"or use the axis of the identifier with scope: Endpoint")
	}
	c.checkSource(field, id)
}

// checkSource wants exactly one place where an identifier stands.
func (c *checker) checkSource(field string, id *v1alpha1.Identifier) {
	given := 0
	if id.Header != nil {
		given++
		c.checkHeaderName(field+".header", *id.Header)
	}
	if id.Query != nil {
		given++
		c.checkNotEmpty(field+".query", *id.Query)
	}
	if id.Cookie != nil {
		given++
		if !isToken(*id.Cookie) {
			c.add(field+".cookie", "%q: a cookie name must be one or more letters, digits or characters of %s", *id.Cookie, tokenMarks)
		}
	}
	if id.Claim != nil {
		given++
		c.checkNotEmpty(field+".claim", *id.Claim)
	}
	if id.Descriptor != nil {
		given++
		c.checkNotEmpty(field+".descriptor", string(*id.Descriptor))
	}
	if id.Expression != nil {
		given++
		c.checkExpression(field+".expression", *id.Expression, rules.ResultString)
	}
	if given != 1 {
		c.add(field, "exactly one of the fields in [header query cookie claim descriptor expression] must be set")
	}
}

func (c *checker) checkNotEmpty(field, value string) {
	if value == "" {
		c.add(field, "must not be empty")
	}
}

func (c *checker) checkScope(spec *v1alpha1.RateLimitPolicySpec) {
	checkEnum(c, "spec.scope", spec.Scope, v1alpha1.ScopePolicy, v1alpha1.ScopeEndpoint)
	if spec.Axis == v1alpha1.AxisEndpoint && spec.Scope == v1alpha1.ScopeEndpoint {
		c.add("spec.scope", "scope: Endpoint must not be set with axis Endpoint, which already has one counter per endpoint; remove scope")
	}
	if c.kubernetes && spec.Scope == v1alpha1.ScopeEndpoint {
		c.add("spec.scope", "scope: Endpoint must not be set with match.kubernetes, because a write has no endpoint; remove scope")
	}
}

func (c *checker) checkHeaderName(field string, name v1alpha1.HeaderName) {
	if !isToken(name) {
		c.add(field, "%q: a header name must be one or more letters, digits or characters of %s", name, tokenMarks)
	}
}

// tokenMarks is what names of headers and cookies may hold beside letters and digits.
const tokenMarks = "!#$%&*+-.^_|~"

func isToken[T ~string](s T) bool {
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && strings.IndexByte(tokenMarks, s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
