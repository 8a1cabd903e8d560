package lowering

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/rate"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Valid is a valid policy. Only Validate creates it.
type Valid struct {
	Policy

	Slots []rate.Slot
	Lease *rules.Lease // nil unless the policy has leases; a short window has a shorter one
}

// Validate returns the valid policy, or all problems of the policy in the order of its fields.
func (p *Policy) Validate() (Valid, []Problem) {
	v := validator{policy: p.Name, cluster: p.Cluster != nil, kubernetes: isKubernetes(p.Spec)}
	spec := p.Spec
	v.validateNames(p)
	v.validateAxis(spec)
	v.base = rate.ReadPolicy(spec, v.report)
	v.validateIdentifier(spec)
	v.validateScope(spec)
	v.validateMatch(spec.Match)
	v.validateTargets(p)
	tiers := v.validateTiers(spec)
	v.validateCost(spec, tiers)
	v.validateOverrun(spec)
	validateEnum(&v, "spec.enforcement", spec.Enforcement, policyapi.EnforcementEnforce, policyapi.EnforcementShadow)
	validateEnum(&v, "spec.onStoreFailure", spec.OnStoreFailure, policyapi.StoreFailureLocal, policyapi.StoreFailureAllow, policyapi.StoreFailureDeny)
	v.validateLocalShare(spec)
	lease := v.validateLease(spec)
	v.validateStorage(spec)
	v.validateDenial(spec.Denial)
	v.validateReplaces(p)
	if p.Cluster != nil {
		v.validateCluster(p.Cluster)
	}
	if len(v.problems) > 0 {
		return Valid{}, v.problems
	}
	slots := rate.Slots(rate.Limits(v.base), tiers)
	if len(slots) > rate.MaxSlots {
		v.report("spec.tiers", "the policy and its tiers have %d windows and algorithms together, at most %d are possible; use fewer", len(slots), rate.MaxSlots)
	}
	return Valid{Policy: *p, Slots: slots, Lease: lease}, v.problems
}

// Problem is one reason why a policy is not enforced.
type Problem struct {
	Policy string `json:"policy"` // "namespace/name", or "_cluster/name"
	// Cluster is true if the policy is a ClusterRateLimitPolicy.
	Cluster bool   `json:"cluster,omitempty"`
	Field   string `json:"field"`  // "spec.match.http.paths[0].value"
	Reason  string `json:"reason"` // a reason of the condition Accepted: policyapi.ReasonInvalid
	Message string `json:"message"`
}

// String returns "shop/tenant-daily: spec.limit: message".
func (p Problem) String() string { return p.Policy + ": " + p.Field + ": " + p.Message }

// validator collects the problems of one policy.
type validator struct {
	policy     string
	cluster    bool
	kubernetes bool // the policy limits writes to the Kubernetes API
	problems   []Problem
	sources    rules.Rule // the sources of the identifier, with the default identity table
	base       []rate.Rate
	rates      []rate.Rate // of the policy and its tiers
}

func (v *validator) report(field, format string, args ...any) {
	v.problems = append(v.problems, Problem{
		Policy: v.policy, Cluster: v.cluster, Field: field, Reason: policyapi.ReasonInvalid, Message: fmt.Sprintf(format, args...),
	})
}

// validateEnum reports a value that is neither empty nor supported.
func validateEnum[T ~string](v *validator, field string, value T, supported ...T) {
	if value == "" {
		return
	}
	names := make([]string, len(supported))
	for i, k := range supported {
		if value == k {
			return
		}
		names[i] = string(k)
	}
	v.report(field, "unknown value %q; supported values: %s", value, strings.Join(names, ", "))
}

func (v *validator) validateName(field, name string) {
	switch {
	case name == "":
		v.report(field, "must not be empty")
	case strings.Contains(name, "/"):
		v.report(field, "%q must not contain a slash", name)
	case strings.Contains(name, ":"): // it separates the name of a rate
		v.report(field, "%q must not contain a colon", name)
	}
}

func (v *validator) validateAxis(spec *policyapi.RateLimitPolicySpec) {
	if spec.Axis == "" {
		v.report("spec.axis", "must not be empty; set the axis, such as Tenant")
	}
	validateEnum(v, "spec.axis", spec.Axis,
		policyapi.AxisIP, policyapi.AxisTenant, policyapi.AxisUser, policyapi.AxisAPIKey, policyapi.AxisEndpoint, policyapi.AxisNamespace,
		policyapi.AxisServiceAccount, policyapi.AxisCustom)
	v.validateAxisOfKind(spec.Axis)
}

