package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Identifier is the source of the identifier in a request.
type Identifier struct {
	From IdentifierSource `json:"from"`
	// Name is the name of the header (lower case), query parameter, cookie or claim ("sub", or "realm.tenant" for a nested claim), the
	// descriptor key, or the text of the expression. It is empty for the other sources.
	Name string `json:"name,omitempty"`
	// IPv6Prefix is the number of bits of an IPv6 address that identify one client. If absent, it is 64.
	IPv6Prefix int `json:"ipv6Prefix,omitempty"`
	// Secret identifiers are hashed in keys, responses and logs.
	Secret bool `json:"secret,omitempty"`
	// Address identifiers are IP addresses in any spelling, and are counted like FromClientIP. An invalid address counts as missing.
	Address bool `json:"address,omitempty"`
}

// IdentifierSource is a part of a request.
type IdentifierSource string

// The sources of identifiers.
const (
	FromClientIP   IdentifierSource = "clientIP" // an IPv6 address is counted by its prefix
	FromHeader     IdentifierSource = "header"
	FromQuery      IdentifierSource = "query"
	FromCookie     IdentifierSource = "cookie"
	FromClaim      IdentifierSource = "claim"
	FromDescriptor IdentifierSource = "descriptor" // the value of the entry with the key
	FromExpression IdentifierSource = "expression" // CEL over request, evaluates to a string
	FromEndpoint   IdentifierSource = "endpoint"   // the path pattern that matched, or else the path

	// FromKubernetesTenant and the sources below are for writes to the Kubernetes API. The tenant is the tenant of the Namespace. A rule
	// does not match a write without the source, such as a cluster-scoped object or a user that is not a service account.
	FromKubernetesTenant    IdentifierSource = "kubernetesTenant"
	FromKubernetesNamespace IdentifierSource = "kubernetesNamespace" // of the object
	FromKubernetesUser      IdentifierSource = "kubernetesUser"
	FromServiceAccount      IdentifierSource = "serviceAccount" // "namespace/name" of the user
)

// OnMissing decides what happens to a request without an identifier.
type OnMissing string

// The values of OnMissing.
const (
	ShareMissing OnMissing = ""     // all such requests share one counter
	SkipMissing  OnMissing = "Skip" // the rule does not match. It matches a request whose identifier cannot be read
	DenyMissing  OnMissing = "Deny" // the request is denied, also if its identifier cannot be read
)

// Prefix is what identifiers from a fallback begin with as they are counted, so that they differ from the same text of another source. For example
// "address:", or "claim:sub:".
func (i Identifier) Prefix() string {
	switch i.From {
	case FromClientIP:
		return "address:"
	case FromExpression:
		return "expression:"
	default:
		return string(i.From) + ":" + i.Name + ":"
	}
}

// Describe names the source for a client that has to send the identifier. It does not contain the text of an expression.
func (i Identifier) Describe() string {
	switch i.From {
	case FromClientIP:
		return "client address"
	case FromHeader, FromCookie, FromClaim, FromDescriptor:
		return string(i.From) + " " + i.Name
	case FromQuery:
		return "query parameter " + i.Name
	default:
		return "identifier of the policy"
	}
}

// Sources returns the sources of identifiers in the order in which they are read.
func (r *Rule) Sources() []Identifier { return append([]Identifier{r.Identifier}, r.Fallbacks...) }

// DescribeSources names all sources, see Describe. For example: "header x-api-key or query parameter key".
func (r *Rule) DescribeSources() string {
	var names []string
	for _, s := range r.Sources() {
		names = append(names, s.Describe())
	}
	return strings.Join(names, " or ")
}

// IsAddress reports whether the identifiers are addresses.
func (i Identifier) IsAddress() bool { return i.From == FromClientIP || i.Address }

// HasSecrets reports whether identifiers from one of the sources are secret.
func (r *Rule) HasSecrets() bool {
	return slices.ContainsFunc(r.Sources(), func(s Identifier) bool { return s.Secret })
}

// SourceOf returns the source of an identifier as the rule counts it, and the length of the [Identifier.Prefix] that it begins with.
func (r *Rule) SourceOf(counted string) (source Identifier, prefix int) {
	for _, f := range r.Fallbacks {
		if prefix := f.Prefix(); strings.HasPrefix(counted, prefix) {
			return f, len(prefix)
		}
	}
	return r.Identifier, 0
}

// ValidateFallbacks returns an error if identifiers from two sources could be counted as one.
func ValidateFallbacks(first Identifier, fallbacks []Identifier) error {
	for i, f := range fallbacks {
		if f.From == first.From && f.Name == first.Name {
			return fmt.Errorf("fallbacks[%d] is the source of the identifier itself", i)
		}
		for j, other := range fallbacks[:i] {
			if a, b := f.Prefix(), other.Prefix(); strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
				return fmt.Errorf("fallbacks[%d] and fallbacks[%d] can have equal identifiers, because both can begin with %q", j, i, max(a, b))
			}
		}
	}
	return nil
}
