// Package rules is the compiled form of policies: what the operator publishes and a limiter matches requests against.
//
// A [Set] is pure data with a canonical encoding, and so a content hash, its revision. An [Index] is a Set made
// ready for matching. The operator and the limiter meet in this package and nowhere else.
package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Set is everything a limiter enforces. Rules are sorted by Policy, which is unique.
type Set struct {
	Rules []Rule `json:"rules"`
	// Namespaces, sorted by name, of which there is something to know; of one that is missing nothing is known.
	Namespaces []Namespace `json:"namespaces,omitempty"`
}

// Rule is one compiled policy. Fields are additive: a field that is absent means what the format meant before it.
type Rule struct {
	// Policy is the policy's name: "namespace/name", or "cluster/name" of a policy that belongs to no namespace.
	Policy string `json:"policy"`
	// Domain is which requests the policy speaks for: those of this domain.
	Domain string `json:"domain"`
	// Domains or AllDomains stand in the place of Domain in a policy that belongs to no namespace. An identifier has one counter
	// in all of them.
	Domains    []string `json:"domains,omitempty"`
	AllDomains bool     `json:"allDomains,omitempty"`
	// Default rules give pattern: a request that a rule with a Domain, on the same axis and not in shadow, matches too is not
	// charged to them. Only rules without a Domain can.
	Default bool `json:"default,omitempty"`
	// Axis is whose requests are counted together: "Tenant".
	Axis string `json:"axis"`
	// Identifier says where in a request the identifier stands.
	Identifier Identifier `json:"identifier"`
	// PerEndpoint counts every endpoint by itself.
	PerEndpoint bool `json:"perEndpoint,omitempty"`
	// Match says which of the domain's requests the rule is for.
	Match Match `json:"match"`
	// Algorithm, Units and WindowSeconds are what limiter.NewLimit takes.
	Algorithm     limiter.Algorithm `json:"algorithm"`
	Units         int64             `json:"units"`
	WindowSeconds int64             `json:"windowSeconds"`
	// Burst of a bucket, written out by the compiler; absent: none, or the algorithm's default.
	Burst int64 `json:"burst,omitempty"`
	// Tiers hold some of the identifiers to another limit: the first that a request is of, else the rule's own.
	Tiers []Tier `json:"tiers,omitempty"`
	// Cost of a request; absent: 1 unit.
	Cost *Cost `json:"cost,omitempty"`
	// Shadow rules are counted and reported and never deny.
	Shadow bool `json:"shadow,omitempty"`
	// OnStoreFailure is what decides while the store cannot be asked.
	OnStoreFailure StoreFailure `json:"onStoreFailure,omitempty"`
}

// StoreFailure is what decides while the store cannot be asked.
type StoreFailure string

// What decides while the store cannot be asked.
const (
	LocalOnFailure StoreFailure = ""      // every replica its share of the limit
	AllowOnFailure StoreFailure = "Allow" // nobody: nothing is counted
	DenyOnFailure  StoreFailure = "Deny"  // nobody: everything is refused
)

// Tier is a limit for some of a rule's identifiers, of the rule's algorithm and window.
type Tier struct {
	Name string `json:"name"`
	When When   `json:"when"`
	// Units and Burst as in Rule; Unlimited: none.
	Units     int64 `json:"units,omitempty"`
	Burst     int64 `json:"burst,omitempty"`
	Unlimited bool  `json:"unlimited,omitempty"`
}

// When says which requests are of a Tier. Exactly one field is set; within a list any element suffices.
type When struct {
	Header      *HeaderMatch `json:"header,omitempty"`
	Identifiers []string     `json:"identifiers,omitempty"` // as counted; of a secret: hashed
	CIDRs       []string     `json:"cidrs,omitempty"`       // of the client's address
	Groups      []string     `json:"groups,omitempty"`      // of the caller, from the claim "groups"; of who writes to the Kubernetes API
	// NamespaceSelector selects writes to the Kubernetes API; it is not empty.
	NamespaceSelector Selector `json:"namespaceSelector,omitempty"`
	Expression        string   `json:"expression,omitempty"` // CEL over request, a bool
}

// Cost is the units that a request costs. Exactly one field is set. What a header or an expression gives counts from 0 to
// limiter.MaxUnits; where it is missing or no such number: 1.
type Cost struct {
	Value      int64  `json:"value,omitempty"`
	Header     string `json:"header,omitempty"`     // lower case
	Expression string `json:"expression,omitempty"` // CEL over request, an int
}

// Identifier is where a request's identifier is read from.
type Identifier struct {
	From IdentifierSource `json:"from"`
	// Name is the header (lower case), query parameter, cookie, claim ("sub", or "realm.tenant" for a claim within another),
	// descriptor key, or the expression's text; empty for the other sources.
	Name string `json:"name,omitempty"`
	// IPv6Prefix is how many bits of an IPv6 address are counted as one; absent: 64.
	IPv6Prefix int `json:"ipv6Prefix,omitempty"`
	// Secret identifiers stand hashed in keys, answers and logs.
	Secret bool `json:"secret,omitempty"`
	// Address identifiers are IP addresses and counted like FromClientIP, whatever their spelling; a value that is
	// none counts as missing.
	Address bool `json:"address,omitempty"`
}