func (v *validator) validateIdentifier(spec *policyapi.RateLimitPolicySpec) {
	const field = "spec.identifier"
	id := spec.Identifier
	v.sources.Identifier = sourceOf(spec, DefaultIdentity())
	v.sources.Fallbacks = fallbacksOf(spec, v.sources.Identifier)
	if spec.Axis == policyapi.AxisCustom && (id == nil || countSources(&id.IdentifierSource) == 0) {
		v.report(field, "identifier is required with axis Custom; set the source of the identifier, or use an axis that has a default identifier")
	}
	if id == nil {
		return
	}
	v.validateIdentifierOfKind(spec.Axis, id)
	if spec.Axis == policyapi.AxisEndpoint {
		v.report(field, "identifier must not be set with axis Endpoint, because the endpoint is the identifier; remove identifier, "+
			"or use the axis of the identifier with scope: Endpoint")
	}
	if countSources(&id.IdentifierSource)+len(id.Fallbacks) == 0 && id.OnMissing == "" {
		v.report(field, "must not be empty; set the source of the identifier, or remove identifier")
	}
	v.validateSource(field, &id.IdentifierSource)
	for i := range id.Fallbacks {
		field := fmt.Sprintf("%s.fallbacks[%d]", field, i)
		if countSources(&id.Fallbacks[i]) == 0 {
			v.report(field, "each fallback must have a source: header, query, cookie, claim, descriptor or expression")
		}
		v.validateSource(field, &id.Fallbacks[i])
	}
	const maxFallbacks = 4
	if len(id.Fallbacks) > maxFallbacks {
		v.report(field+".fallbacks", "must have at most %d entries, got %d", maxFallbacks, len(id.Fallbacks))
	}
	validateEnum(v, field+".onMissing", id.OnMissing,
		policyapi.OnMissingClientAddress, policyapi.OnMissingShared, policyapi.OnMissingSkip, policyapi.OnMissingDeny)
	if len(v.problems) == 0 { // each source is one
		if err := rules.ValidateFallbacks(v.sources.Identifier, v.sources.Fallbacks); err != nil {
			v.report(field, "%v; remove one of them", err)
		}
	}
}

// countSources returns the number of fields that are set.
func countSources(s *policyapi.IdentifierSource) int {
	n := 0
	for _, isSet := range []bool{s.Header != nil, s.Query != nil, s.Cookie != nil, s.Claim != nil, s.Descriptor != nil, s.Expression != nil} {
		if isSet {
			n++
		}
	}
	return n
}

// validateSource reports invalid sources, and more than one.
func (v *validator) validateSource(field string, id *policyapi.IdentifierSource) {
	if id.Header != nil {
		v.validateHeaderName(field+".header", *id.Header)
	}
	if id.Query != nil {
		v.validateNotEmpty(field+".query", *id.Query)
	}
	if id.Cookie != nil {
		if !isToken(*id.Cookie) {
			v.report(field+".cookie", "%q: a cookie name must be one or more letters, digits or characters of %s", *id.Cookie, tokenMarks)
		}
	}
	if id.Claim != nil {
		v.validateNotEmpty(field+".claim", *id.Claim)
	}
	if id.Descriptor != nil {
		v.validateNotEmpty(field+".descriptor", string(*id.Descriptor))
	}
	if id.Expression != nil {
		v.validateExpression(field+".expression", *id.Expression, expr.ResultString)
	}
	if countSources(id) > 1 {
		v.report(field, "at most one of the fields in [header query cookie claim descriptor expression] may be set")
	}
}

func (v *validator) validateNotEmpty(field, value string) {
	if value == "" {
		v.report(field, "must not be empty")
	}
}

func (v *validator) validateScope(spec *policyapi.RateLimitPolicySpec) {
	validateEnum(v, "spec.scope", spec.Scope, policyapi.ScopePolicy, policyapi.ScopeEndpoint)
	if spec.Axis == policyapi.AxisEndpoint && spec.Scope == policyapi.ScopeEndpoint {
		v.report("spec.scope", "scope: Endpoint must not be set with axis Endpoint, which already has one counter per endpoint; remove scope")
	}
	if v.kubernetes && spec.Scope == policyapi.ScopeEndpoint {
		v.report("spec.scope", "scope: Endpoint must not be set with match.kubernetes, because a write has no endpoint; remove scope")
	}
}

func (v *validator) validateHeaderName(field string, name policyapi.HeaderName) {
	if !isToken(name) {
		v.report(field, "%q: a header name must be one or more letters, digits or characters of %s", name, tokenMarks)
	}
}

// tokenMarks are the characters that the names of headers and cookies can have in addition to letters and digits.
const tokenMarks = "!#$%&*+-.^_|~"

