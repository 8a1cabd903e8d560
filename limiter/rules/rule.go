// Package rules is the compiled form of policies: the operator publishes it, and a limiter matches requests against it.
//
// A [Set] is plain data with a canonical encoding. Its revision is the content hash of that encoding. Package matching compiles it for
// matching. This package and those below it are the only interface between the operator and the limiter.
package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/clientip"
)

// Set is the complete configuration that a limiter enforces. Rules are sorted by Policy, which is unique, unless a Go
// program writes them: matching.NewIndex sorts them.
type Set struct {
	Rules []Rule `json:"rules"`
	// Namespaces lists the namespaces whose labels or tenant the rules read, sorted by name. All others are unknown.
	Namespaces []Namespace `json:"namespaces,omitempty"`
	// HashKey is the ID of the limiter.HashKey with which identifiers are hashed. It is set if a rule has a secret identifier or compact
	// counters: a limiter with another key would count these identifiers under other keys, and find no secret in a tier.
	HashKey string `json:"hashKey,omitempty"`
	// ByAge lists the names of rules by namespace, those of the oldest policy first, for namespaces with more than matching.MaxPoliciesPerRequest rules, and under
	// policyname.Cluster those of cluster policies. Rules that it does not list are younger.
	ByAge map[string][]string `json:"byAge,omitempty"`
	// RouteTable has the routes of gateways that do not name the route of a request.
	RouteTable *RouteTable `json:"routeTable,omitempty"`
}

// HashesIdentifiers reports whether a rule hashes identifiers with a limiter.HashKey.
func (s Set) HashesIdentifiers() bool { return s.HashingRule() >= 0 }

// HashingRule returns the index of a rule that hashes identifiers, or -1.
func (s Set) HashingRule() int {
	return slices.IndexFunc(s.Rules, func(r Rule) bool { return r.HashesIdentifiers() })
}

// HashesIdentifiers reports whether the rule hashes identifiers with a limiter.HashKey.
func (r *Rule) HashesIdentifiers() bool { return r.HasSecrets() || r.Compact }

