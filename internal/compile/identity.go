package compile

import (
	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// Identity is a Limiter's identity table: where the identifiers of an axis stand in requests, for the policies that do
// not say it themselves.
type Identity struct {
	IP, Tenant, User, APIKey rules.Identifier
	// IPv6PrefixLength is how many bits of an IPv6 address are counted as one, 1 … 128; 0 stands for 64.
	IPv6PrefixLength int
	// NamespaceLabel or NamespaceAnnotation of a namespace holds its tenant, for writes to the Kubernetes API; without either a
	// namespace is its own tenant.
	NamespaceLabel, NamespaceAnnotation string
}

// IdentityOf is the table of a Limiter. What an API server would have filled in is what [DefaultIdentity] says.
func IdentityOf(spec *v1alpha1.LimiterSpec) Identity {
	table, identity := spec.Identity, DefaultIdentity()
	for _, header := range []struct {
		given v1alpha1.HeaderName
		of    *rules.Identifier
	}{{table.Tenant.Header, &identity.Tenant}, {table.User.Header, &identity.User}, {table.APIKey.Header, &identity.APIKey}} {
		if header.given != "" {
			header.of.Name = lowercase(header.given)
		}
	}
	identity.IPv6PrefixLength = int(table.IP.IPv6PrefixLength)
	identity.NamespaceLabel = string(table.Tenant.NamespaceLabel)
	identity.NamespaceAnnotation = string(table.Tenant.NamespaceAnnotation)
	return identity
}

// defaultIPv6Prefix is what an IPv6 client owns; rules leave it out.
const defaultIPv6Prefix = 64

// DefaultIdentity is the table of a Limiter that says nothing else.
func DefaultIdentity() Identity {
	return Identity{
		IP:     rules.Identifier{From: rules.FromClientIP},
		Tenant: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		User:   rules.Identifier{From: rules.FromHeader, Name: "x-user-id"},
		APIKey: rules.Identifier{From: rules.FromHeader, Name: "x-api-key"},
	}
}

// of returns the table's entry for axis. Endpoints identify themselves; of Custom the policy alone knows.
func (i Identity) of(axis v1alpha1.Axis) (id rules.Identifier, known bool) {
	switch axis {
	case v1alpha1.AxisIP:
		return i.IP, true
	case v1alpha1.AxisTenant:
		return i.Tenant, true
	case v1alpha1.AxisUser:
		return i.User, true
	case v1alpha1.AxisAPIKey:
		return i.APIKey, true
	case v1alpha1.AxisEndpoint:
		return rules.Identifier{From: rules.FromEndpoint}, true
	default:
		return rules.Identifier{}, false
	}
}

// ofKubernetes is of for writes to the Kubernetes API.
func ofKubernetes(axis v1alpha1.Axis) rules.Identifier {
	switch axis {
	case v1alpha1.AxisTenant:
		return rules.Identifier{From: rules.FromKubernetesTenant}
	case v1alpha1.AxisNamespace:
		return rules.Identifier{From: rules.FromKubernetesNamespace}
	case v1alpha1.AxisServiceAccount:
		return rules.Identifier{From: rules.FromServiceAccount}
	default: // validate has seen to it that it is User, or Custom with an identifier of its own
		return rules.Identifier{From: rules.FromKubernetesUser}
	}
}

// resolve returns where the policy's identifier stands in a request: where the policy says, else where the table says.
// The table cannot make an API key anything but a secret, nor the text of an address anything but an address.
func resolve(policy valid, identity Identity) rules.Identifier {
	id, _ := identity.of(policy.spec.Axis)
	if isKubernetes(policy.spec) {
		id = ofKubernetes(policy.spec.Axis)
	}
	if own := policy.spec.Identifier; own != nil {
		id = identifierOf(own)
	}
	id.Secret = policy.spec.Axis == v1alpha1.AxisAPIKey
	if policy.spec.Axis != v1alpha1.AxisIP {
		return id
	}
	id.Address = id.From != rules.FromClientIP
	if identity.IPv6PrefixLength != defaultIPv6Prefix {
		id.IPv6Prefix = identity.IPv6PrefixLength
	}
	return id
}

func identifierOf(own *v1alpha1.Identifier) rules.Identifier {
	switch {
	case own.Header != nil:
		return rules.Identifier{From: rules.FromHeader, Name: lowercase(*own.Header)}
	case own.Query != nil:
		return rules.Identifier{From: rules.FromQuery, Name: *own.Query}
	case own.Cookie != nil:
		return rules.Identifier{From: rules.FromCookie, Name: *own.Cookie}
	case own.Claim != nil:
		return rules.Identifier{From: rules.FromClaim, Name: *own.Claim}
	case own.Descriptor != nil:
		return rules.Identifier{From: rules.FromDescriptor, Name: string(*own.Descriptor)}
	default: // validate has seen to it that one is set
		return rules.Identifier{From: rules.FromExpression, Name: string(*own.Expression)}
	}
}