func isToken[T ~string](s T) bool {
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && !strings.ContainsRune(tokenMarks, rune(s[i])) {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }

// validateOverrun reports debts on counters that cannot hold more units than their limit, and on leased units.
func (v *validator) validateOverrun(spec *policyapi.RateLimitPolicySpec) {
	validateEnum(v, "spec.overrun", spec.Overrun, policyapi.OverrunDeny, policyapi.OverrunDebt)
	if spec.Overrun != policyapi.OverrunDebt {
		return
	}
	if slices.ContainsFunc(v.rates, func(r rate.Rate) bool { return r.AlgorithmValid && !r.Algorithm.Traits().Debts }) {
		v.report("spec.overrun", "overrun: Debt is valid only with algorithm FixedWindow or SlidingWindowCounter, whose counters can hold more "+
			"units than the limit; use one of these algorithms or remove overrun")
	}
	if spec.Lease != nil {
		v.report("spec.overrun", "overrun: Debt is invalid with lease, because a replica cannot admit a debt from memory; remove overrun or lease")
	}
}

func (v *validator) validateLocalShare(spec *policyapi.RateLimitPolicySpec) {
	validateEnum(v, "spec.localShare", spec.LocalShare, policyapi.LocalShareEqual, policyapi.LocalShareWhole)
	if spec.LocalShare == policyapi.LocalShareWhole && spec.OnStoreFailure != "" && spec.OnStoreFailure != policyapi.StoreFailureLocal {
		v.report("spec.localShare", "localShare: Whole is valid only with onStoreFailure: Local, because the other values count nothing on the replicas; "+
			"remove localShare or use onStoreFailure: Local")
	}
}

func (v *validator) validateStorage(spec *policyapi.RateLimitPolicySpec) {
	validateEnum(v, "spec.storage", spec.Storage, policyapi.StorageExact, policyapi.StorageCompact)
	isUnable := func(r rate.Rate) bool { return r.AlgorithmValid && r.WindowValid && !r.Algorithm.HasCompact() }
	if spec.Storage == policyapi.StorageCompact && slices.ContainsFunc(v.rates, isUnable) {
		v.report("spec.storage", "storage must be Exact with this algorithm, because only the counts of a window are small enough; "+
			"use Exact, or algorithm SlidingWindowCounter or FixedWindow")
	}
}

// validateNames validates the names of the policy and of its namespace.
func (v *validator) validateNames(policy *Policy) {
	if policy.Cluster == nil {
		v.validateName("metadata.namespace", policy.Namespace)
		if policy.Namespace == policyname.Cluster { // only in a file
			v.report("metadata.namespace", "%q must be the name of a namespace, and names of namespaces have no underscore", policy.Namespace)
		}
	}
	v.validateName("metadata.name", policy.ObjectName)
	if name := policy.Spec.CounterName; name != "" && !isObjectName(name) {
		v.report("spec.counterName", "%q: counterName must be the name of a policy: lower-case letters, digits, hyphens and dots, with a letter or digit "+
			"at both ends, and at most %d characters", name, maxLabel)
	}
}

// validateReplaces reports names that no default can have.
func (v *validator) validateReplaces(policy *Policy) {
	for i, name := range policy.Spec.Replaces {
		if !isObjectName(string(name)) {
			v.report(fmt.Sprintf("spec.replaces[%d]", i), "%q: replaces must have names of ClusterRateLimitPolicies: lower-case letters, digits, hyphens "+
				"and dots, with a letter or digit at both ends, and at most %d characters", name, maxLabel)
		}
	}
	if len(policy.Spec.Replaces) > 0 && policy.Cluster != nil && policy.Cluster.Precedence == policyapi.PrecedenceDefault {
		v.report("spec.replaces", "replaces must not be set with precedence: Default, because a default replaces no other one; remove one of them")
	}
}

func (v *validator) validateCluster(spec *policyapi.ClusterRateLimitPolicySpec) {
	for i, domain := range spec.Domains {
		if domain == "" || strings.ContainsFunc(string(domain), isSpaceOrControl) {
			v.report(fmt.Sprintf("spec.domains[%d]", i),
				"%q: a domain must be one or more characters without spaces: the name of a namespace, or the domain that your proxy sends", domain)
		}
	}
	validateEnum(v, "spec.precedence", spec.Precedence, policyapi.PrecedenceOverride, policyapi.PrecedenceDefault)
}

func isSpaceOrControl(r rune) bool {
	return r <= unicode.MaxASCII && (unicode.IsSpace(r) || unicode.IsControl(r))
}