// Rule is one compiled policy, or one rate of it. Fields are additive: if a field is absent, the rule means what it meant before the field existed.
type Rule struct {
	// Policy is the name of the policy: "namespace/name", or "_cluster/name" for a cluster-scoped policy. If the policy has several rates, each is a
	// rule, and ":" and Rate follow the name.
	Policy string `json:"policy"`
	// Rate distinguishes the rules of a policy with several rates. For example: "1d".
	Rate string `json:"rate,omitempty"`
	// Counter is the name under which the rule counts, in the form of a policy's name. If absent, it is the name of the policy.
	Counter string `json:"counter,omitempty"`
	// Domain is the namespace of the policy, and the domain whose requests it limits; empty in a cluster-scoped policy.
	Domain string `json:"domain"`
	// Domains or AllDomains are the domains of a cluster-scoped policy. An identifier has one counter in all of them. Domains are also those of a
	// namespaced policy on a Gateway that has routes in other namespaces: they follow from Match.Routes, and have Domain only if a route is in it.
	Domains    []string `json:"domains,omitempty"`
	AllDomains bool     `json:"allDomains,omitempty"`
	// Default rules apply only if no other rule replaces them. Only rules without a Domain can be defaults.
	Default bool `json:"default,omitempty"`
	// ReplacesDefaults lists the policies, "_cluster/name", whose rules do not apply to requests that this rule matches, if they are defaults. A
	// shadow rule replaces no default. Defaults must not have it.
	ReplacesDefaults []string `json:"replacesDefaults,omitempty"`
	// Axis is the axis of the policy, for example "Tenant". It is part of the counter keys.
	Axis string `json:"axis"`
	// Identifier is the source of the identifier in a request.
	Identifier Identifier `json:"identifier"`
	// Fallbacks are the sources that are read, in this order, if the request has no identifier. See [ValidateFallbacks].
	Fallbacks []Identifier `json:"fallbacks,omitempty"`
	// OnMissing decides what happens to a request without an identifier from any source.
	OnMissing OnMissing `json:"onMissing,omitempty"`
	// PerEndpoint counts each endpoint separately.
	PerEndpoint bool `json:"perEndpoint,omitempty"`
	// Match selects the requests of the domain that the rule limits.
	Match Match `json:"match"`
	// Algorithm, Units and WindowSeconds are the arguments of limiter.NewLimit. 0 units deny every request, and count nothing.
	Algorithm     limiter.Algorithm `json:"algorithm"`
	Units         int64             `json:"units"`
	WindowSeconds int64             `json:"windowSeconds"`
	// Burst of a bucket. The compiler sets it explicitly. If absent, the default of the algorithm applies, or there is no burst.
	Burst int64 `json:"burst,omitempty"`
	// TiersOnly is true if the rule limits only the requests of its tiers. Units and Burst are then 0.
	TiersOnly bool `json:"tiersOnly,omitempty"`
	// Tiers give some requests another limit. The first tier that matches a request applies, or else the limit of the rule.
	Tiers []Tier `json:"tiers,omitempty"`
	// Cost of a request. If absent, a request costs 1 unit.
	Cost *Cost `json:"cost,omitempty"`
	// Debt rules count every charge in full, also what exceeds the limit or belongs to a denied request. See limiter.Charge.
	Debt bool `json:"debt,omitempty"`
	// WholeDebt admits a debt only if all of its units remain. It requires Debt.
	WholeDebt bool `json:"wholeDebt,omitempty"`
	// Shadow rules count and report, and never deny a request.
	Shadow bool `json:"shadow,omitempty"`
	// OnStoreFailure decides what happens while the store is unavailable.
	OnStoreFailure StoreFailure `json:"onStoreFailure,omitempty"`
	// LocalShare is what a replica admits of the limit with LocalOnFailure. Other values of OnStoreFailure must not have it.
	LocalShare LocalShare `json:"localShare,omitempty"`
	// Lease allows replicas to spend units ahead. If absent, every request is counted in the store.
	Lease *Lease `json:"lease,omitempty"`
	// Compact counters are those of limiter.KeySpace.Compact. Only counted windows have them.
	Compact bool `json:"compact,omitempty"`
	// Denial is the response to requests that the rule denies. If absent, it is a problem document with status 429.
	Denial *Denial `json:"denial,omitempty"`
}

// Lease bounds the units that replicas spend ahead, see limiter.LeaseTerms.
type Lease struct {
	MaxPercent      int64 `json:"maxPercent"`      // of the limit, 1 … 50
	MaxMilliseconds int64 `json:"maxMilliseconds"` // age of a lease, 100 … 10 000, at most half of the window
}

// StoreFailure decides what happens to a request while the store is unavailable.
type StoreFailure string

// The values of StoreFailure.
const (
	LocalOnFailure StoreFailure = ""      // each replica enforces its share of the limit
	AllowOnFailure StoreFailure = "Allow" // requests are admitted without counting
	DenyOnFailure  StoreFailure = "Deny"  // requests are rejected with an error
)

// LocalShare is what a replica admits of a limit while the store is unavailable.
type LocalShare string

// The values of LocalShare.
const (
	EqualShare LocalShare = ""      // what is left, divided equally among the replicas
	WholeShare LocalShare = "Whole" // all that is left, on each replica
)

// Tier is a limit for some of the requests of a rule, with the algorithm and the window of the rule.
type Tier struct {
	Name string `json:"name"`
	When When   `json:"when"`
	// Units and Burst have the meaning of those in Rule. If Unlimited is true, there is no limit; otherwise, 0 units deny every request.
	Units     int64 `json:"units,omitempty"`
	Burst     int64 `json:"burst,omitempty"`
	Unlimited bool  `json:"unlimited,omitempty"`
}

// When selects the requests of a Tier. Exactly one field is set. In a list, one matching element is enough.
type When struct {
	Header      *HeaderMatch `json:"header,omitempty"`
	Identifiers []string     `json:"identifiers,omitempty"` // in counted form; secrets are hashed
	CIDRs       []string     `json:"cidrs,omitempty"`       // networks of the client address
	Groups      []string     `json:"groups,omitempty"`      // from the claim "groups", or of the Kubernetes user
	// NamespaceSelector selects writes to the Kubernetes API by the labels of the namespace. It is never empty if set.
	NamespaceSelector Selector `json:"namespaceSelector,omitempty"`
	Expression        string   `json:"expression,omitempty"` // CEL over request, evaluates to a bool
}