// IdentifierSource is a part of a request.
type IdentifierSource string

// The sources of an identifier.
const (
	FromClientIP   IdentifierSource = "clientIP" // an IPv6 address stands for its prefix
	FromHeader     IdentifierSource = "header"
	FromQuery      IdentifierSource = "query"
	FromCookie     IdentifierSource = "cookie"
	FromClaim      IdentifierSource = "claim"
	FromDescriptor IdentifierSource = "descriptor" // the value beside the key
	FromExpression IdentifierSource = "expression" // CEL over request, a string
	FromEndpoint   IdentifierSource = "endpoint"   // the path pattern that matched, else the path

	// FromKubernetesTenant and those below are of writes to the Kubernetes API: the tenant is that of the Namespace. A rule does
	// not match a write that has none of its source: an object in no namespace, a user who is no service account.
	FromKubernetesTenant    IdentifierSource = "kubernetesTenant"
	FromKubernetesNamespace IdentifierSource = "kubernetesNamespace" // of the object
	FromKubernetesUser      IdentifierSource = "kubernetesUser"
	FromServiceAccount      IdentifierSource = "serviceAccount" // "namespace/name" of the user
)

// Match selects requests: every part that is present must match; within a list any element suffices.
type Match struct {
	// Hosts in lower case: "api.shop.example", or "*.shop.example" for every name below shop.example.
	Hosts   []string      `json:"hosts,omitempty"`
	Paths   []PathMatch   `json:"paths,omitempty"`
	Methods []string      `json:"methods,omitempty"`
	Headers []HeaderMatch `json:"headers,omitempty"` // all of them
	// CIDRs and ExceptCIDRs speak of the client's address: in one of these, in none of those.
	CIDRs       []string `json:"cidrs,omitempty"`
	ExceptCIDRs []string `json:"exceptCIDRs,omitempty"`
	// Expression is CEL over request, a bool; beside Kubernetes over that of ValidateKubernetesExpression.
	Expression string `json:"expression,omitempty"`
	// Descriptors match one whole descriptor of the request: as many entries, in this order.
	Descriptors []DescriptorMatch `json:"descriptors,omitempty"`
	// Kubernetes selects writes to the Kubernetes API, which no rule without it matches.
	Kubernetes *KubernetesMatch `json:"kubernetes,omitempty"`
}

// DescriptorMatch matches an entry of a descriptor. An empty value matches any.
type DescriptorMatch struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// PathMatch matches a request's path.
type PathMatch struct {
	Type  PathMatchType `json:"type"`
	Value string        `json:"value"`
}

// PathMatchType is how a path is compared.
type PathMatchType string

// The patterns to compare a path.
const (
	PathExact  PathMatchType = "Exact"
	PathPrefix PathMatchType = "PathPrefix" // whole segments: /v1 matches /v1 and /v1/x, not /v10
	PathRegex  PathMatchType = "RegularExpression"
)

// HeaderMatch matches one header of a request.
type HeaderMatch struct {
	Type   HeaderMatchType `json:"type"`
	Name   string          `json:"name"` // lower case
	Value  string          `json:"value,omitempty"`
	Invert bool            `json:"invert,omitempty"`
}

// HeaderMatchType is how a header is compared.
type HeaderMatchType string

// The patterns to compare a header.
const (
	HeaderExact   HeaderMatchType = "Exact"
	HeaderPresent HeaderMatchType = "Present"
	HeaderRegex   HeaderMatchType = "RegularExpression"
)

// Limit returns the rule's limit; an error means that the Set was not made by the compiler.
func (r *Rule) Limit() (limiter.Limit, error) {
	limit, err := limiter.NewLimit(r.Algorithm, r.Units, time.Duration(r.WindowSeconds)*time.Second)
	if err != nil || r.Burst == 0 {
		return limit, err
	}
	return limit.WithBurst(r.Burst)
}

// KeySpace returns the keys the rule counts under, with the Redis prefix ("weir:") given.
func (r *Rule) KeySpace(prefix string) (limiter.KeySpace, error) {
	limit, err := r.Limit()
	if err != nil {
		return limiter.KeySpace{}, fmt.Errorf("rule %s: %w", r.Policy, err)
	}
	return limiter.NewKeySpace(prefix, r.Axis, r.Policy, limit), nil
}

// Revision is the rule's content hash, "sha256:…": two Sets that hold it enforce the same policy the same pattern.
func (r *Rule) Revision() string { return revision(mustMarshal(r)) }

func revision(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// mustMarshal encodes plain data: structs and slices of strings and integers, which cannot fail.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("rules: encoding plain data: %v", err))
	}
	return b
}
