// Package lintrule has the rules that weir lint applies to policy files: their ids, which never change, and what each one finds. The page
// docs/reference/lint-rules.md describes them.
package lintrule

import "slices"

// Severity is how serious a finding is.
type Severity string

// The severities.
const (
	// Error is the severity of what keeps a policy from being enforced.
	Error Severity = "error"
	// Warning is the severity of a part of a valid policy that is expensive, has no effect, or shows a secret.
	Warning Severity = "warning"
	// Note is the severity of what is worth knowing about a policy and is rarely wrong.
	Note Severity = "note"
)

// The rules whose findings are errors.
const (
	InvalidDocument = "invalid-document"
	UnknownKind     = "unknown-kind"
	ForeignGroup    = "foreign-group"
	NothingToCheck  = "nothing-to-check"
	DuplicatePolicy = "duplicate-policy"
	DuplicateField  = "duplicate-field"
	UnknownField    = "unknown-field"
	InvalidValue    = "invalid-value"
	Conflict        = "conflict"
)

// The rules whose findings are warnings.
const (
	DefaultNamespace    = "default-namespace"
	UnusualNumber       = "unusual-number"
	NoMatch             = "no-match"
	ShadowedTier        = "shadowed-tier"
	RepeatedIdentifier  = "repeated-identifier"
	StricterPolicy      = "stricter-policy"
	Replaces            = "replaces"
	NoEffect            = "no-effect"
	BlocksEverything    = "blocks-everything"
	CostAboveLimit      = "cost-above-limit"
	LargeLog            = "large-log"
	WindowBoundary      = "window-boundary"
	DescriptorWithout   = "descriptor-without-key"
	PlainCredential     = "plain-credential"
	AllResources        = "all-resources"
	ScaleNotLimited     = "scale-not-limited"
	WritesNeverWait     = "writes-never-wait"
	OverBudget          = "over-budget"
	SeveralLimiters     = "several-limiters"
	InvalidSuppression  = "invalid-suppression"
	UnneededSuppression = "unneeded-suppression"
)

// The rules whose findings are notes.
const (
	Overridden = "overridden"
)

// Rule is a rule of weir lint.
type Rule struct {
	ID       string
	Severity Severity
	Summary  string // one sentence, of what the rule finds
}

// All returns the rules, errors first.
func All() []Rule {
	return []Rule{
		{InvalidDocument, Error, "A document is not YAML, or not an object of the Kubernetes API."},
		{UnknownKind, Error, "The API group weir.dev has no such kind or version."},
		{ForeignGroup, Error, "An object has a kind of Weir in another API group, so that it is not a policy of Weir."},
		{NothingToCheck, Error, "The files have neither a policy nor a Limiter."},
		{DuplicatePolicy, Error, "Two objects have the same kind and name. Only the first one counts."},
		{DuplicateField, Error, "An object has the same field twice."},
		{UnknownField, Error, "An object has a field that its kind does not have."},
		{InvalidValue, Error, "A value has the wrong type or form, is out of its bounds, is missing, or contradicts another one."},
		{Conflict, Error, "Two policies exclude each other, for example because they count under the same name."},

		{DefaultNamespace, Warning, "A policy has no namespace, so that it limits the requests of domain default."},
		{UnusualNumber, Warning, "A number is not in decimal digits, so that people and programs can read another one."},
		{NoMatch, Warning, "A policy can never limit a request."},
		{ShadowedTier, Warning, "No request belongs to a tier, because an earlier tier or the match takes all of them."},
		{RepeatedIdentifier, Warning, "An identifier is in two tiers. Only the first one applies to it."},
		{StricterPolicy, Warning, "A policy has no effect, because another one counts the same requests and is at least as strict."},
		{Replaces, Warning, "A policy replaces a default that does not exist, or one that is stricter."},
		{NoEffect, Warning, "A field has no effect."},
		{BlocksEverything, Warning, "A policy denies every request of its domain."},
		{CostAboveLimit, Warning, "A single request costs more than the limit admits."},
		{LargeLog, Warning, "A SlidingWindowLog takes much Redis memory for each identifier."},
		{WindowBoundary, Warning, "A FixedWindow admits up to twice the limit around the end of a window."},
		{DescriptorWithout, Warning, "The identifier is the value of a descriptor key that the policy does not match."},
		{PlainCredential, Warning, "A policy has a credential in plain text."},
		{AllResources, Warning, "API servers call Weir for every write."},
		{ScaleNotLimited, Warning, "A policy for updates of a workload does not cover its subresource scale."},
		{WritesNeverWait, Warning, "A policy for writes has a queue, and writes never wait."},
		{OverBudget, Warning, "A policy exceeds the policy budget of its Limiter."},
		{SeveralLimiters, Warning, "The files have several Limiters whose identity tables or budgets differ."},
		{InvalidSuppression, Warning, "An annotation of weir lint names an unknown rule, an error, or no reason."},
		{UnneededSuppression, Warning, "An annotation of weir lint suppresses nothing."},

		{Overridden, Note, "Another policy replaces a default for all of its requests in a domain."},
	}
}

// IDs returns the ids of all rules.
func IDs() (ids []string) {
	for _, r := range All() {
		ids = append(ids, r.ID)
	}
	return ids
}

// Find returns the rule with an id.
func Find(id string) (r Rule, exists bool) {
	all := All()
	if i := slices.IndexFunc(all, func(r Rule) bool { return r.ID == id }); i >= 0 {
		return all[i], true
	}
	return Rule{}, false
}

// page is the page of the documentation that describes the rules.
const page = "https://github.com/weir-dev/weir/blob/main/docs/reference/lint-rules.md"

// URL returns the address of the documentation of a rule.
func (r Rule) URL() string { return page + "#" + r.ID }