// Cost is the number of units that a request costs. Exactly one field is set. The value of a header or an expression is valid from 0 to
// limiter.MaxUnits. If it is missing or invalid, the request costs 1 unit.
type Cost struct {
	Value      int64  `json:"value,omitempty"`
	Header     string `json:"header,omitempty"`     // lower case
	Expression string `json:"expression,omitempty"` // CEL over request, evaluates to an int
}

// HashPrefix marks what a person writes as the hash of a secret. A secret can look like a hash, and must not become part of a key.
const HashPrefix = "hash:"

// OtherEndpoints is the endpoint under which a rule counts requests to paths beyond the first 1000. It is not a valid path, because paths
// begin with a slash.
const OtherEndpoints = "*"

// DefaultIPv6Prefix is the prefix length, in bits, that identifies an IPv6 client. A client that owns a /64 could use a new address for
// each request.
const DefaultIPv6Prefix = 64

// ClientIdentifier returns the identifier of an address or a network under rules that count clients by address, or "" if the text is neither.
// ipv6Bits is the prefix length of an IPv6 client, 0 for the default.
func ClientIdentifier(text string, ipv6Bits int) string {
	network, _ := clientip.ParseNetwork(text)
	return clientip.Identifier(network, cmp.Or(ipv6Bits, DefaultIPv6Prefix))
}

// Match selects requests. A request must match every field that is set. In a list, one matching element is enough.
type Match struct {
	// Hosts in lower case: "api.shop.example", or "*.shop.example" for every name below shop.example.
	Hosts []string    `json:"hosts,omitempty"`
	Paths []PathMatch `json:"paths,omitempty"`
	// IgnoreCase compares paths without regard to case, and counts endpoints without it.
	IgnoreCase bool          `json:"ignoreCase,omitempty"`
	Methods    []string      `json:"methods,omitempty"`
	Headers    []HeaderMatch `json:"headers,omitempty"` // all of them
	// CIDRs and ExceptCIDRs apply to the client address. It must be in one of CIDRs and must not be in ExceptCIDRs.
	CIDRs       []string `json:"cidrs,omitempty"`
	ExceptCIDRs []string `json:"exceptCIDRs,omitempty"`
	// Expression is CEL over request and evaluates to a bool. With Kubernetes, request is the one of expr.ValidateKubernetes.
	Expression string `json:"expression,omitempty"`
	// Descriptors matches a descriptor of the request that has exactly these entries in this order.
	Descriptors []DescriptorMatch `json:"descriptors,omitempty"`
	// Kubernetes selects writes to the Kubernetes API. A rule without it does not match writes.
	Kubernetes *KubernetesMatch `json:"kubernetes,omitempty"`
	// Routes selects requests by the route that the gateway names. If absent, the route is not compared. An empty list, which is not absent,
	// matches no request: all routes of a Gateway can be deleted, and its rule must not match everything then. Hosts must be empty.
	Routes []Route `json:"routes,omitzero"`
}

// DescriptorMatch matches one entry of a descriptor. Without Value and Pattern it matches every value.
type DescriptorMatch struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	// Pattern matches values in which every "*" stands for any text, also the empty text.
	Pattern string `json:"pattern,omitempty"`
	// Except lists patterns. An entry whose value matches one of them does not match.
	Except []string `json:"except,omitempty"`
}

// PathMatch matches a request's path.
type PathMatch struct {
	Type  PathMatchType `json:"type"`
	Value string        `json:"value"`
}

// PathMatchType is the comparison of a path.
type PathMatchType string

// The comparisons of a path.
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

// HeaderMatchType is the comparison of a header.
type HeaderMatchType string

// The comparisons of a header.
const (
	HeaderExact   HeaderMatchType = "Exact"
	HeaderPresent HeaderMatchType = "Present"
	HeaderRegex   HeaderMatchType = "RegularExpression"
)

