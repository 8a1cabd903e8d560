package lowering

import (
	"cmp"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/credentials"
)

// Identity is the identity table of a Limiter: the source of the identifiers of each axis, for policies without an identifier.
type Identity struct {
	IP, Tenant, User, APIKey rules.Identifier
	// IPv6PrefixLength is the number of bits of an IPv6 address that identify one client, 1 … 128. 0 means 64.
	IPv6PrefixLength int
	// NamespaceLabel or NamespaceAnnotation is the key of the label or annotation of a namespace that contains its tenant, for writes to
	// the Kubernetes API. If both are empty, the tenant is the name of the namespace.
	NamespaceLabel, NamespaceAnnotation string
	// Credentials knows which identifiers contain credentials.
	Credentials credentials.Names
	// HashKey hashes the API keys in tiers. Without it, the rules must not leave the process, and no limiter accepts them.
	HashKey *limiter.HashKey
}

// WithHashKey returns the identity table with another HashKey.
func (i Identity) WithHashKey(key *limiter.HashKey) Identity {
	i.HashKey = key
	return i
}

// DefaultIdentity returns the identity table with the defaults of a Limiter.
func DefaultIdentity() Identity {
	return Identity{
		IP:     rules.Identifier{From: rules.FromClientIP},
		Tenant: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		User:   rules.Identifier{From: rules.FromHeader, Name: "x-user-id"},
		APIKey: rules.Identifier{From: rules.FromHeader, Name: "x-api-key"},
	}
}

// sourceFor returns the source of the identifier for an axis. There is no source for Custom: the policy must have an identifier.
func (i Identity) sourceFor(axis policyapi.Axis) (id rules.Identifier, exists bool) {
	switch axis {
	case policyapi.AxisIP:
		return i.IP, true
	case policyapi.AxisTenant:
		return i.Tenant, true
	case policyapi.AxisUser:
		return i.User, true
	case policyapi.AxisAPIKey:
		return i.APIKey, true
	case policyapi.AxisEndpoint:
		return rules.Identifier{From: rules.FromEndpoint}, true
	default:
		return rules.Identifier{}, false
	}
}

// kubernetesSourceFor returns the source of the identifier for an axis of writes to the Kubernetes API.
func kubernetesSourceFor(axis policyapi.Axis) rules.Identifier {
	switch axis {
	case policyapi.AxisTenant:
		return rules.Identifier{From: rules.FromKubernetesTenant}
	case policyapi.AxisNamespace:
		return rules.Identifier{From: rules.FromKubernetesNamespace}
	case policyapi.AxisServiceAccount:
		return rules.Identifier{From: rules.FromServiceAccount}
	default: // User, or Custom, whose own identifier replaces it
		return rules.Identifier{From: rules.FromKubernetesUser}
	}
}

// maxTenant is the maximum length of a tenant in an annotation, in bytes. It is the maximum length of an identifier in a tier.
const maxTenant = 253

// TenantOf returns the tenant in the label or annotation of the namespace that the identity table names, or else the name of the namespace.
func (i Identity) TenantOf(namespace string, labels, annotations map[string]string) string {
	tenant := ""
	switch {
	case i.NamespaceLabel != "":
		tenant = labels[i.NamespaceLabel]
	case i.NamespaceAnnotation != "":
		tenant = annotations[i.NamespaceAnnotation]
	}
	if tenant == "" || len(tenant) > maxTenant {
		return namespace
	}
	return tenant
}

// setIdentifier sets the sources of the policy's identifier: the one in the policy, or else the one in the identity table, and the fallbacks.
func setIdentifier(rule *rules.Rule, spec *policyapi.RateLimitPolicySpec, identity Identity) {
	rule.Identifier = identity.resolve(sourceOf(spec, identity), spec, &rule.Match)
	for _, source := range fallbacksOf(spec, rule.Identifier) {
		if source.From == rule.Identifier.From && source.Name == rule.Identifier.Name {
			continue // the identity table of the Limiter has it as the first source; read again, it adds nothing, and limiters reject such a rule
		}
		rule.Fallbacks = append(rule.Fallbacks, identity.resolve(source, spec, &rule.Match))
	}
	if spec.Identifier != nil {
		rule.OnMissing = lowerOnMissing(spec.Identifier.OnMissing)
	}
}