// Limit returns the limit of the rule. An error means that the compiler did not create the Set.
func (r *Rule) Limit() (limiter.Limit, error) {
	limit, err := limiter.NewLimit(r.Algorithm, r.Units, time.Duration(r.WindowSeconds)*time.Second)
	if err != nil || r.Burst == 0 {
		return limit, err
	}
	return limit.WithBurst(r.Burst)
}

// KeySpace returns the counter keys of the rule, with a Redis key prefix such as "weir:". Those of compact counters are not the keys of a
// limiter, which hashes with its own key. Their pattern is.
func (r *Rule) KeySpace(prefix string) (limiter.KeySpace, error) {
	limit, err := r.Limit()
	if err != nil {
		return limiter.KeySpace{}, fmt.Errorf("rule %s: %w", r.Policy, err)
	}
	keys := limiter.NewKeySpace(prefix, r.Axis, r.CounterScope(), limit)
	if r.Compact {
		keys = keys.Compact(new(limiter.HashKey))
	}
	return keys, nil
}

// CounterScope returns the name under which the rule counts. It is part of the counter keys. The rates of a policy have the same, because their
// keys differ in algorithm or window. Therefore the counters stay if the policy gets another rate.
func (r *Rule) CounterScope() string { return cmp.Or(r.Counter, r.PolicyName()) }

// PolicyName returns the name of the policy: Policy without the rate.
func (r *Rule) PolicyName() string {
	if r.Rate == "" {
		return r.Policy
	}
	return strings.TrimSuffix(r.Policy, ":"+r.Rate)
}

// WithoutRate returns the name of the policy in the name of a rule, see Rule.Policy. The name of a policy has no colon.
func WithoutRate(rule string) string {
	policy, _, _ := strings.Cut(rule, ":")
	return policy
}

// CountsPaths reports whether the rule counts the paths of requests separately, as far as they fit into its bound: see package endpoint.
func (r *Rule) CountsPaths() bool {
	return (r.PerEndpoint || r.Identifier.From == FromEndpoint) && len(r.Match.Paths) == 0
}

// IsNamed reports whether name is that of the policy or that of this rate.
func (r *Rule) IsNamed(name string) bool { return name == r.Policy || name == r.PolicyName() }

// Policies returns the rules of each policy, in the order of the Set. A policy has several rules if it has several rates.
func (s Set) Policies() iter.Seq2[string, []Rule] {
	return func(yield func(string, []Rule) bool) {
		for rest := s.Rules; len(rest) > 0; {
			name, own := rest[0].PolicyName(), 1
			for own < len(rest) && rest[own].PolicyName() == name {
				own++
			}
			if !yield(name, rest[:own]) {
				return
			}
			rest = rest[own:]
		}
	}
}

// PolicyRevision returns the content hash of the rules of one policy, as [Rule.Revision] does for a policy with one rule.
func PolicyRevision(own []Rule) string {
	if len(own) == 1 {
		return own[0].Revision()
	}
	return revision(mustMarshal(own))
}

// Revision returns the content hash of the rule, "sha256:…". Two Sets with the same hash enforce the policy in the same way.
func (r *Rule) Revision() string { return revision(mustMarshal(r)) }

func revision(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// mustMarshal encodes structs and slices of strings and integers. This cannot fail.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("rules: encoding plain data: %v", err))
	}
	return b
}

// Replaces reports whether r replaces other for requests of domain: one that certainly matches both is then not charged to other, which is a
// default. A namespaced policy replaces defaults only in the domain of its namespace: the owner of a Gateway must not loosen what protects others.
func (r *Rule) Replaces(other *Rule, domain string) bool {
	return other.Default && !r.Default && !r.Shadow && slices.Contains(r.ReplacesDefaults, other.PolicyName()) && (r.Domain == "" || r.Domain == domain)
}

// AppliesTo reports whether the rule is for requests of domain. A request without a domain has only rules for all domains.
func (r *Rule) AppliesTo(domain string) bool {
	switch {
	case r.AllDomains:
		return true
	case len(r.Domains) > 0:
		return slices.Contains(r.Domains, domain)
	default:
		return domain != "" && r.Domain == domain
	}
}