// sourceOf returns the first source of the policy's identifier.
func sourceOf(spec *policyapi.RateLimitPolicySpec, identity Identity) rules.Identifier {
	if spec.Identifier != nil && countSources(&spec.Identifier.IdentifierSource) > 0 {
		return identifierOf(&spec.Identifier.IdentifierSource)
	}
	if isKubernetes(spec) {
		return kubernetesSourceFor(spec.Axis)
	}
	id, _ := identity.sourceFor(spec.Axis)
	return id
}

// fallbacksOf returns the sources that follow the first one. The client address is the last one, unless the policy excludes it.
func fallbacksOf(spec *policyapi.RateLimitPolicySpec, first rules.Identifier) (all []rules.Identifier) {
	missing := policyapi.OnMissingClientAddress
	if first.From == rules.FromDescriptor && spec.Match != nil && slices.ContainsFunc(spec.Match.Descriptors, func(d policyapi.DescriptorMatch) bool {
		return string(d.Key) == first.Name
	}) {
		missing = policyapi.OnMissingShared // the entry is there, and an empty value is one value, as in Envoy's rate limit service
	}
	if given := spec.Identifier; given != nil {
		for i := range given.Fallbacks {
			if source := &given.Fallbacks[i]; countSources(source) > 0 { // validate rejects others
				all = append(all, identifierOf(source))
			}
		}
		missing = cmp.Or(given.OnMissing, missing)
	}
	hasAddress := !isKubernetes(spec) && first.From != rules.FromEndpoint && first.From != rules.FromClientIP
	if missing == policyapi.OnMissingClientAddress && hasAddress {
		all = append(all, rules.Identifier{From: rules.FromClientIP})
	}
	return all
}

// resolve returns what the limiter needs to know about a source. An API key and what can contain credentials are always secrets, and the
// identifier on axis IP is always an address.
func (i Identity) resolve(id rules.Identifier, spec *policyapi.RateLimitPolicySpec, match *rules.Match) rules.Identifier {
	isClient := id.From == rules.FromClientIP
	id.Secret = !isClient && (spec.Axis == policyapi.AxisAPIKey || i.Credentials.In(id, match))
	id.Address = !isClient && spec.Axis == policyapi.AxisIP
	if id.IsAddress() && i.IPv6PrefixLength != rules.DefaultIPv6Prefix { // rules omit the default
		id.IPv6Prefix = i.IPv6PrefixLength
	}
	return id
}

// lowerOnMissing returns what happens without any source. A client address is a source.
func lowerOnMissing(missing policyapi.OnMissing) rules.OnMissing {
	switch missing {
	case policyapi.OnMissingSkip:
		return rules.SkipMissing
	case policyapi.OnMissingDeny:
		return rules.DenyMissing
	default:
		return rules.ShareMissing
	}
}

func identifierOf(identifier *policyapi.IdentifierSource) rules.Identifier {
	switch {
	case identifier.Header != nil:
		return rules.Identifier{From: rules.FromHeader, Name: lowercase(*identifier.Header)}
	case identifier.Query != nil:
		return rules.Identifier{From: rules.FromQuery, Name: *identifier.Query}
	case identifier.Cookie != nil:
		return rules.Identifier{From: rules.FromCookie, Name: *identifier.Cookie}
	case identifier.Claim != nil:
		return rules.Identifier{From: rules.FromClaim, Name: *identifier.Claim}
	case identifier.Descriptor != nil:
		return rules.Identifier{From: rules.FromDescriptor, Name: string(*identifier.Descriptor)}
	default: // validate rejects an identifier without any source
		return rules.Identifier{From: rules.FromExpression, Name: string(*identifier.Expression)}
	}
}
